"""Puts a folder of new files over a prefix that may have older ones: all of them, or none."""

import contextlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# What an installation has, a path a line: the next one removes what it does not have itself.
LIST = "share/crossdock/installed-files.txt"


class Refused(Exception):
    """Why nothing is installed, and what to do."""


def check(prefix: Path) -> None:
    """Refuses a prefix that cannot be written to, before anything is built for it."""
    at = prefix
    while not os.path.lexists(at):
        at = at.parent
    if not at.is_dir():
        raise Refused(f"{at} is a file, and not a folder; name a folder, which need not exist yet")
    check_writable(at)


def check_writable(folder: Path) -> None:
    """Refuses a folder in which this user cannot make files."""
    if os.access(folder, os.W_OK | os.X_OK):
        return
    raise Refused(
        f"no permission to write to {folder}, which belongs to {owner(folder)}; "
        "name a PREFIX of your own, such as ~/.local/crossdock"
    )


def owner(path: Path) -> str:
    """The user's name, or the number of one without a name."""
    number = path.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def install(prefix: Path, write: Callable[[Path], None]) -> None:
    """Lets `write` fill a folder, and puts its files into the prefix; what fails, or is ended, changes nothing."""
    with ending_by_exception():
        made = make_folders(prefix)
        work = None
        try:
            work = Path(tempfile.mkdtemp(prefix=".crossdock-", dir=prefix))
            write(work)
            with ending_later():
                replace(work, prefix)
                shutil.rmtree(work, ignore_errors=True)
        except BaseException:
            if work:
                shutil.rmtree(work, ignore_errors=True)
            remove_folders(made)
            raise


@contextlib.contextmanager
def ending_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `SystemExit` here, as SIGINT raises `KeyboardInterrupt`."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextlib.contextmanager
def ending_later() -> Iterator[None]:
    """Signals that end the process wait until this is done."""
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Change:
    """A file of the prefix that is added, replaced, or removed (without a `new` one).

    All that a change needs lies in the file's own folder, whatever file system that is on, and the file is there at
    every moment: the old one until the new one takes its name.
    """

    def __init__(self, place: Path, new: Path | None) -> None:
        self.place, self.new, self.is_begun = place, new, False
        self.fresh, self.old = (place.parent / f".{place.name}.{os.getpid()}.{end}" for end in ("new", "old"))

    def prepare(self) -> None:
        """Puts the new file, and the old one under a second name, beside the place."""
        if self.new:
            shutil.move(self.new, self.fresh)
        if not os.path.lexists(self.place):
            return
        try:
            os.link(self.place, self.old, follow_symlinks=False)
        except OSError:
            # Not every file system has links, nor may all users link to files of others.
            shutil.copy2(self.place, self.old, follow_symlinks=False)

    def make(self) -> None:
        """The change itself."""
        self.is_begun = True
        if self.new:
            os.replace(self.fresh, self.place)
        else:
            os.unlink(self.place)

    def undo(self) -> None:
        """As it was before, also if the change failed."""
        if self.is_begun and os.path.lexists(self.old):
            os.replace(self.old, self.place)
        elif self.is_begun and not os.path.lexists(self.fresh):
            self.place.unlink(missing_ok=True)
        self.clean()

    def clean(self) -> None:
        """Removes what the change needed."""
        for path in (self.fresh, self.old):
            path.unlink(missing_ok=True)


def replace(staged: Path, prefix: Path) -> None:
    """Moves the staged files into the prefix, and removes an older installation's."""
    new = sorted(str(path.relative_to(staged)) for path in staged.rglob("*") if is_entry(path))
    new.append(LIST)
    text = staged / LIST
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("".join(f"{name}\n" for name in new))
    gone = [name for name in listed(prefix) if name not in new and is_entry(prefix / name)]
    for name in new:
        check_place(prefix, prefix / name)
    changes = [Change(prefix / name, None) for name in gone] + [Change(prefix / name, staged / name) for name in new]
    made: list[Path] = []
    try:
        for change in changes:
            made = make_folders(change.place.parent) + made
            change.prepare()
        for change in changes:
            change.make()
    except BaseException:
        for change in reversed(changes):
            change.undo()
        remove_folders(made)
        raise
    for change in changes:
        change.clean()
    for name in gone:
        remove_folders([folder for folder in (prefix / name).parents if prefix in folder.parents])


def is_entry(path: Path) -> bool:
    """Whether there is a file or a link, and no folder."""
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir())


def listed(prefix: Path) -> list[str]:
    """The files that an older installation put here."""
    try:
        names = (prefix / LIST).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [name for name in names if name and not name.startswith("/") and ".." not in name.split("/")]


def check_place(prefix: Path, place: Path) -> None:
    """Refuses what cannot be replaced by a file of an installation."""
    if place.is_dir() and not place.is_symlink():
        raise Refused(f"{place} is a folder where a file belongs; move it away, or name another PREFIX")
    for folder in place.parents:
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise Refused(f"{folder} is a file where a folder belongs; move it away, or name another PREFIX")
            check_writable(folder)
            return
        if folder == prefix:
            return


def make_folders(folder: Path) -> list[Path]:
    """Makes a folder and those above it; what was made, the innermost first."""
    made = []
    while not folder.exists():
        made.append(folder)
        folder = folder.parent
    for folder in reversed(made):
        folder.mkdir(mode=0o755)
    return made


def remove_folders(folders: list[Path]) -> None:
    """Removes those that are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            continue
