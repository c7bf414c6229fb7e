"""`load` and `save`: .npy, .npz and .safetensors."""

import contextlib
import ctypes
import io
import itertools
import json
import os
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from pathlib import Path

import crossdock as xd
import handmade
import ml_dtypes
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", "bool int8 uint16 int64 float16 float32 complex64".split())
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 4)])
def test_an_npy_file_of_numpy_is_loaded_without_reading_it_and_written_for_it(
    tmp_path: Path, dtype: Any, shape: Any
) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for order in (array, np.array(array, order="F")):
        np.save(tmp_path / "a.npy", order)
        tensor: Any = xd.load(tmp_path / "a.npy")
        assert tensor.readonly or tensor.size == 0
        assert np.array_equal(tensor.numpy(), array) and tensor.numpy().dtype == array.dtype
        xd.save(tmp_path / "b.npy", tensor)
        back = np.load(tmp_path / "b.npy", mmap_mode="r" if array.size else None)
        assert np.array_equal(back, array) and back.dtype == array.dtype


def test_a_loaded_tensor_is_the_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4, dtype=np.uint8))
    tensor: Any = xd.load(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x63")
    assert tensor.tolist() == [0, 1, 2, 99]
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_npz_file_is_loaded_by_name(tmp_path: Path, write: Any) -> None:
    arrays: dict[str, Any] = {"a": np.arange(3), "b/c": np.ones((2, 2), np.float32)}
    write(tmp_path / "a.npz", **arrays)
    loaded: Any = xd.load(tmp_path / "a.npz")
    assert loaded.keys() == arrays.keys()
    assert all(np.array_equal(loaded[name].numpy(), arrays[name]) for name in arrays)
    xd.save(tmp_path / "b.npz", loaded)
    with np.load(tmp_path / "b.npz") as back:
        assert all(np.array_equal(back[name], arrays[name]) for name in arrays)


def test_every_dtype_of_safetensors_comes_back(tmp_path: Path) -> None:
    names = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 "
        "complex64 float8_e4m3fn float8_e5m2 float8_e8m0fnu float6_e2m3fn float6_e3m2fn "
        "float4_e2m1fn"
    )
    tensors = {name: xd.ones((2, 4), dtype=name) for name in names.split()}
    tensors["a view"] = xd.asarray(np.arange(12.0).reshape(3, 4))[::-1, ::2]
    tensors["empty"] = xd.zeros((0, 3))
    tensors["number"] = xd.asarray(3)
    path = tmp_path / "a.safetensors"
    xd.save(path, tensors)
    loaded: Any = xd.load(path)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape)
        assert loaded[name].tolist() == tensor.tolist()
        assert loaded[name].data_ptr() % max(1, tensor.dtype.itemsize) == 0
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    header = json.loads(path.read_bytes()[8 : 8 + length])
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert offsets[0][0] == 0 and length % 8 == 0
    assert all(one[1] == other[0] for one, other in itertools.pairwise(offsets))


@pytest.mark.parametrize("device", xd.devices(), ids=str)
def test_files_go_to_and_come_from_any_device(tmp_path: Path, device: Any) -> None:
    there = xd.full((3, 5), 2.5, device=device)
    xd.save(tmp_path / "a.npy", there)
    loaded: Any = xd.load(tmp_path / "a.npy", device=device)
    assert loaded.tolist() == there.tolist()
    xd.save(tmp_path / "a.safetensors", {"x": there})
    loaded = xd.load(tmp_path / "a.safetensors", device=device)
    assert loaded["x"].device == device


def safetensors(header: Any, data: Any = b"", length: Any = None) -> Any:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> Any:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\2\3",
        safetensors({}, length=1 << 60),
        safetensors(b"{"),
        safetensors(b"[]"),
        safetensors(b"\xff\xfe"),
        safetensors(entry(), b"1234"),
        safetensors(entry(dtype="F33"), bytes(8)),
        safetensors(entry(shape=(3,)), bytes(16)),
        safetensors(entry(shape=(-1,)), bytes(8)),
        safetensors(entry(shape=(1 << 62, 1 << 62)), bytes(8)),
        safetensors(entry(offsets=(-8, 0)), bytes(8)),
        safetensors(entry(offsets=(8, 0)), bytes(8)),
        safetensors(entry(offsets=(0,)), bytes(8)),
        safetensors({"a": 1}),
        safetensors({"a": {}}),
    ],
)
def test_a_broken_safetensors_file_is_a_value_error(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        xd.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:9],
        lambda data: data[:60],
        lambda data: data[:-1],
        lambda data: data.replace(b"NUMPY", b"NUMPX"),
        lambda data: data.replace(b"<f8", b">f8"),
        lambda data: data.replace(b"<f8", b"|O8"),
        lambda data: data.replace(b"<f8", b"<f7"),
        lambda data: data.replace(b"(3,)", b"(-3)"),
        lambda data: data.replace(b"(3,)", b"'a' "),
        lambda data: data.replace(b"{'de", b"[1,2"),
        lambda data: data.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"),
    ],
)
def test_a_broken_npy_file_is_a_value_error(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3.0))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.npy"):
        xd.load(path)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("descr", "<f16"), ("descr", "<c4"), ("descr", "<b8"), ("descr", "<f 4"),
        ("descr", "?"), ("descr", [("a", "<f4")]), ("descr", "<V2"), ("fortran_order", "False"),
        ("shape", (-1,)), ("shape", (2.0,)), ("shape", (1 << 62, 4)),
        ("shape", (1,) * 66),
    ],
)  # fmt: skip
def test_a_header_that_says_what_no_tensor_is_is_refused(
    tmp_path: Path, entry: Any, value: Any
) -> None:
    path = tmp_path / "a.npy"
    described = {"descr": "<f4", "fortran_order": False, "shape": (2,), entry: value}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, described)
        file.write(bytes(64))
    with pytest.raises(ValueError, match=r"a\.npy"):
        xd.load(path)


def test_the_reason_stays_short_when_the_header_is_long(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\2\0" + (100_000).to_bytes(4, "little") + b"(" * 100_000)
    with pytest.raises(ValueError, match=r"a\.npy") as caught:
        xd.load(path)
    assert len(str(caught.value)) < 500


def test_a_broken_npz_file_is_a_value_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3.0))
    whole = path.read_bytes()
    for content in (b"", whole[:-10], whole[:20], b"PK"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npz"):
            xd.load(path)


def test_what_a_format_cannot_hold_is_refused_and_no_file_is_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        xd.save(tmp_path / "a.npy", xd.ones(2, dtype="bfloat16"))
    with pytest.raises(ValueError, match="complex128"):
        xd.save(tmp_path / "a.safetensors", {"a": xd.ones(2, dtype="complex128")})
    for names, wrong in (({3: [1]}, "texts"), ({"__metadata__": [1]}, "choose another")):
        with pytest.raises((TypeError, ValueError), match=wrong):
            xd.save(tmp_path / "a.safetensors", names)
    with pytest.raises(TypeError, match="texts"):
        xd.save(tmp_path / "a.npz", {3: [1]})
    padded = np.zeros(3, ml_dtypes.float4_e2m1fn)
    with pytest.raises(ValueError, match="packed.*tolist"):
        xd.save(tmp_path / "a.safetensors", {"a": padded})
    with pytest.raises(TypeError, match="one tensor"):
        xd.save(tmp_path / "a.npy", {"a": xd.ones(2)})
    with pytest.raises(TypeError, match="by name"):
        xd.save(tmp_path / "a.npz", xd.ones(2))
    with pytest.raises(ValueError, match="ends in none"):
        xd.save(tmp_path / "a.txt", xd.ones(2))
    with pytest.raises(ValueError, match="ends in none"):
        xd.load(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        xd.load(tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_saved_is_named_as_the_caller_did(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "q.npy"
    with pytest.raises(FileNotFoundError) as caught:
        xd.save(missing, [1])
    assert (caught.value.filename, caught.value.filename2) == (str(missing), None)
    folder = tmp_path / "folder.npy"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match=r"'[^']*folder\.npy'$"):
        xd.save(folder, [1])
    assert os.listdir(tmp_path) == ["folder.npy"]


def test_threads_may_save_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"

    def save(value: int) -> None:
        for _ in range(30):
            xd.save(path, [value] * (1000 * value))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(1, 5)))
    last: Any = xd.load(path)
    assert last.tolist() == [last[0].item()] * (1000 * last[0].item())
    assert [file.name for file in tmp_path.iterdir()] == ["a.npy"]


def test_a_file_may_be_saved_over_the_one_that_its_tensor_maps(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    xd.save(path, range(1000))
    tensor: Any = xd.load(path)
    xd.save(path, tensor[::-1])
    turned: Any = xd.load(path)
    assert tensor.tolist() == list(range(1000)) and turned[0].item() == 999


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "b.npz", "a.safetensors"])
def test_a_file_with_any_bytes_changed_is_loaded_or_is_a_value_error(
    tmp_path: Path, name: Any
) -> None:
    path = tmp_path / name
    tensors = {"x": xd.asarray([[1, 2], [3, 4]]), "y": xd.ones(3, dtype="float32")}
    if name == "b.npz":
        np.savez_compressed(path, **{key: tensor.numpy() for key, tensor in tensors.items()})
    else:
        xd.save(path, tensors["x"] if name == "a.npy" else tensors)
    whole = path.read_bytes()
    chance = random.Random(5)
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        changed = tmp_path / f"changed.{name.partition('.')[2]}"
        changed.write_bytes(content)
        try:
            loaded: Any = xd.load(changed)
        except ValueError:
            continue
        finally:
            changed.unlink()
        for tensor in [loaded] if isinstance(loaded, xd.Tensor) else accessible(loaded):
            tensor.tolist()


def accessible(tensors: Mapping[str, xd.Tensor]) -> Iterator[xd.Tensor]:
    """Those that are not refused by name."""
    for name in tensors:
        with contextlib.suppress(ValueError):
            yield tensors[name]


MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_who_writes_to_a_read_only_file_changes_memory_and_not_the_file(
    tmp_path: Path, ending: str, child: Any
) -> None:
    """PyTorch, optimisers and kernels do: they know of no read-only memory."""
    path = tmp_path / f"model.{ending}"
    xd.save(path, np.arange(4.0) if ending == "npy" else {"w": np.arange(4.0)})
    before = path.read_bytes()
    done = child(
        f"""
import ctypes, crossdock as xd
t = xd.load({str(path)!r})
t = t["w"] if isinstance(t, dict) else t
assert t.readonly
(ctypes.c_double * 4).from_address(t.data_ptr())[1] = 7.0
try:
    t.fill(1.0)
except ValueError:
    print(t.tolist())
"""
    )
    assert (done.returncode, done.stdout) == (0, "[0.0, 7.0, 2.0, 3.0]\n"), done.stderr
    assert path.read_bytes() == before


def test_a_file_may_be_four_times_as_large_as_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    np.save(path, np.ones(8, "u1"))
    with open(path, "r+b") as file:
        header = file.read(128)
        count = 4 * MEMORY
        text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count},), }}"
        file.seek(10)
        file.write(text.ljust(117).encode() + b"\n")
        assert len(header) == 128
        file.truncate(128 + count)
    tensor: Any = xd.load(path)
    assert tensor.readonly and tensor.shape == (count,)
    assert tensor[:10].tolist() == [1] * 8 + [0, 0]
    assert tensor[count - 1].item() == 0
    # A page of it may be written, and the rest takes no memory.
    ctypes.c_uint8.from_address(tensor[count - 1 :].data_ptr()).value = 5
    assert tensor[count - 1].item() == 5


def test_bytes_are_shared_and_said_to_be_read_only() -> None:
    """Who ignores READ_ONLY, as PyTorch does, changes them in place."""
    data = bytes(bytearray(range(8)))
    tensor = xd.asarray(data)
    managed = handmade.exported(tensor)
    assert tensor.readonly and managed.flags & 1
    ctypes.c_uint8.from_address(managed.tensor.data).value = 9
    assert data[0] == 9 and tensor.copy().tolist()[0] == 9


def test_a_member_is_unpacked_as_far_as_its_array_goes(tmp_path: Path) -> None:
    """A small file may unpack to any size: 2 MB to 1 GiB here."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        buffer = io.BytesIO()
        np.save(buffer, np.arange(4.0))
        with archive.open("a.npy", "w") as member:
            member.write(buffer.getvalue())
            for _ in range(1024):
                member.write(bytes(1 << 20))
    tracemalloc.start()
    tensors: Any = xd.load(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tensors["a"].tolist() == [0.0, 1.0, 2.0, 3.0] and most < 16 << 20


def test_a_header_that_is_longer_than_any_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.npy"
    shape = "1," * 300_000
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({shape})}}\n".encode()
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + b"1")
    with pytest.raises(ValueError, match="too long"):
        xd.load(path)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_a_mapped_file_holds_no_descriptor(tmp_path: Path, ending: str, child: Any) -> None:
    path = tmp_path / f"a.{ending}"
    xd.save(path, [1, 2] if ending == "npy" else {"x": [1, 2]})
    done = child(
        f"""
import resource, crossdock as xd
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
many = [xd.load({str(path)!r}) for _ in range(300)]
print(len(many))
"""
    )
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


def test_pages_of_a_file_are_unmapped_with_their_last_tensor(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    xd.save(path, [1, 2, 3])
    part: Any = xd.load(path)
    part = part[1:]
    assert part.tolist() == [2, 3] and str(path) in Path("/proc/self/maps").read_text()
    del part
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_a_member_that_is_no_array_is_refused_on_access_and_the_others_load(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.npz"
    objects = np.array([{}, None], dtype=object)
    np.savez(path, good=np.arange(3), objects=objects, texts=np.array(["a"]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "a text")
    loaded: Any = xd.load(path)
    assert list(loaded) == ["good", "objects", "texts", "notes.txt"] and len(loaded) == 4
    assert loaded["good"].tolist() == [0, 1, 2]
    assert loaded.get("other") is None and "texts" in loaded
    for name in ("objects", "texts", "notes.txt"):
        with pytest.raises(ValueError, match=rf"a\.npz: its member `{name}`: "):
            loaded[name]
    with pytest.raises(KeyError):
        loaded["other"]
    with pytest.raises(ValueError, match="member"):
        xd.save(tmp_path / "b.npz", loaded)
    there: Any = xd.load(path, device="cpu")
    assert there["good"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_a_file_that_the_system_cannot_open_or_read_is_an_os_error(
    tmp_path: Path, ending: str, child: Any
) -> None:
    path = tmp_path / f"a.{ending}"
    xd.save(path, [1, 2] if ending == "npy" else {"x": [1, 2]})
    done = child(
        f"""
import errno, os, zipfile, crossdock as xd
from crossdock import _files, _npy
xd.load({str(path)!r})  # what is imported at the first use
if {ending!r} == "npz":
    def fails(*_): raise OSError(errno.EIO, os.strerror(errno.EIO))
    whole, zipfile.ZipFile.infolist = zipfile.ZipFile.infolist, fails
    try:
        xd.load({str(path)!r})
    except OSError as error:
        print(error.errno == errno.EIO)
    zipfile.ZipFile.infolist, _npy.Head.__init__ = whole, fails
    try:
        xd.load({str(path)!r})
    except OSError as error:
        print(error.errno == errno.EIO)
else:
    print("True\\nTrue")
kept = []
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    xd.load({str(path)!r})
except OSError as error:
    print(error.errno == errno.EMFILE)
"""
    )
    assert (done.returncode, done.stdout) == (0, "True\n" * 3), done.stderr
