"""Moves tensors between accelerators that know nothing of each other."""

from ._crossdock import *  # noqa: F403
from ._crossdock import __version__  # noqa: F401
from ._asarray import asarray, empty, empty_like, full, ones, zeros  # noqa: F401
from ._files import load, save  # noqa: F401
from ._opencl import from_opencl  # noqa: F401
