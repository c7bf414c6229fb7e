"""Sessions of a host: namespaces that are modules, and what is run in them, one at a time.

The host calls the functions without an underscore, on one thread. An exception never leaves `perform`,
except one that an interrupt puts between its lines; the host knows that by itself.
"""

import _signal
import atexit
import builtins
import faulthandler
import functools
import gc
import importlib
import importlib.util
import io
import itertools
import linecache
import operator
import os
import re
import signal
import sys
import traceback
import types

_OWN_FILE = "<crossdock>"
# Python's own library.
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
# The file that functions of the host's are of, in tracebacks and where a script hangs.
_PROGRAM = "<program>"
_DONE, _RAISED, _EXIT = 0, 1, 2
_NONE, _BOOL, _INT, _FLOAT, _TEXT, _BYTES, _TENSOR, _LIST, _DICT = range(9)

# Lists and dictionaries for the host are within each other at most this often.
_DEEPEST = 64

# As many texts as this of a session are kept, to be shown in tracebacks.
_SOURCES = 32
# The numbers of texts, and a text's file as a traceback or a place has it.
_numbers = itertools.count(1)
_TEXT_FILE = re.compile(r'<text \d+: (.*)>(?=", line \d|:\d+$)')
# The characters that a host gets of a message or a traceback, at most: it has each of them several times.
_LONGEST = 1 << 20
# What `sys` says that a session has of its own, or that others need when it is gone.
_OF_SYS = ("argv", "stdout", "stderr", "path")

# All signals, and the timers that send some of them.
_SIGNALS = tuple(map(int, signal.valid_signals()))
_TIMERS = {
    int(signal.SIGALRM): signal.ITIMER_REAL,
    int(signal.SIGVTALRM): signal.ITIMER_VIRTUAL,
    int(signal.SIGPROF): signal.ITIMER_PROF,
}

# What a namespace has as a module, and keeps in a reload.
_OF_MODULES = ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__")

# What stops a script's functions that trace, without a line of Python that they would be called for.
untrace = functools.partial(sys.settrace, None), functools.partial(sys.setprofile, None)

_sessions = {}
_host = types.SimpleNamespace()


def start(stream, call, wake, ignored, ends, restore, capsule, wake_signal, place_signal, place_pipe):
    """Connects Python with the host. A signal of 0 is none; with one, Python is the host's own."""
    _host.stream, _host.call, _host.ignored, _host.restore = stream, call, ignored, restore
    _host.forked = False
    # Python names the type only since 3.13.
    _host.capsule = type(capsule)
    _host.owns_main = wake_signal != 0
    if wake_signal:
        signal.signal(wake_signal, wake)
    if place_signal:
        faulthandler.register(place_signal, place_pipe, all_threads=False)
    _host.handlers = _handlers()
    os.register_at_fork(after_in_child=_forked)
    atexit.register(ends)


def _forked():
    _host.forked = True


class _Session:
    """A namespace, and what `sys` says while something runs in it."""

    def __init__(self, module, argv, streams):
        self.module = module
        self.argv = argv
        self.streams = streams
        self.folder = None
        self.tracing = (None, None)
        self.sources = {}
        # What `sys` says outside of the session, while something runs in it.
        self.outside = None
        # Of each signal whose handler it set: the handler before, and its own.
        self.handlers = {}
        # What a reload runs again, and whose modules it loads again: a function, its argument, and a folder.
        self.program = None
        # The names that the host set, and the numbers of those that are functions.
        self.given = set()
        self.functions = {}


class _Stream(io.RawIOBase):
    """Where a captured stream ends: in a function of the host, which an interrupt cannot divide."""

    def __init__(self, number, which, name):
        self.write = _host.stream(number, which)
        self.name = name

    def writable(self):
        return True


def _stream(number, which, name):
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(number, which, name)),
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",
        line_buffering=True,
    )


def _create(number, name, argv, stdout, stderr):
    """A new session; the first of a Python of the host's own is `__main__`."""
    taken = any(session.module.__name__ == "__main__" for session in _sessions.values())
    name = f"__xd_{name}__" if taken or not _host.owns_main else "__main__"
    if name in sys.modules and name != "__main__":
        raise ValueError(f"there is a session with the module {name}")
    module = types.ModuleType(name)
    module.__builtins__ = builtins
    sys.modules[name] = module
    streams = (
        _stream(number, 1, "<stdout>") if stdout else None,
        _stream(number, 2, "<stderr>") if stderr else None,
    )
    _sessions[number] = _Session(module, list(argv) or [""], streams)


def _free(number):
    """Forgets a session; what others still hold of it stays."""
    session = _sessions.pop(number, None)
    if session is None:
        return
    _restore_handlers(session)
    for source in list(session.sources):
        _forget_source(session, source)
    name = session.module.__name__
    if sys.modules.get(name) is session.module:
        del sys.modules[name]
    if name == "__main__":
        sys.modules[name] = types.ModuleType(name)
    names = [session.module.__dict__]
    del session
    sys.unraisablehook = hook = _Unraisable(getattr(sys, "unraisablehook", None))
    try:
        _end(names)
    finally:
        if sys.unraisablehook is hook:
            sys.unraisablehook = hook.before


def _handlers():
    """Python's handler of each signal."""
    return [*map(_signal.getsignal, _SIGNALS)]


def _find_handlers(session):
    """Remembers the handlers that something in the session has set since the last call."""
    before, now = _host.handlers, _handlers()
    if all(map(operator.is_, before, now)):
        return
    for number, old, new in zip(_SIGNALS, before, now):
        if old is not new:
            session.handlers[number] = session.handlers.get(number, (old,))[0], new
    _host.handlers = now


def _restore_handlers(session):
    """Puts the handlers back that a session's scripts have replaced, and stops the timers that would call them."""
    for number, (before, own) in session.handlers.items():
        for later in _sessions.values():
            replaced, handler = later.handlers.get(number, (None, None))
            if replaced is own:
                later.handlers[number] = before, handler
        if _signal.getsignal(number) is own:
            if number in _TIMERS:
                signal.setitimer(_TIMERS[number], 0)
            _signal.signal(number, before if callable(before) else int(before or 0))
            if not callable(before):
                _host.restore(number)
    _host.handlers = _handlers()


class _Unraisable:
    """What Python calls with an exception that it ignores, while a script runs: that of an interrupt is
    raised again, at another line."""

    def __init__(self, before):
        self.before = before

    def __call__(self, unraisable):
        if unraisable.exc_type is KeyboardInterrupt and _host.ignored():
            return
        (self.before or sys.__unraisablehook__)(unraisable)


def enter(number):
    """Makes `sys` say what the session says. The host calls it again if an exception that a script left behind
    was raised in it."""
    session = _sessions.get(number)
    if session is None:
        return
    if session.outside is None:
        session.outside = {name: getattr(sys, name, None) for name in _OF_SYS}
    hook = getattr(sys, "unraisablehook", None)
    if type(hook) is not _Unraisable:
        sys.unraisablehook = _Unraisable(hook)
    sys.argv = session.argv
    stdout, stderr = session.streams
    sys.stdout, sys.stderr = stdout or session.outside["stdout"], stderr or session.outside["stderr"]
    if session.folder is not None and not (sys.path and sys.path[0] is session.folder):
        sys.path.insert(0, session.folder)


def leave(number):
    """Undoes `enter`, whatever the script did to `sys`, and may be called again as that. Nothing here is a
    script's code, since nobody could interrupt it."""
    session = _sessions.get(number)
    if session is None or session.outside is None:
        return
    outside = session.outside
    sys.argv, sys.stdout, sys.stderr = outside["argv"], outside["stdout"], outside["stderr"]
    # One of the script's own is for all, and so is a list of its own, as everything that is imported.
    hook = getattr(sys, "unraisablehook", None)
    if type(hook) is _Unraisable:
        sys.unraisablehook = hook.before
    if type(getattr(sys, "path", None)) is not list:
        sys.path = outside["path"]
    if _host.owns_main:
        _find_handlers(session)
    _take_from_path(session.folder)
    session.outside = None


def _take_from_path(folder):
    """The first entry that is this folder; what else scripts put there may compare itself as it likes."""
    for place, entry in enumerate(sys.path):
        if type(entry) is str and entry == folder:
            del sys.path[place]
            return


def perform(number, work, *arguments):
    """Does some work in a session: `(0, kind, content)`, or what was raised instead."""
    try:
        if work in _LIVES:
            done = _LIVES[work](number, *arguments)
        else:
            done = _inside(_sessions[number], work, arguments)
        answer = (_DONE, *_packed(done))
    except BaseException as error:
        answer = _described(error)
    try:
        _flush(_sessions.get(number))
    except BaseException as error:
        answer = _described(error)
    if _host.forked:
        _end_of_child(answer)
    return answer


def _inside(session, work, arguments):
    """Works with the session's own functions that trace: they would also be called for what other sessions
    do, and for what the host does between them."""
    trace, profile = session.tracing
    try:
        if trace is not None:
            sys.settrace(trace)
        if profile is not None:
            sys.setprofile(profile)
        return _WORKS[work](session, *arguments)
    finally:
        trace, profile = session.tracing = sys.gettrace(), sys.getprofile()
        if trace is not None:
            sys.settrace(None)
        if profile is not None:
            sys.setprofile(None)


def _flush(session):
    """Sends what the streams still hold; those of the script's own may do anything."""
    if session is None:
        return
    for stream in (*session.streams, getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
        try:
            if stream is not None:
                stream.flush()
        except Exception:
            pass


def late():
    """Where an interrupt is raised that came too late for its script. It is no function that clears it,
    after which CPython 3.11 would look for it for ever."""


def _end_of_child(answer):
    """A child that a script forked off has no host to return to."""
    status = answer[1] if answer[0] == _EXIT else answer[0]
    if answer[0] == _RAISED:
        print(answer[4].decode(), end="", file=sys.__stderr__)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    os._exit(status & 0xFF)


def _run_text(session, text, name):
    file = _register(session, text, name)
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Its text is the message that the host gets.
        error.filename = name
        raise
    exec(code, session.module.__dict__)


def _register(session, text, name):
    """The file of a text. No other text has it, so tracebacks show the lines of this text, or none: Python never
    opens a file whose name is in angle brackets."""
    file = session.sources.pop((name, text), None) or f"<text {next(_numbers)}: {name}>"
    session.sources[name, text] = file
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    if len(session.sources) > _SOURCES:
        _forget_source(session, next(iter(session.sources)))
    return file


def _forget_source(session, source):
    linecache.cache.pop(session.sources.pop(source), None)


def _run_file(session, path):
    # The process may change its folder.
    file = os.path.abspath(path)
    with io.open_code(file) as opened:
        code = compile(opened.read(), file, "exec", dont_inherit=True)
    folder = os.path.dirname(file)
    _at(session, path, folder)
    session.program = _run_file, path, folder
    session.module.__file__ = path
    exec(code, session.module.__dict__)


def _run_module(session, name):
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = importlib.util.find_spec(name)
    code = spec and spec.loader.get_code(name)
    if code is None:
        raise ImportError(f"there is no module {name} that can be run", name=name)
    _at(session, spec.origin, os.getcwd())
    session.program = _run_module, name, os.path.dirname(os.path.abspath(spec.origin))
    module = session.module
    module.__file__, module.__spec__, module.__package__ = spec.origin, spec, spec.parent
    exec(code, module.__dict__)


def _at(session, program, folder):
    """As Python does it for its own scripts: their name and their folder."""
    session.argv[0] = session.argv[0] or program
    _take_from_path(session.folder)
    session.folder = folder
    sys.path.insert(0, folder)


def _set(session, name, value):
    setattr(session.module, name, _unpacked(value))
    session.given.add(name)


def _define(session, name, number):
    """A variable that is a function of the host's. Gives the number of the one that it was before."""
    setattr(session.module, name, _function(name, number))
    session.given.add(name)
    before = session.functions.get(name)
    session.functions[name] = number
    return before


def _function(name, number):
    def function(*arguments, **named):
        answer, failure, is_memory = _host.call(number, _packed(arguments)[1], _packed(named)[1])
        if failure is not None:
            raise (MemoryError if is_memory else RuntimeError)(failure)
        return _unpacked(answer)

    function.__name__ = function.__qualname__ = name
    code = {"co_filename": _PROGRAM, "co_firstlineno": 1, "co_name": name}
    if sys.version_info >= (3, 11):
        code["co_qualname"] = name
    function.__code__ = function.__code__.replace(**code)
    return function


def _get(session, dotted):
    return _found(session, dotted)


def _get_tensor(session, dotted, device):
    return _tensor(_found(session, dotted), device)


def _call(session, dotted, arguments, named):
    arguments = [_unpacked(value) for value in arguments]
    named = {name: _unpacked(value) for name, value in named.items()}
    return _found(session, dotted)(*arguments, **named)


def _call_only(session, dotted, arguments, named):
    """Nobody wants the answer, which may be of any type."""
    _call(session, dotted, arguments, named)


def _reload(session):
    """Runs the program again with modules of its own that are new; what fails leaves all as it was."""
    if session.program is None:
        raise ValueError("there is nothing to load again: no file and no module has run in this session")
    run, argument, folder = session.program
    names = session.module.__dict__
    before, modules = dict(names), _modules_below(folder)

    def put_back():
        for name in _modules_below(folder):
            del sys.modules[name]
        sys.modules.update(modules)
        names.clear()
        names.update(before)

    try:
        for name in before:
            if name not in _OF_MODULES and name not in session.given:
                del names[name]
        for name, module in modules.items():
            del sys.modules[name]
            _forget_compiled(_vars(module)["__file__"])
        importlib.invalidate_caches()
        run(session, argument)
    except BaseException:
        try:
            put_back()
        except KeyboardInterrupt:
            # One that came just now; a second one is no sooner than the session's grace.
            put_back()
        raise
    del before, modules
    gc.collect()


def _modules_below(folder):
    """The modules that lie there, by their names. What is installed there is not the program's, nor is Python's
    own library, nor the package that its tensors are of."""
    folder = os.path.join(os.path.realpath(folder), "")
    library = os.path.join(os.path.realpath(os.path.dirname(os.__file__)), "")
    namespaces = [id(session.module) for session in _sessions.values()]
    found = {}
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), types.ModuleType) or id(module) in namespaces:
            continue
        file = _vars(module).get("__file__")
        if type(file) is not str or not file.endswith(".py") or name.partition(".")[0] == "crossdock":
            continue
        file = os.path.realpath(file)
        if file.startswith(library):
            continue
        inside = file[len(folder) :].split(os.sep)
        if file.startswith(folder) and "site-packages" not in inside and "dist-packages" not in inside:
            found[name] = module
    return found


def _forget_compiled(file):
    """What Python keeps of a file is taken for new if it is as long and changed within the same second."""
    linecache.cache.pop(file, None)
    try:
        os.unlink(importlib.util.cache_from_source(file))
    except (OSError, NotImplementedError):
        pass


def _found(session, dotted):
    """`name`, `name.attribute` or `package.module:name`."""
    module, colon, names = dotted.rpartition(":")
    found = importlib.import_module(module) if colon else session.module
    for name in names.split("."):
        found = getattr(found, name)
    return found


_LIVES = {"create": _create, "free": _free}
_WORKS = {
    "run_text": _run_text,
    "run_file": _run_file,
    "run_module": _run_module,
    "set": _set,
    "define": _define,
    "reload": _reload,
    "get": _get,
    "get_tensor": _get_tensor,
    "call": _call,
    "call_only": _call_only,
}


def _is_tensor(value):
    return type(value) is _host.capsule and '"dltensor_versioned"' in repr(value)


def _package():
    try:
        import crossdock
    except ModuleNotFoundError as missing:
        if missing.name != "crossdock":
            raise
        need = "No module named 'crossdock', which tensors need; install it into this Python:"
        command = f"{sys.executable} -m pip install CROSSDOCK-CHECKOUT/host/python"
        raise ModuleNotFoundError(f"{need} {command}", name="crossdock") from None
    return crossdock


def _unpacked(value):
    """A value as scripts see it: a tensor comes as the capsule of DLPack, and what holds others as a tuple of
    its kind and what it holds."""
    if _is_tensor(value):
        return _package().from_dlpack(value)
    if type(value) is tuple:
        kind, *items = value
        items = [_unpacked(item) for item in items]
        if kind == _LIST:
            return items
        names = dict(zip(items[::2], items[1::2]))
        if 2 * len(names) < len(items):
            raise ValueError("two keys of a dictionary are equal")
        return names
    return value


def _tensor(value, device=None):
    """The capsule of a tensor's memory, or of a copy on the device that is asked for."""
    return _package().asarray(value, device=device).__dlpack__(max_version=(1, 3))


def _packed(value, room=_DEEPEST):
    """What a value is, and its content in a form that the host reads by one function."""
    if hasattr(type(value), "__dlpack__"):
        value = _tensor(value)
    elif type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return _NONE, None
    if isinstance(value, bool):
        return _BOOL, int(value)
    if isinstance(value, int):
        number = int(value)
        if not -(2**63) <= number < 2**63:
            raise OverflowError("the number does not fit into 64 bits")
        return _INT, number
    if isinstance(value, float):
        return _FLOAT, float(value)
    if isinstance(value, str):
        return _TEXT, str.encode(value, "utf-8")
    if isinstance(value, (bytes, bytearray)):
        return _BYTES, bytes(value)
    if _is_tensor(value):
        return _TENSOR, value
    if isinstance(value, (list, tuple)):
        return _LIST, _packed_items(list(value), room)
    if isinstance(value, dict):
        return _DICT, _packed_items([part for pair in dict(value).items() for part in pair], room)
    raise TypeError(
        f"`{type(value).__qualname__}` is no type of a value for the host: None, bool, int, float, str, bytes, "
        "tensors, and lists, tuples and dictionaries of these are"
    )


def _packed_items(items, room):
    """How many there are, and of each its kind and its content."""
    if room == 0:
        raise ValueError(f"lists and dictionaries for the host are within each other at most {_DEEPEST} times")
    packed = [len(items)]
    for item in items:
        packed += _packed(item, room - 1)
    return tuple(packed)


def _described(error):
    """What was raised, in the host's words: kind, exit code, class, message, traceback, and where it was.

    What scripts raise may do anything when it is looked at, so little of it is asked.
    """
    kind, trace = type(error), BaseException.__traceback__.__get__(error)
    try:
        name = _name(kind)
    except BaseException:
        name = "BaseException"
    try:
        message = _shortened(str(error))
    except BaseException:
        message = "(its text cannot be made)"
    place = ""
    try:
        while trace is not None and trace.tb_frame.f_code.co_filename == _OWN_FILE:
            trace = trace.tb_next
        place = _place(trace)
        lines = "".join(traceback.format_exception(kind, error, trace))
        lines = _shortened(_with_given_names(lines))
    except BaseException:
        lines = f"{name}: {message}\n"
    if issubclass(kind, SystemExit):
        return (_EXIT, _exit_code(error), *_texts(name, message, lines, place))
    return (_RAISED, 0, *_texts(name, message, lines, place))


def _with_given_names(text):
    """A traceback or a place with the names that the host gave to texts."""
    return _TEXT_FILE.sub(r"\1", text)


def _place(trace):
    """The innermost line of a traceback that the script's author has written: `plan.py:2`."""
    own = other = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        line = f"{file}:{trace.tb_lineno}"
        if file.startswith((_LIBRARY, "<frozen ")) or "-packages" in file:
            other = line
        elif file not in (_OWN_FILE, _PROGRAM):
            own = line
        trace = trace.tb_next
    return _with_given_names(own or other)


def _name(kind):
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _shortened(text):
    """The beginning and the end of a text that is longer than a host gets it."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{str(text[:half])}[.. {len(text) - 2 * half} characters ..]{str(text[-half:])}"


def _texts(*texts):
    return [_encoded(text) for text in texts]


def _encoded(text):
    return str.encode(text, "utf-8", "backslashreplace")


def _exit_code(error):
    code = SystemExit.code.__get__(error)
    if code is None:
        return 0
    if issubclass(type(code), int):
        return max(-(2**31), min(int.__index__(code), 2**31 - 1))
    return 1
