"""Loads the package that goes with the host program, in place of one that the environment has."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from os.path import dirname, join, realpath


def environments_own(folder):
    """The folder and the version of another copy that an import would have found."""
    spec = PathFinder.find_spec("crossdock")
    if spec is None or not spec.has_location or realpath(dirname(spec.origin)) == realpath(folder):
        return None
    from importlib.metadata import distributions

    other = dirname(spec.origin)
    found = next(iter(distributions(name="crossdock", path=[dirname(other)])), None)
    return other, found.version if found else "of unknown version"


def compare(folder, version, other, others_version):
    """Two generations in one environment: a word of it, or the end where they cannot understand each other."""
    if others_version == version:
        return
    both = f"crossdock {version} of the program ({folder}) and crossdock {others_version} of the environment ({other})"
    if others_version[0].isdigit() and others_version.split(".")[0] != version.split(".")[0]:
        raise ImportError(f"{both} do not work together; install the same release of both", name="crossdock")
    from warnings import warn

    warn(f"{both} are different; the program's is used", RuntimeWarning, stacklevel=4)


class Finder:
    """Finds the package once it was imported, so that it can be reloaded as what it is."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name != "crossdock":
            return None
        file = join(self.folder, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[self.folder])


def load(folder, version):
    if other := environments_own(folder):
        compare(folder, version, *other)
    finder = Finder(folder)
    spec = finder.find_spec("crossdock")
    module = sys.modules["crossdock"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.meta_path.insert(0, finder)


load(folder, version)
