"""Regular files, and their pages in memory, which hold no file descriptor."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO


def open_regular(path: str) -> BinaryIO:
    """Opens a regular file to read it. `ValueError` for a FIFO or a device, which it does not wait for."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size > 0:
        return file
    file.close()
    raise ValueError("it is empty" if stat.S_ISREG(status.st_mode) else "it is not a regular file")


def mapped(file: BinaryIO) -> memoryview:
    """A read-only view of the file's pages. Code that writes to them anyway changes them for this process alone.

    `mmap.mmap` would keep a descriptor for each mapping, so libc's function is called.
    """
    import ctypes
    import mmap
    import weakref

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    size = os.fstat(file.fileno()).st_size
    # Not reserved, since few are ever written, and a file may be larger than memory.
    private = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
    # Some systems reserve memory for writable pages anyway: then they are only readable.
    for access in (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ):
        address = libc.mmap(None, size, access, private, file.fileno(), 0)
        if address != ctypes.c_void_p(-1).value:
            pages: Any = (ctypes.c_char * size).from_address(address)
            # Tensors may live until the process ends, so the exit unmaps nothing.
            weakref.finalize(pages, libc.munmap, address, size).atexit = False
            return memoryview(pages).toreadonly()
    error = ctypes.get_errno()
    raise OSError(error, os.strerror(error))
