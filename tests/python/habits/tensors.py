"""Habits with tensors, files, pickles and what the garbage collector finds."""

from .habit import Theme

habit = Theme("tensors")

habit("an array", "-> a: array new $dtype", """
    $a = np.arange(np.prod($shape)).astype("$dtype").reshape($shape)
    want_$a = $a.copy()
""", weight=6)
habit("a tensor of an array", "a: array -> t: tensor cpu of a", """
    $t, want_$t = xd.from_dlpack($a), want_$a
""", weight=8)
habit("a tensor of a strided array", "a: array -> t: tensor cpu view of a", """
    $t, want_$t = xd.from_dlpack($a[::2]), want_$a[::2]
""")
habit("a tensor of a list", "-> t: tensor cpu new float64", """
    $t = xd.asarray([[1, 2.5, 3], [4, 5, $value]])
    want_$t = np.array([[1, 2.5, 3], [4, 5, $value]])
""")
habit("a tensor of a buffer", "-> t: tensor cpu new uint8", """
    $t = xd.asarray(bytearray(range(64)))
    want_$t = np.arange(64, dtype="u1")
""")
habit("a tensor of bytes", "-> t: tensor cpu readonly new uint8", """
    $t = xd.asarray(bytes(range(64)))
    want_$t = np.arange(64, dtype="u1")
""")
habit("a tensor of an array.array", "-> t: tensor cpu new float64", """
    $t = xd.asarray(array.array("d", range(9)))
    want_$t = np.arange(9.0)
""")
habit("a tensor of anonymous memory", "-> t: tensor cpu new uint8", """
    $t = xd.asarray(mmap.mmap(-1, 4096))
    $t[:] = $value
    want_$t = np.full(4096, $value, "u1")
""")
habit("full on a device", "-> t: tensor $place new $dtype", """
    $t = xd.full($shape, $value, dtype="$dtype", device="$device")
    want_$t = np.full($shape, $value, "$dtype")
""", weight=4)
habit("a copy on a device", "t: tensor -> c: tensor $place new of t", """
    $c, want_$c = $t.to("$device", copy=True), want_$t.copy()
""", weight=6)
habit("moved to a device", "t: tensor -> c: tensor $place frozen of t", """
    $c, want_$c = $t.to("$device"), want_$t
""", freezes="t", weight=4)
habit("another copy", "t: tensor -> c: tensor like new of t", """
    $c, want_$c = $t.copy(), want_$t.copy()
""")
habit("a view", "t: tensor whole -> v: tensor view of t", """
    $v, want_$v = $t[1:], want_$t[1:]
""", weight=4)
habit("a transposed view", "t: tensor whole -> v: tensor view of t", """
    $v, want_$v = $t.permute_dims(range($t.ndim)[::-1]), want_$t.T
""")
habit("a view in other steps", "t: tensor whole -> v: tensor view of t", """
    $v, want_$v = $t[::-1, ...], want_$t[::-1, ...]
""")
habit("flat", "t: tensor -> v: tensor frozen of t", """
    $v, want_$v = $t.reshape(-1), want_$t.reshape(-1)
""", freezes="t")
habit("fill", "t: tensor writable", """
    $t.fill($value)
    want_$t[...] = $value
""", weight=4)
habit("assign a part", "t: tensor writable", """
    $t[:1] = $value
    want_$t[:1] = $value
""", weight=4)
habit("assign an array", "t: tensor writable exact", """
    $t[...] = want_$t[::-1].copy()
    want_$t[...] = want_$t[::-1].copy()
""")
habit("assign what overlaps", "t: tensor writable", """
    $t[1:] = $t[:-1]
    want_$t[1:] = want_$t[:-1].copy()
""", weight=4)
habit("a view of NumPy", "t: tensor cpu -> a: array of t", """
    $a, want_$a = np.from_dlpack($t), want_$t
""", weight=4)
habit("NumPy writes", "a: array writable", """
    quiet()
    $a += 1
    want_$a += 1
""", weight=4)
habit("a memoryview is written", "t: tensor cpu writable uint8 whole", """
    quiet()
    memoryview($t).cast("B")[0] = $value
    want_$t.flat[0] = $value
""")
habit("check a tensor", "t: tensor exact", """
    check($t, want_$t)
""", weight=10)
habit("check an array", "a: array exact", """
    quiet()
    check($a, want_$a)
""", weight=4)
habit("look at a tensor", "t: tensor", """
    print(len(repr($t)), $t.tolist() is None, $t.strides, str(xd.explain($t, "$device"))[:40], flush=True)
""", weight=4)
habit("row by row", "t: tensor exact", """
    for row, want in zip($t, want_$t):
        check(row, want)
        break
""")
habit("forget a tensor", "t: tensor", """
    del $t, want_$t
""", drops="t", weight=4)
habit("forget an array", "a: array", """
    del $a
""", drops="a")
habit("wait for releases", "", """
    xd.wait_for_releases(10)
""")
habit("many at once", "", """
    $new = [xd.from_dlpack(np.full(50, number)).to("$device", copy=True) for number in range($n)]
    for number, one in enumerate($new):
        check(one, np.full(50, number))
    del one
""")
habit("the package is imported again", "t: tensor", """
    import importlib
    importlib.reload(xd)
    print($t.shape, flush=True)
""", weight=1)

habit = Theme("streams")

habit("a stream", "-> s: stream $place", """
    $s = xd.Stream("$device")
""", weight=6)
habit("a copy on a stream", "t: tensor; s: stream -> c: tensor $place new of t", """
    $c, want_$c = $t.to("$device", copy=True, stream=$s), want_$t.copy()
""", weight=6)
habit("a move that does not block", "t: tensor -> c: tensor $place frozen of t", """
    $c, want_$c = $t.to("$device", non_blocking=True), want_$t
""", freezes="t")
habit("fill on a stream", "t: tensor writable; s: stream", """
    $t.fill($value, stream=$s)
    want_$t[...] = $value
""", weight=4)
habit("within a stream", "t: tensor writable; s: stream", """
    with $s:
        $t[...] = $value
        $new = $t.to("$device", copy=True)
    want_$t[...] = $value
""")
habit("a loop of copies on a stream", "s: stream", """
    for number in range($n):
        xd.from_dlpack(np.full(1000, number, "f4")).to("$device", copy=True, stream=$s)
""", weight=6)
habit("a loop of copies that are kept", "s: stream -> c: tensor $place new float32", """
    $new = [
        xd.from_dlpack(np.full(1000, number, "f4")).to("$device", copy=True, stream=$s)
        for number in range($n)
    ]
    $c, want_$c = $new[-1], np.full(1000, $n - 1, "f4")
""", weight=4)
habit("an event", "s: stream", """
    $new = $s.record()
    $new.synchronize()
    print($new.query(), flush=True)
""")
habit("one stream waits for another", "s: stream; o: stream", """
    $o.wait($s.record())
""", weight=4)
habit("an event that nobody waits for", "s: stream", """
    $new = $s.record()
""")
habit("synchronize a stream", "s: stream", """
    $s.synchronize()
""")
habit("a stream is dropped", "s: stream", """
    del $s
""", drops="s")
habit("a chain over the devices", "t: tensor; s: stream -> c: tensor cpu new of t", """
    $c, want_$c = $t, want_$t.copy()
    for device in [*xd.devices(), "cpu:0"]:
        $c = $c.to(device, copy=True, stream=$s)
""", weight=4)
habit("a shared stream that is an integer", "t: tensor writable; s: stream opencl", """
    $t.fill($value, stream=$s.native_handle)
    want_$t[...] = $value
""", uses="opencl")

habit = Theme("files")

habit("save and load an .npy", "t: tensor -> m: tensor cpu readonly new of t", """
    xd.save(folder / "$new.npy", $t)
    $m, want_$m = xd.load(folder / "$new.npy"), want_$t.copy()
""", weight=4)
habit("NumPy's file", "a: array -> m: tensor cpu readonly new of a", """
    quiet()
    np.save(folder / "$new.npy", $a)
    $m, want_$m = xd.load(folder / "$new.npy"), want_$a.copy()
""")
habit("a model", "t: tensor -> m: tensor cpu readonly new of t", """
    xd.save(folder / "$new.safetensors", {"x": $t, "bias": [0.5, 1.5], "again": $t.copy()})
    $new = xd.load(folder / "$new.safetensors")
    $m, want_$m = $new["x"], want_$t.copy()
""", weight=4)
habit("a model on a device", "t: tensor -> m: tensor $place frozen new of t", """
    xd.save(folder / "$new.npz", {"x": $t, "y": [1, 2]})
    $m, want_$m = xd.load(folder / "$new.npz", device="$device")["x"], want_$t.copy()
""", weight=4)
habit("a file of the model is written anew", "m: tensor readonly", """
    xd.save(folder / "$new.npy", $m)
    $new = xd.load(folder / "$new.npy")
    xd.save(folder / "$new.npy", np.zeros(3))
    print($new.tolist() == $m.tolist(), flush=True)
""")
habit("the file is removed", "", """
    xd.save(folder / "$new.npy", np.arange(9.0))
    $new = xd.load(folder / "$new.npy")
    os.remove(folder / "$new.npy")
    check($new, np.arange(9.0))
""")
habit("NumPy writes to a model", "m: tensor cpu readonly", """
    $new = np.from_dlpack($m)
    tried(lambda: $new.__setitem__(0, 1))
    tried(lambda: $new.setflags(write=True))
    tried(lambda: $m.__setitem__(..., 1))
    tried(lambda: $m.fill(0))
    tried(lambda: memoryview($m).__setitem__(0, 1))
""", weight=4)
habit("an array over a model's address", "m: tensor cpu readonly", """
    import ctypes
    if $m.contiguous:  # As a kernel does that knows of no flags.
        ctypes.memset($m.data_ptr(), 1, $m.nbytes)
""", blurs="m")

habit = Theme("pickles")

habit("pickle", "t: tensor cpu -> p: tensor cpu new of t", """
    $p, want_$p = pickle.loads(pickle.dumps($t, protocol=$n % 4 + 2)), want_$t.copy()
""", weight=4)
habit("pickle without a copy", "t: tensor cpu exact", """
    $new = []
    data = pickle.dumps($t, protocol=5, buffer_callback=$new.append)
    check(pickle.loads(data, buffers=$new), want_$t)
""")
habit("pickle what is on a device", "t: tensor", """
    tried(lambda: pickle.dumps([$t]))
""")
habit("deepcopy", "t: tensor -> c: tensor like new of t", """
    $c, want_$c = copy.deepcopy({"t": [$t, $t]})["t"][1], want_$t.copy()
""")
habit("copy", "t: tensor -> c: tensor like new of t", """
    $c, want_$c = copy.copy($t), want_$t.copy()
""")
habit("save with NumPy's pickle", "t: tensor cpu", """
    np.save(folder / "$new.npy", np.array([$t, None], dtype=object), allow_pickle=True)
    print(np.load(folder / "$new.npy", allow_pickle=True)[1], flush=True)
""")

habit = Theme("garbage")

habit("a cycle", "t: tensor", """
    class Holder:
        pass
    $new = Holder()
    $new.me, $new.tensor = $new, $t
    del $new
""", weight=4)
habit("collect", "", """
    gc.collect()
""")
habit("a weak reference", "t: tensor", """
    tried(lambda: weakref.ref($t))
""")
habit("a finalizer", "t: tensor cpu", """
    class Holder:
        pass
    $new = Holder()
    weakref.finalize($new, $t.tolist)
""", weight=4)
habit("__del__ uses a tensor", "t: tensor", """
    class Closer:
        def __init__(self, tensor):
            self.tensor = tensor
        def __del__(self):
            self.tensor.tolist()
            self.tensor.copy().fill(1)
    $new = Closer($t)
""", weight=4)
habit("__del__ in a cycle makes a tensor", "", """
    class Closer:
        def __init__(self):
            self.me = self
        def __del__(self):
            xd.zeros(30, device="$device").fill(2, stream=xd.Stream("$device"))
    $new = Closer()
""", weight=4)
habit("a generator left open", "t: tensor writable", """
    def rows(tensor):
        try:
            for row in tensor:
                yield row.tolist()
        finally:
            tensor.fill($value)
    $new = rows($t)
    next($new)
""", blurs="t", weight=4)
habit("an atexit handler uses a tensor", "t: tensor", """
    atexit.register(lambda: print("at exit", $t.shape, len(str($t.tolist())), flush=True))
""", drops="t", weight=4)
habit("an atexit handler copies", "t: tensor; s: stream", """
    atexit.register(lambda: [$t.to("$device", copy=True, stream=$s) for _ in range($n)])
""", drops="t s", weight=4)
habit("builtins keep a tensor", "t: tensor", """
    builtins.$new = $t
""")
habit("a class keeps a tensor", "t: tensor", """
    class Kept:
        tensor = $t
    sys.modules["kept"] = Kept()
""")
habit("a traceback keeps a tensor", "t: tensor", """
    def fails(tensor):
        mine = tensor.copy()
        return mine[tensor.size + 1]
    try:
        fails($t)
    except Exception as error:
        $new = error
""")
habit("a capsule that nobody takes", "t: tensor cpu", """
    $new = $t.__dlpack__(max_version=(1, 3))
""")
