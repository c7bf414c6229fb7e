"""Habits with PyOpenCL, PyTorch and JAX, and mistakes."""

from .habit import Theme, top

habit = Theme("PyOpenCL", "pyopencl opencl")

top("cl", """
    import pyopencl as cl
    import pyopencl.array

    TWICE = "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }"
""")

habit("a queue", "-> q: queue", """
    $q = cl.CommandQueue(cl.create_some_context(interactive=False))
""", tops="cl", bars="fork", weight=6)  # A child hangs in PoCL, with PyOpenCL alone too.
habit("a queue as a stream", "q: queue -> s: stream opencl", """
    $s = xd.Stream("opencl:0", native=$q)
""", weight=4)
habit("a queue is dropped", "q: queue", """
    del $q
""", drops="q")
habit("an array of PyOpenCL", "q: queue -> t: tensor opencl new float32", """
    $new = cl.array.to_device($q, np.arange(32, dtype="f4"))
    $t = xd.from_opencl($new.base_data, shape=32, dtype="float32", queue=$q)
    want_$t = np.arange(32, dtype="f4")
""", tops="cl", weight=4)
habit("a buffer of PyOpenCL", "q: queue -> t: tensor opencl new int32", """
    $new = np.arange(64, dtype="i4")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    $t = xd.from_opencl(cl.Buffer($q.context, flags, hostbuf=$new), shape=(8, 8), dtype=np.int32)
    want_$t = $new.reshape(8, 8).copy()
""", tops="cl", weight=4)
habit("a buffer over an array", "q: queue -> t: tensor opencl frozen new int32", """
    $new = np.arange(64, dtype="i4")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    $t = xd.from_opencl(cl.Buffer($q.context, flags, hostbuf=$new), shape=64, dtype="int32", queue=$q)
    want_$t = $new.copy()
""", tops="cl")
habit("a kernel on a tensor", "-> t: tensor opencl frozen new float32", """
    $t = xd.from_dlpack(np.arange(100, dtype="f4")).to("opencl:0", copy=True)
    $new = cl.CommandQueue.from_int_ptr(xd.current_stream("opencl:0").native_handle, retain=True)
    pixels = cl.MemoryObject.from_int_ptr($t.cl_mem, retain=True)
    cl.Kernel(cl.Program($new.context, TWICE).build(), "twice")($new, (100,), None, pixels).wait()
    want_$t = np.arange(100, dtype="f4") * 2
""", tops="cl", weight=4)
habit("kernels that nobody waits for", "q: queue -> t: tensor opencl new float32", """
    $new = cl.array.to_device($q, np.ones(4096, "f4"))
    twice = cl.Kernel(cl.Program($q.context, TWICE).build(), "twice")
    for _ in range(5):
        twice($q, (4096,), None, $new.base_data)
    $t = xd.from_opencl($new.base_data, shape=4096, dtype="float32", queue=$q)
    want_$t = np.full(4096, 32, "f4")
""", tops="cl", weight=4)
habit("an event of the user holds a stream", "q: queue; t: tensor -> c: tensor opencl new of t", """
    $new = cl.UserEvent($q.context)
    cl.enqueue_barrier($q, [$new])
    threading.Timer(0.05, $new.set_status, (cl.command_execution_status.COMPLETE,)).start()
    $c = $t.to("opencl:0", copy=True, stream=xd.Stream("opencl:0", native=$q))
    want_$c = want_$t.copy()
""", tops="cl", weight=3)
habit("PyOpenCL copies out of a tensor", "t: tensor opencl exact whole float32; q: queue", """
    quiet()
    $new = cl.CommandQueue.from_int_ptr(xd.current_stream("opencl:0").native_handle, retain=True)
    memory = cl.MemoryObject.from_int_ptr($t.cl_mem, retain=True)
    print(memory.size >= $t.nbytes, flush=True)
""", tops="cl")
habit("a queue in a thread", "q: queue", """
    def work(queue):
        stream = xd.Stream("opencl:0", native=queue)
        for _ in range($n):
            xd.zeros(1000).to("opencl:0", copy=True, stream=stream)
    threading.Thread(target=work, args=($q,)).start()
""", weight=3)
habit("work of PyOpenCL at the end", "q: queue", """
    $new = cl.array.zeros($q, 100_000, "f4")
    atexit.register(lambda: cl.enqueue_fill_buffer($q, $new.base_data, np.float32(1), 0, 400_000))
""", tops="cl")

habit = Theme("PyTorch", "torch")

top("torch", """
    import torch
    from torch.utils.data import DataLoader
""")
top("numbers", """
    class Numbers:
        def __init__(self, tensor):
            self.tensor = tensor
        def __len__(self):
            return len(self.tensor)
        def __getitem__(self, index):
            return torch.from_dlpack(xd.from_dlpack(np.from_dlpack(self.tensor[index : index + 1]))).double()
""")

habit("a tensor of PyTorch's", "-> t: tensor cpu new float32", """
    $t = xd.from_dlpack(torch.arange(24, dtype=torch.float32).reshape(2, 3, 4))
    want_$t = np.arange(24, dtype="f4").reshape(2, 3, 4)
""", tops="torch", weight=6)
habit("PyTorch writes", "t: tensor cpu writable float32", """
    quiet()
    torch.from_dlpack($t).mul_(2)
    want_$t *= 2
""", tops="torch", weight=6)
habit("PyTorch keeps a tensor", "t: tensor cpu float32", """
    $new = torch.from_dlpack($t.copy())
""", tops="torch", weight=4)
habit("PyTorch writes to a model", "m: tensor cpu readonly float32", """
    torch.from_dlpack($m).add_(1)
""", tops="torch", blurs="m", weight=6)
habit("an optimiser over a model", "-> m: tensor cpu readonly new float32", """
    xd.save(folder / "$new.safetensors", {"weight": np.ones((3, 4), "f4")})
    $m, want_$m = xd.load(folder / "$new.safetensors")["weight"], np.ones((3, 4), "f4")
    $new = torch.nn.Parameter(torch.from_dlpack($m))
    optimiser = torch.optim.SGD([$new], lr=0.1)
    $new.sum().backward()
    optimiser.step()
    want_$m -= np.float32(0.1)
""", tops="torch", weight=6)
habit("a gradient through a tensor", "t: tensor cpu exact float32", """
    $new = torch.from_dlpack($t.copy()).requires_grad_()
    ($new * $new).sum().backward()
    check(xd.from_dlpack($new.grad), want_$t * 2)
    tried(lambda: xd.from_dlpack($new))
""", tops="torch", weight=4)
habit("PyTorch is given a tensor on a device", "t: tensor", """
    tried(lambda: torch.from_dlpack($t))
    tried(lambda: torch.as_tensor($t))
    tried(lambda: torch.from_dlpack($t, device="cpu"))
    tried(lambda: torch.utils.dlpack.from_dlpack($t.__dlpack__()))
""", tops="torch", weight=6)
habit("a loader of forked workers", "t: tensor cpu", """
    loader = DataLoader(Numbers($t), num_workers=2, multiprocessing_context="fork", batch_size=None)
    for $new in loader:
        break
""", tops="torch numbers", weight=4)
habit("a whole loader of forked workers", "", """
    loader = DataLoader(Numbers(xd.asarray(np.arange(8.0))), num_workers=2, multiprocessing_context="fork")
    check(np.array(sorted(float(one) for one in loader)), np.arange(8.0))
""", tops="torch numbers", weight=4)
habit("a loader of spawned workers", "", """
    loader = DataLoader(Numbers(xd.asarray(np.arange(4.0))), num_workers=1, multiprocessing_context="spawn")
    check(np.array(sorted(float(one) for one in loader)), np.arange(4.0))
""", tops="torch numbers", weight=2, is_slow=True)
habit("a loader that stays open", "", """
    $new = iter(DataLoader(
        Numbers(xd.asarray(np.arange(8.0))), num_workers=2, multiprocessing_context="fork", persistent_workers=True
    ))
    next($new)
""", tops="torch numbers", weight=3, bars="os.fork os.exec")
# No daemon works with PyTorch at the end: the process aborts then, with PyTorch alone.
habit("a thread of PyTorch's", "t: tensor cpu float32", """
    def a_while(tensor):
        for _ in range(20):
            xd.from_dlpack(torch.from_dlpack(tensor) * 2).to("$device", copy=True)
    threading.Thread(target=a_while, args=($t,)).start()
""", tops="torch", weight=3)
habit("a loop of PyTorch's copies on a stream", "s: stream", """
    for number in range($n):
        xd.from_dlpack(torch.full((1000,), number)).to("$device", copy=True, stream=$s)
""", tops="torch", weight=4)

# A process that has used JAX is not to be forked: its children crash, with JAX alone.
habit = Theme("JAX", "jax")

top("jax", """
    import jax, jax.numpy as jnp
""")

habit("an array of JAX's", "-> t: tensor cpu readonly new float32", """
    $t = xd.from_dlpack(jnp.arange(24, dtype=jnp.float32).reshape(4, 6))
    want_$t = np.arange(24, dtype="f4").reshape(4, 6)
""", tops="jax", bars="fork", weight=6)
habit("JAX takes a tensor", "t: tensor cpu exact float32", """
    $new = jnp.from_dlpack($t.copy())
    check(np.asarray($new * 2), want_$t * 2)
""", tops="jax", bars="fork", weight=6)
habit("JAX is given what it may not take", "t: tensor", """
    tried(lambda: jnp.from_dlpack($t))
    tried(lambda: jnp.asarray($t))
""", tops="jax", bars="fork", weight=4)
habit("JAX's work goes to a stream", "s: stream", """
    work = jax.jit(lambda x: x @ x)
    for number in range(min($n, 20)):
        xd.from_dlpack(work(jnp.full((50, 50), number, "f4"))).to("$device", copy=True, stream=$s)
""", tops="jax", bars="fork", weight=4)
habit("JAX keeps a tensor", "t: tensor cpu float32", """
    $new = jnp.from_dlpack($t.copy())
""", tops="jax", bars="fork", weight=4)
habit("a callback of JAX's makes tensors", "", """
    def on_host(x):
        return np.asarray(xd.from_dlpack(np.array(x)).to("$device", copy=True).to("cpu").numpy())
    $new = jax.jit(lambda x: jax.pure_callback(on_host, jax.ShapeDtypeStruct((8,), "f4"), x))(jnp.ones(8))
    check(np.asarray($new), np.ones(8, "f4"))
""", tops="jax", bars="fork", weight=3)

habit = Theme("mistakes")

habit("a mistake", "t: tensor", """
    tried(lambda: $mistake)
""", blurs="t", weight=20, mistakes=[
    "$t.fill('x')", "$t['a']", "$t[99999999]", "$t[1.5]", "$t[[0, 1]]", "$t[()][..., ..., None]", "$t.reshape(7, 7, 7)",
    "$t.to('cuda:9')", "$t.to('nothing')", "$t.to(5)", "$t.to(np)", "$t.fill(1e400)", "$t.fill(10**30)", "$t.fill(None)",
    "$t.to('$device', stream=1)", "$t.to('$device', stream=12345, copy=True)", "$t.fill(1, stream=7)",
    "$t.fill(1, stream=-1)", "$t.fill(1, stream=1 << 70)", "$t.fill(1, stream='s')", "$t.fill(1, stream=$t.data_ptr())",
    "xd.Stream('$device', native=1)", "xd.Stream('$device', native=np.zeros(3))", "xd.Stream('$device', native=id($t))",
    "$t.__setitem__(..., np.zeros((9, 9, 9)))", "$t.__setitem__(..., 'text')", "$t.__setitem__(99999, 1)",
    "$t.__setitem__(..., np.zeros(3, 'O'))", "$t.__setitem__(..., [[1], [2, 3]])", "$t.__dlpack__(stream=5)",
    "$t.__dlpack__(max_version='a')", "$t.__dlpack__(dl_device=(99, 0))", "$t @ $t", "$t + 1", "bool($t)", "1 in $t",
    "int($t)", "$t.item()", "$t.permute_dims([0, 0])", "$t.permute_dims([7])", "setattr($t, 'x', 1)", "len($t[0][0])",
    "hash($t)", "type($t)()", "xd.Event()", "np.from_dlpack($t)", "np.asarray($t)", "memoryview($t)", "bytes($t)",
    "np.asarray($t, dtype='M8[s]')", "[xd.from_dlpack(one) for one in [$t.__dlpack__()] * 2]", "$t.synchronize('x')",
    "$t.synchronize(-1)", "$t.cl_mem", "$t.__cuda_array_interface__", "$t.to('$device', copy=3)", "$t.to(copy=False)",
    "np.lib.stride_tricks.sliding_window_view($t.numpy(), 2)", "xd.save('/nonexistent/a.npy', $t)",
    "xd.save(folder / 'a.txt', $t)", "xd.save(folder / 'a.npy', object())", "$t.copy(1)", "$t.tolist(1)", "$t[:, :, :, :, :]",
    "json.dumps($t)", "np.multiply($t, 2, out=$t)", "np.frombuffer($t)", "np.copyto($t, 1)", "$t.numpy().resize((1, 1))",
])
habit("a mistake without a tensor", "", """
    tried(lambda: $mistake)
""", weight=12, mistakes=[
    "xd.zeros((-1,))", "xd.zeros(3, dtype='float33')", "xd.zeros(3, dtype=object)", "xd.zeros('3')", "xd.zeros(3.5)",
    "xd.empty(1 << 62)", "xd.empty((1 << 40, 1 << 40))", "xd.zeros(1 << 44)", "xd.empty(3, device='$device:1')",
    "xd.device(5)", "xd.device('')", "xd.device('cpu:-1')", "xd.device((1, 2, 3))", "xd.from_dlpack(5)", "xd.from_dlpack(None)",
    "xd.from_dlpack(xd)", "xd.from_dlpack(np.zeros(3, 'O'))", "xd.from_dlpack(np.zeros(3, '>f4'))", "xd.asarray(object())",
    "xd.asarray('text')", "xd.asarray([1, 'a'])", "xd.asarray([[1], [2, 3]])", "xd.asarray(np.zeros(3, 'U4'))",
    "xd.from_opencl(12345, shape=4, dtype='f4')", "xd.from_opencl(None, shape=4, dtype='f4')", "xd.load('/nonexistent.npy')",
    "xd.load('/')", "xd.load(__file__)", "xd.load_plugin('/nonexistent.so')", "xd.load_plugin(__file__)", "xd.pointer_info(1)",
    "xd.pointer_info(-1)", "xd.as_cuda_array({})", "xd.as_cuda_array(np.zeros(3))", "xd.Stream()", "xd.Stream('$device').wait(1)",
    "xd.Stream('$device').synchronize(float('nan'))", "xd.from_cuda_array_interface({'shape': (3,), 'typestr': '<f4', 'data': (64, False), 'version': 3})",
    "xd.current_stream(None)", "xd.wait_for_releases(-1)", "xd.Tensor()", "xd.Device()", "xd.full(3, 'x')", "xd.asarray(range(3), copy='x')",
    "xd.asarray((lambda l: l.append(l) or l)([]))", "xd.asarray(iter([1, 2]))", "xd.asarray({1: 2})", "xd.save(folder / 'a.npz', [])",
])
habit("a write to what overlaps itself", "-> a: array frozen new float64", """
    $a = np.arange(20.0)
    want_$a = $a.copy()
    $new = xd.from_dlpack(np.lib.stride_tricks.sliding_window_view($a, 3, writeable=True))
    tried(lambda: $new.__setitem__(..., 1))
    tried(lambda: $new.fill(1))
    tried(lambda: $new[1:].__setitem__(..., 1))
""")
habit("a write to what is read-only", "t: tensor readonly", """
    tried(lambda: $t.fill(1))
    tried(lambda: $t.__setitem__(..., 1))
    tried(lambda: np.asarray($t).fill(1))
    tried(lambda: memoryview($t).cast("B").__setitem__(0, 1))
""", weight=4)
habit("a plugin is retired", "t: tensor", """
    tried(lambda: xd.plugins()[-1].retire())
    tried($t.tolist)
    sys.exit(9)
""", is_end=True)
