"""Files that are written whole or not at all, where the folder allows it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# What the system answers if a folder accepts no new file, or a file cannot be replaced: it is a mount point, or
# another user's in a folder like `/tmp`.
_NO_NEW_NAME = (errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS, errno.EXDEV)


def write(path: str, parts: Iterable[bytes]) -> None:
    """Writes a file as `open(path, "wb")` would: it follows links and keeps the mode.

    The parts go to a new file, which then replaces the old one. A file whose folder accepts no new name is
    overwritten in place.
    """
    path = os.path.realpath(path)
    old = _replaced(path)
    # The parts may be views of the file's own pages, and other threads and processes may write the same file now. A
    # short name fits wherever the file's own does.
    new = os.path.join(os.path.dirname(path), f".crossdock-{os.urandom(8).hex()}.new")
    try:
        file = open(new, "xb")
    except OSError as error:
        _check_overwrites(old, error)
        return _overwrite(path, b"".join(parts))
    try:
        with file:
            if old is not None:
                _copy_owner_and_mode(file.fileno(), old)
            file.writelines(parts)
            # A crash of the system must not leave the new name with a part of the content.
            file.flush()
            os.fsync(file.fileno())
        try:
            os.replace(new, path)
        except OSError as error:
            _check_overwrites(old, error)
            _overwrite(path, _content(new))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def _check_overwrites(old: os.stat_result | None, error: OSError) -> None:
    """Raises the error again unless there is a file that only cannot be replaced."""
    if old is None or error.errno not in _NO_NEW_NAME:
        raise error


def _replaced(path: str) -> os.stat_result | None:
    """The file that is there, which the caller may write to."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if not os.access(path, os.W_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _copy_owner_and_mode(file: int, old: os.stat_result) -> None:
    # Only root may give a file to another user.
    with contextlib.suppress(PermissionError):
        os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode) & 0o777)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _overwrite(path: str, content: bytes) -> None:
    """Writes over a file in place: a reader may see a part of it, and a failure leaves a part."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()
