"""A host that is itself a Python program: it calls the C functions, mostly with Python's lock held."""

from __future__ import annotations

import pytest
from pythons import PACKAGE, PYTHONS, run, usable

# `PyDLL` calls without letting the lock go: the library has to.
HOST = f"""
import ctypes, sys, threading
api = ctypes.PyDLL({str(PACKAGE / "libcrossdock.so.1")!r})
api.xd_error_text.restype = ctypes.c_char_p

def ok(error):
    assert not error, api.xd_error_text(ctypes.c_void_p(error)).decode()

for name in ("script_open", "session_create", "session_run_text", "session_interrupt"):
    getattr(api, "xd_" + name).restype = ctypes.c_void_p
script, session = ctypes.c_void_p(), ctypes.c_void_p()
ok(api.xd_script_open(None, None, ctypes.byref(script)))
ok(api.xd_session_create(script, None, ctypes.byref(session)))

def run_text(text):
    return api.xd_session_run_text(session, text.encode(), None, None)
"""


def host(name: str, code: str) -> None:
    done = run([usable(name), "-c", HOST + code])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PYTHONS)
def test_scripts_share_the_interpreter_of_their_host(name: str) -> None:
    host(
        name,
        """
mark = object()
ok(run_text("import __main__, threading; seen = __main__.mark; own = __name__"))
own = sys.modules["__xd_1__"]
assert own.seen is mark and own.own == "__xd_1__"
assert threading.current_thread() is threading.main_thread()
""",
    )


@pytest.mark.parametrize("name", PYTHONS)
def test_a_script_is_interrupted_by_a_thread_of_its_host(name: str) -> None:
    host(
        name,
        """
began = threading.Event()
failed = []
def script():
    failed.append(run_text("import __main__; __main__.began.set()\\nwhile True: pass"))
thread = threading.Thread(target=script)
thread.start()
began.wait()
outcome = ctypes.c_uint32(9)
ok(api.xd_session_interrupt(session, ctypes.byref(outcome)))
thread.join()
assert outcome.value == 0 and b"interrupted" in api.xd_error_text(ctypes.c_void_p(failed[0]))
""",
    )


@pytest.mark.parametrize("name", PYTHONS)
def test_python_ends_while_a_script_runs(name: str) -> None:
    host(
        name,
        """
began = threading.Event()
def script():
    while True: run_text("import __main__; __main__.began.set()\\nwhile True: pass")
threading.Thread(target=script, daemon=True).start()
began.wait()
""",
    )
