"""The entry point of the `crossdock` command: the program that the package carries."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("command")
    try:
        os.execv(program, ["crossdock", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"crossdock: cannot start {program}: {error.strerror}; install the package again")
