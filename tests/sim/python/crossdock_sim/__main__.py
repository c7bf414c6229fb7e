"""`python -m crossdock_sim` is the command `crossdock-sim`."""

import sys

from crossdock_sim.command import main

if __name__ == "__main__":
    sys.exit(main())
