"""Lists what PyInstaller cannot see in the package: native files, and modules that native code imports."""

from pathlib import Path

from crossdock import _late

PACKAGE = Path(__file__).resolve().parent.parent
LIBRARY = PACKAGE / "libcrossdock.so.1"
# The library looks for plugins next to its own file, to which an installation has a link.
PLUGINS = LIBRARY.resolve().parent / "crossdock/plugins"

binaries = [(str(LIBRARY), "crossdock"), (str(PLUGINS / "*.so"), "crossdock/crossdock/plugins")]
hiddenimports = [
    *(f"crossdock.{file.stem}" for file in PACKAGE.glob("_*.py") if file.stem != "__init__"),
    *_late.OF_PYTHON,
    *_late.OF_THOSE,
]
