import builtins
import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, final, type_check_only

__version__: str

# What the functions accept.

@type_check_only
class _Producer(Protocol):
    """An object that speaks DLPack, of whatever version."""

    def __dlpack_device__(self) -> tuple[Any, int]: ...

_DeviceLike: TypeAlias = Device | str | tuple[int, int]
_DtypeLike: TypeAlias = Dtype | str | Any
_Capsule: TypeAlias = Any

# Errors.

class DeviceError(RuntimeError):
    operation: str
    plugin: str
    device: str
    code: int

class UnsupportedDeviceError(BufferError, TypeError): ...
class CopyRequiredError(BufferError, ValueError): ...

# Devices and plugins.

@final
class Device:
    @property
    def type(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def uuid(self) -> bytes | None: ...
    def memory(self) -> tuple[int, int]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __eq__(self, value: object, /) -> builtins.bool: ...
    def __ne__(self, value: object, /) -> builtins.bool: ...
    def __hash__(self) -> int: ...

@final
class Plugin:
    @property
    def name(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def state(self) -> Literal["ready", "absent", "broken"]: ...
    @property
    def detail(self) -> str: ...
    def retire(self) -> None: ...

def devices() -> list[Device]: ...
def device(spec: _DeviceLike) -> Device: ...
def plugins() -> list[Plugin]: ...
def load_plugin(path: str | os.PathLike[str]) -> Plugin: ...

# Tensors.

@final
class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def device(self) -> Device: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> builtins.bool: ...
    def data_ptr(self) -> int: ...
    def to(
        self, device: _DeviceLike | None = None, *, copy: builtins.bool | None = None
    ) -> Tensor: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: _DeviceLike | None = None,
        copy: builtins.bool | None = None,
    ) -> _Capsule: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def from_dlpack(
    x: _Producer | _Capsule,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: builtins.bool | None = None,
) -> Tensor: ...

# Routes.

@final
class Route:
    @property
    def kind(self) -> Literal["alias", "direct", "staged", "refused"]: ...
    @property
    def bytes_copied(self) -> int: ...
    @property
    def refused(self) -> list[str]: ...

def explain(
    x: Tensor | _DeviceLike,
    device: _DeviceLike,
    *,
    shape: Sequence[int] | None = None,
    dtype: _DtypeLike | None = None,
) -> Route: ...
def _runtime_address() -> int: ...

# Dtypes.

@final
class Dtype:
    @property
    def name(self) -> str: ...
    @property
    def bits(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    def __eq__(self, value: object, /) -> builtins.bool: ...
    def __ne__(self, value: object, /) -> builtins.bool: ...
    def __hash__(self) -> int: ...

bool: Dtype
int8: Dtype
int16: Dtype
int32: Dtype
int64: Dtype
uint8: Dtype
uint16: Dtype
uint32: Dtype
uint64: Dtype
float16: Dtype
float32: Dtype
float64: Dtype
bfloat16: Dtype
complex64: Dtype
complex128: Dtype
float8_e3m4: Dtype
float8_e4m3: Dtype
float8_e4m3b11fnuz: Dtype
float8_e4m3fn: Dtype
float8_e4m3fnuz: Dtype
float8_e5m2: Dtype
float8_e5m2fnuz: Dtype
float8_e8m0fnu: Dtype
float6_e2m3fn: Dtype
float6_e3m2fn: Dtype
float4_e2m1fn: Dtype
int2: Dtype
int4: Dtype
uint2: Dtype
uint4: Dtype
