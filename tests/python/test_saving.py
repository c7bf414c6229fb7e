"""What `save` does to the file system: links, modes, names, and folders that accept no new file."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import crossdock as xd
import pytest
from crossdock import _files


def test_a_fifo_is_neither_loaded_nor_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"a\.npy: it is not a regular file"):
        xd.load(path)
    with pytest.raises(OSError, match="not a regular file"):
        xd.save(path, [1])
    assert path.is_fifo() and os.listdir(tmp_path) == ["a.npy"]


def test_a_saved_file_follows_links_and_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file, link = folder / "a.npy", tmp_path / "link.npy"
    link.symlink_to("folder/a.npy")
    xd.save(link, [1])
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask()
    file.chmod(0o640)
    xd.save(link, [2, 3])
    back: Any = xd.load(file)
    assert back.tolist() == [2, 3] and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink() and os.listdir(folder) == ["a.npy"]
    around = tmp_path / "around.npy"
    around.symlink_to(around)
    with pytest.raises(OSError, match="around"):
        xd.save(around, [1])


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_name_of_255_bytes_is_saved(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 251 + ".npy")
    for value in (1, 2):
        xd.save(path, [value])
    back: Any = xd.load(path)
    assert back.tolist() == [2]


# Saves over a file as a user who has no other rights.
AS_NOBODY = """
import os, sys
path, folder_mode, file_mode = sys.argv[1:]
folder = os.path.dirname(path)
import crossdock as xd
xd.save(path, range(1000))
xd.load(path)  # what is imported at the first use, perhaps from root's folders
if os.geteuid() == 0:
    os.chown(path, 65534, 65534)
    os.chown(folder, 65534, 65534)
os.chmod(path, int(file_mode, 8))
os.chmod(folder, int(folder_mode, 8))
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
mapped = xd.load(path)
try:
    xd.save(path, mapped[::-1])
except PermissionError as error:
    print("refused", error.filename == path)
print(xd.load(path)[0].item(), os.listdir(folder))
"""


def as_nobody(child: Any, path: Path, folder_mode: str, file_mode: str) -> str:
    for folder in path.parents:
        if os.geteuid() == 0 and folder.stat().st_uid == 0 and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    done = child(f"import sys; sys.argv[1:] = {[str(path), folder_mode, file_mode]!r}\n{AS_NOBODY}")
    assert done.returncode == 0, done.stderr
    out: str = done.stdout
    return out


def test_a_read_only_file_is_not_saved_over(tmp_path: Path, child: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    out = as_nobody(child, folder / "a.npy", "0755", "0444")
    assert out == "refused True\n0 ['a.npy']\n"


def test_a_file_in_a_folder_without_new_names_is_saved_in_place(
    tmp_path: Path, child: Any
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    out = as_nobody(child, folder / "a.npy", "0555", "0644")
    assert out == "999 ['a.npy']\n"


def test_a_file_that_cannot_be_replaced_is_saved_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is a mount point, as in a container."""
    path = tmp_path / "a.npy"
    xd.save(path, range(10))
    before = path.stat().st_ino

    def is_busy(*_: Any) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "replace", is_busy)
    mapped: Any = xd.load(path)
    xd.save(path, mapped[::-3])
    back: Any = xd.load(path)
    assert back.tolist() == [9, 6, 3, 0] and path.stat().st_ino == before
    with pytest.raises(OSError, match=r"new\.npy"):
        xd.save(tmp_path / "new.npy", [1])
    assert os.listdir(tmp_path) == ["a.npy"]


def test_an_error_of_a_tensor_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    xd.save(path, {"x": [1]})

    class Fails:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise PermissionError(errno.EACCES, "its own")

    with pytest.raises(PermissionError):
        xd.save(path, {"x": [2], "y": Fails()})
    left: Any = xd.load(path)
    assert left["x"].tolist() == [1] and os.listdir(tmp_path) == ["a.safetensors"]


class Broken:
    """A value whose own file cannot be read."""

    def __array__(self, *_: Any, **_also: Any) -> Any:
        raise FileNotFoundError(errno.ENOENT, "no such file", "weights of mine")


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_an_os_error_of_a_value_arrives_unchanged(tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"x.{ending}"
    with pytest.raises(FileNotFoundError) as error:
        xd.save(target, Broken() if ending == "npy" else {"a": xd.ones(2), "b": Broken()})
    assert error.value.filename == "weights of mine"
    assert list(tmp_path.iterdir()) == []


def test_an_os_error_while_a_value_is_read_arrives_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts(_value: Any) -> Any:
        yield b"head"
        raise xd.DeviceTimeoutError("a stream is late")

    monkeypatch.setitem(_files._WRITERS, ".npz", parts)
    with pytest.raises(xd.DeviceTimeoutError, match="a stream is late"):
        xd.save(tmp_path / "x.npz", {"a": xd.ones(2)})
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_on_the_disk_before_it_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, done = tmp_path / "x.npy", []
    sync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        done.append(("fsync", os.fstat(file).st_size))
        sync(file)

    def replaced(old: Any, new: Any) -> None:
        done.append(("replace", os.stat(old).st_size))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    xd.save(target, xd.ones(1000))
    size = target.stat().st_size
    assert done == [("fsync", size), ("replace", size)]
