"""`python -m trendfold` is the command line."""

import sys

from trendfold.cli import main

sys.exit(main())
