"""`python -m elmokit` is the command `elmo`."""

import sys

from elmokit.cli import main

if __name__ == "__main__":
    sys.exit(main())
