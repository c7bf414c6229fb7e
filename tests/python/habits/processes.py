"""Habits with threads, processes, interrupts and ends."""

from .habit import Theme, top

habit = Theme("threads")

habit("a pool of threads", "t: tensor exact", """
    def in_thread(number, tensor=$t.copy(), want=want_$t.copy()):
        mine = tensor.to("$device", copy=True)
        check(mine[:1], want[:1])
        mine.fill(number)
        return mine
    with ThreadPoolExecutor(4) as pool:
        for number, one in enumerate(pool.map(in_thread, range(8))):
            check(one, np.full_like(want_$t, number))
    del one
""", weight=4)
habit("threads on streams", "", """
    def on_stream(number):
        stream = xd.Stream("$device")
        for _ in range(10):
            last = xd.from_dlpack(np.full(500, number)).to("$device", copy=True, stream=stream)
        check(last, np.full(500, number))
    $new = [threading.Thread(target=on_stream, args=(number,)) for number in range(3)]
    for one in $new:
        one.start()
    for one in $new:
        one.join()
""", weight=4)
habit("a thread that nobody joins", "t: tensor", """
    def a_while(tensor):
        for _ in range(20):
            tensor.copy().tolist()
    threading.Thread(target=a_while, args=($t,)).start()
""", weight=4)
habit("a daemon that reads", "t: tensor", """
    def for_ever(tensor):
        while True:
            tensor.tolist()
            time.sleep(0.001)
    threading.Thread(target=for_ever, args=($t,), daemon=True).start()
""", weight=3)
habit("a daemon that fills", "t: tensor writable", """
    def for_ever(tensor):
        while True:
            tensor.fill($value)
            time.sleep(0.001)
    threading.Thread(target=for_ever, args=($t,), daemon=True).start()
""", blurs="t", weight=3)
habit("a daemon that makes tensors", "", """
    def for_ever():
        stream = xd.Stream("$device")
        while True:
            xd.from_dlpack(np.zeros(1000)).to("$device", copy=True, stream=stream)
            time.sleep(0.0005)
    threading.Thread(target=for_ever, daemon=True).start()
""", weight=3)
habit("a pool left open", "t: tensor", """
    $new = ThreadPoolExecutor(2)
    for _ in range(30):
        $new.submit($t.to, "$device", copy=True)
""", weight=4)
habit("a tensor ends in another thread", "t: tensor", """
    $new = queue.Queue()
    threading.Thread(target=$new.get).start()
    $new.put($t)
    del $t
""", drops="t", weight=4)
habit("a thread that fails", "t: tensor", """
    $new = threading.Thread(target=lambda: $t[$t.size + 1])
    $new.start()
    $new.join()
""")
habit("a timer", "t: tensor", """
    threading.Timer($moment, $t.tolist).start()
""")
habit("values of a thread", "t: tensor", """
    $new = threading.local()
    $new.tensor = $t
    def of_thread():
        $new.tensor = $t.copy()
    threading.Thread(target=of_thread).start()
""")
habit("asyncio", "t: tensor", """
    async def both():
        return await asyncio.gather(*[asyncio.to_thread($t.tolist), asyncio.to_thread($t.copy)])
    $new = asyncio.run(both())
""")
habit("an interrupt in a loop", "", """
    try:
        threading.Timer($moment, _thread.interrupt_main).start()
        while True:
            xd.from_dlpack(np.zeros(100)).to("$device", copy=True)
    except KeyboardInterrupt:
        print("caught KeyboardInterrupt", flush=True)
""", weight=4)
habit("an alarm", "t: tensor", """
    def too_late(number, frame):
        raise TimeoutError("too late")
    signal.signal(signal.SIGALRM, too_late)
    try:
        signal.setitimer(signal.ITIMER_REAL, max($moment, 0.0001))
        while True:
            $t.copy().tolist()
    except TimeoutError:
        print("caught TimeoutError", flush=True)
""")
habit("an alarm while streams work", "s: stream", """
    signal.signal(signal.SIGALRM, lambda number, frame: xd.zeros(9, device="$device").tolist())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.002)
        for _ in range($n):
            xd.zeros(1000).to("$device", copy=True, stream=$s)
        $s.synchronize()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
""")

habit = Theme("processes")

top("total", """
    def total(tensor):
        return complex(np.from_dlpack(tensor).sum(dtype="c16")).real
""")
top("batch", """
    def batch(number):
        mine = xd.from_dlpack(np.full((2, 3), number, "f4"))
        moved = mine.to("cpu:0", copy=True)
        moved.fill(number, stream=xd.Stream("cpu:0"))
        return moved
""")
top("halves", """
    def halves(inbox, outbox):
        for tensor in iter(inbox.get, None):
            outbox.put(tensor[: len(tensor) // 2].copy())
""")

habit("a forked pool is sent a tensor", "t: tensor cpu exact", """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for answer in pool.map(total, [$t] * 4):
            check(np.isclose(answer, want_$t.sum(dtype="c16").real), np.True_)
""", tops="total", weight=4)
habit("a forked pool makes tensors", "", """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for number, one in enumerate(pool.imap(batch, range(6))):
            check(one, np.full((2, 3), number, "f4"))
    del one
""", tops="batch", weight=4)
habit("a spawned pool", "t: tensor cpu exact", """
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for answer in pool.map(total, [$t] * 2):
            check(np.isclose(answer, want_$t.sum(dtype="c16").real), np.True_)
        check(pool.apply(batch, (7,)), np.full((2, 3), 7, "f4"))
""", tops="total batch", weight=2, is_slow=True)
habit("an executor of processes", "t: tensor cpu exact", """
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        answers = list(pool.map(total, [$t] * 3)) + [pool.submit(batch, 5).result()]
        check(answers.pop(), np.full((2, 3), 5, "f4"))
        check(np.isclose(answers[0], want_$t.sum(dtype="c16").real), np.True_)
""", tops="total batch", weight=3)
habit("a process of a forkserver", "", """
    $new = multiprocessing.get_context("forkserver").Process(target=batch, args=(3,))
    $new.start()
    $new.join()
    check(np.array($new.exitcode), np.array(0))
""", tops="batch", weight=1, is_slow=True)
habit("queues between processes", "t: tensor cpu exact", """
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.Queue(), context.Queue()
    $new = context.Process(target=halves, args=(inbox, outbox))
    $new.start()
    inbox.put($t)
    check(outbox.get(), want_$t[: len(want_$t) // 2])
    inbox.put(None)
    $new.join()
""", tops="halves", weight=3)
habit("a daemonic process left alone", "", """
    context = multiprocessing.get_context("fork")
    $new = context.Process(target=halves, args=(context.Queue(), context.Queue()), daemon=True)
    $new.start()
""", tops="halves", bars="os.fork os.exec")
habit("a forked pool left open", "", """
    $new = multiprocessing.get_context("fork").Pool(1)
    $new.apply_async(batch, (1,))
""", tops="batch", bars="os.fork os.exec")
habit("a forked child uses what it inherited", "t: tensor", """
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        tried($t.tolist)
        tried(lambda: $t.to("cpu").copy())
        tried(lambda: xd.zeros(3).to("$device", copy=True))
        sys.exit(0)
    ended(pid)
""", weight=4)
habit("a forked child fails", "t: tensor cpu", """
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        raise RuntimeError(f"in the child: {$t.shape}")
    ended(pid, 1)
""", weight=2)
habit("a forked child of a thread", "t: tensor", """
    def in_thread(tensor):
        pid = os.fork()
        if not pid:
            tried(tensor.tolist)
            sys.exit(0)
        ended(pid)
    $new = threading.Thread(target=in_thread, args=($t,))
    $new.start()
    $new.join()
""", bars="torch DataLoader", never_with="torch", weight=2)  # It aborts, with PyTorch alone.
habit("a forked child works on a stream", "s: stream", """
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        tried(lambda: xd.zeros(3).to("cpu:0", copy=True, stream=$s))
        tried($s.synchronize)
        mine = xd.Stream("cpu:0")
        check(xd.ones(50).to("cpu:0", copy=True, stream=mine), np.ones(50))
        sys.exit(0)
    ended(pid)
""", weight=3)
habit("the child of a child", "t: tensor cpu", """
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        tried($t.copy)
        inner = os.fork()
        if not inner:
            tried($t.copy)
            tried(lambda: $t.fill(1))
            sys.exit(0)
        ended(inner)
        sys.exit(0)
    ended(pid)
""", blurs="t", weight=2)  # Memory may be shared with the child.
habit("a subprocess", "", """
    text = 'import crossdock as xd; t = xd.zeros(3, device="$device"); print(t.tolist(), flush=True)'
    subprocess.run([sys.executable, "-c", text], check=True)
""", weight=1, is_slow=True)
habit("a subprocess that is forked behind a function", "t: tensor cpu", """
    subprocess.run(["true"], check=True, preexec_fn=lambda: tried($t.tolist))
""")
habit("shared memory", "-> t: tensor cpu new uint8", """
    $new = shared_memory.SharedMemory(create=True, size=4096)
    $new.unlink()
    $t = xd.asarray($new.buf)[:4096]
    $t[:] = $value
    want_$t = np.full(4096, $value, "u1")
""", weight=3)

habit = Theme("ends")

habit("an exception", "", """
    raise ValueError("nobody handles it")
""", is_end=True)
habit("an exception in a function with tensors", "t: tensor", """
    def fails(tensor):
        mine = tensor.to("$device", copy=True)
        return mine.tolist() / 0
    fails($t)
""", is_end=True)
habit("sys.exit", "", """
    sys.exit(3)
""", is_end=True)
habit("sys.exit with a text", "", """
    sys.exit("that was all")
""", is_end=True)
habit("sys.exit within a stream", "s: stream", """
    with $s:
        for number in range(20):
            $new = xd.zeros(1000).to("$device", copy=True, stream=$s)
        sys.exit(4)
""", is_end=True)
habit("sys.exit in a pool of threads", "t: tensor", """
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            pool.submit($t.copy)
        sys.exit(5)
""", is_end=True)
habit("sys.exit in a generator", "t: tensor", """
    def rows():
        with xd.current_stream("$device"):
            yield $t.copy()
            sys.exit(6)
    for row in rows():
        row.tolist()
""", is_end=True)
habit("sys.exit in a thread", "", """
    threading.Thread(target=lambda: sys.exit(7)).start()
""", is_end=True)
habit("sys.exit at exit", "t: tensor", """
    atexit.register(lambda: sys.exit(8))
    $new = $t.to("$device", copy=True)
""", is_end=True)
habit("sys.exit after many copies", "t: tensor; s: stream", """
    $new = [$t.to("$device", copy=True, stream=$s) for _ in range(50)]
    sys.exit(0)
""", is_end=True)
habit("the modules are gone", "t: tensor", """
    del xd, np
    sys.modules.pop("crossdock")
""", is_end=True)
habit("an interrupt at the end", "", """
    def copies():
        while True:
            xd.from_dlpack(np.zeros(100)).to("$device", copy=True)
    try:
        threading.Timer($moment, _thread.interrupt_main).start()
        copies()
    finally:
        xd.zeros(3, device="$device")
        os.environ["interrupted"] = "1"
        raise RuntimeError("while it is handled")
""", is_end=True)
habit("execv", "", """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", "import crossdock as xd; print(xd.zeros(2).tolist())"])
""", is_end=True)
