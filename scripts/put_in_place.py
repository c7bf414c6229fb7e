"""Puts a folder of new files over a prefix that may have older ones: all of them, or none."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable
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
    """Lets `write` fill a folder, and puts its files into the prefix; what fails changes nothing."""
    made = make_folders(prefix)
    work = None
    try:
        work = Path(tempfile.mkdtemp(prefix=".crossdock-", dir=prefix))
        staged = work / "new"
        write(staged)
        replace(staged, work / "old", prefix)
    except BaseException:
        # What could not be put back stays there.
        if work and not any(is_entry(path) for path in (work / "old").rglob("*")):
            shutil.rmtree(work, ignore_errors=True)
        remove_folders(made)
        raise
    shutil.rmtree(work, ignore_errors=True)


def replace(staged: Path, aside: Path, prefix: Path) -> None:
    """Moves the staged files into the prefix, and an older installation's out of it."""
    new = sorted(str(path.relative_to(staged)) for path in staged.rglob("*") if is_entry(path))
    new.append(LIST)
    text = staged / LIST
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("".join(f"{name}\n" for name in new))
    gone = [name for name in listed(prefix) if name not in new and is_entry(prefix / name)]
    for name in new:
        check_place(prefix, prefix / name)
    moves: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for name in [*gone, *new]:
            place = prefix / name
            if os.path.lexists(place):
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                moves.append((place, aside / name))
                place.rename(aside / name)
            if name in new:
                made = make_folders(place.parent) + made
                moves.append((staged / name, place))
                (staged / name).rename(place)
    except BaseException:
        for before, after in reversed(moves):
            # The last one may not have happened.
            if os.path.lexists(after) and not os.path.lexists(before):
                after.rename(before)
        remove_folders(made)
        raise
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
