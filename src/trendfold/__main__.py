"""`python -m trendfold` and the command `trendfold`."""

import sys

from trendfold import interrupt


def main() -> int:
    """Listen for Ctrl-C before anything is imported that takes long."""
    interrupt.listen()
    from trendfold.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
