"""Arrays that exchange as PyTorch's and CuPy's do, over the driver alone: whose stream waits for whom, and when.

Written from what the sources of both do: `torch/_tensor.py`, `torch/csrc/Module.cpp` and its DLPack exchange table,
`torch/utils/dlpack.py`; `cupy/_core/core.pyx` and `cupy/_core/dlpack.pyx`. Both keep memory that was dropped for the
next array of the same stream, without a wait: what others still do with it then is theirs to have ended. On ROCm both
have 0 for the default stream in DLPack and no other numbers; in CUDA's array interface CuPy has 1 for it there too.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import driver
import structs
from handmade import Forged
from late import Read
from structs import Versioned, consume, delete
from test_exchange_table import FROM, STREAM, TO, Table

SIZE = 4096
# The numbers that mean no stream of a consumer's.
REFUSED = (0,) if driver.NAME == "cuda" else (1, 2)
_free: dict[int, list[int]] = {}
_callbacks: list[Any] = []


class Array:
    """Bytes of the first device, from a cache of blocks for each stream, or of others with their owner."""

    current: ClassVar[int] = 0

    def __init__(self, taken: Versioned | None = None, address: int = 0, owner: object = None) -> None:
        cls = type(self)
        self.taken, self.owner, self.stream = taken, owner, cls.current
        self.is_own = taken is None and owner is None
        if taken is not None:
            address = (taken.tensor.data or 0) + taken.tensor.byte_offset
        elif self.is_own:
            blocks = _free.setdefault(self.stream, [])
            address = blocks.pop() if blocks else driver.allocate(SIZE)
        self.address = address

    def __del__(self) -> None:
        if self.taken is not None:
            delete(self.taken)
        elif self.is_own:
            _free[self.stream].append(self.address)

    def fill(self, value: int) -> None:
        """A kernel on the library's current stream."""
        driver.fill(self.address, value, SIZE, type(self).current)

    def read(self) -> Read:
        """The same, as a kernel that reads."""
        return Read(self.address, SIZE, type(self).current)

    def forged(self) -> Forged:
        """A managed tensor that keeps the array until it is deleted."""
        kept: list[Array] = [self]
        return Forged((SIZE,), dtype=(1, 8, 1), device=(driver.TYPE, 0), data=self.address, size=1, on_delete=kept.clear)

    def described(self, version: int) -> dict[str, Any]:
        data = (self.address, False)
        return {"shape": (SIZE,), "typestr": "|u1", "data": data, "strides": None, "version": version}

    def __dlpack_device__(self) -> tuple[int, int]:
        return driver.TYPE, 0

    def order_behind(self, stream: int) -> None:
        """Lets the consumer's stream wait for the library's, if they differ."""
        own = type(self).current or driver.LEGACY
        if stream != own:
            driver.wait_for(stream, own)


class CuPys(Array):
    """`cupy.ndarray`."""

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> object:
        if copy or dl_device not in (None, (driver.TYPE, 0)):
            raise BufferError("not asked for here")
        if stream is None:
            stream = driver.LEGACY
        elif not isinstance(stream, int) or stream < -1 or stream in REFUSED:
            raise ValueError(f"stream {stream!r}")
        if stream != -1:
            self.order_behind(stream)
        return self.forged().capsule()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.described(3), "stream": type(self).current or 1}

    @classmethod
    def from_dlpack(cls, x: Any) -> CuPys:
        assert x.__dlpack_device__()[0] in (driver.TYPE, driver.MANAGED_TYPE)
        return cls(consume(x.__dlpack__(stream=cls.current or driver.LEGACY, max_version=(1, 0), copy=None)))

    @classmethod
    def asarray(cls, x: Any) -> CuPys:
        """By the CUDA array interface, whose stream the host waits for."""
        described = x.__cuda_array_interface__
        if described.get("stream") is not None:
            driver.synchronize(described["stream"])
        return cls(address=described["data"][0], owner=x)


class PyTorchs(Array):
    """`torch.Tensor`, without what is known by its type alone."""

    def __dlpack__(
        self, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> object:
        if copy or dl_device not in (None, (driver.TYPE, 0)):
            raise BufferError("not asked for here")
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if stream != -1:
            if stream is None:
                stream = driver.LEGACY
            elif stream in (*REFUSED, 2):
                raise AssertionError(f"unsupported stream: {stream}.")
            self.order_behind(stream)
        return self.forged().capsule()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.described(2)

    @classmethod
    def from_dlpack(cls, x: Any) -> PyTorchs:
        assert x.__dlpack_device__()[0] == driver.TYPE
        return cls(consume(x.__dlpack__(stream=cls.current or driver.LEGACY, max_version=(1, 0))))

    @classmethod
    def as_tensor(cls, x: Any) -> PyTorchs:
        """By the CUDA array interface, whose stream is not looked at."""
        return cls(address=x.__cuda_array_interface__["data"][0], owner=x)


class PyTorchsByTable(PyTorchs):
    """The same with the table of C functions, which wait for nothing and name the current stream."""

    __dlpack_c_exchange_api__: ClassVar[object]


def publish_table() -> None:
    @FROM
    def from_object(array: Any, out: Any) -> int:
        forged = array.forged()
        out[0] = ctypes.addressof(forged.managed)
        return 0

    @STREAM
    def current(_type: int, _device: int, out: Any) -> int:
        out[0] = PyTorchsByTable.current or None
        return 0

    @TO
    def to_object(_managed: int, _out: Any) -> int:
        raise NotImplementedError

    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in (from_object, to_object, current)]
    table = Table(1, 3, None, addresses[1], addresses[0], addresses[1], None, addresses[2])
    _callbacks.extend([from_object, current, to_object, table])
    capsule = structs.new_capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)
    PyTorchsByTable.__dlpack_c_exchange_api__ = capsule


publish_table()
