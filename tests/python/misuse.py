"""What a type checker must refuse. It is read and never run: `test_types.py` checks it with the
other files, and a line that would pass is an error then, since its comment is not needed.
"""

from __future__ import annotations

import crossdock as xd


def misuse(tensor: xd.Tensor) -> None:
    tensor + 1  # type: ignore[operator]
    tensor.shape = (3,)  # type: ignore[misc]
    tensor["a"]  # type: ignore[index]
    tensor[[0]]  # type: ignore[index]
    del tensor[0]  # type: ignore[attr-defined]
    tensor.to(3)  # type: ignore[arg-type]
    tensor.to(copy="yes")  # type: ignore[arg-type]
    tensor.reshape("23")  # type: ignore[arg-type]
    xd.zeros("ab")  # type: ignore[arg-type]
    xd.full(2.0, 1)  # type: ignore[arg-type]
    xd.device(3)  # type: ignore[call-overload]
    xd.asarray([1], device=3)  # type: ignore[arg-type]
    xd.from_dlpack(3)  # type: ignore[arg-type]
    xd.from_dlpack(tensor, "cpu")  # type: ignore[call-arg]
    xd.load(3)  # type: ignore[arg-type]
    xd.load("a.npy").numpy()  # type: ignore[union-attr]
    xd.device("cpu").capabilities.append("fill")  # type: ignore[attr-defined]
    xd.Device("cpu")  # type: ignore[call-arg]
