"""`python -m experiments`: run and record the experiments that lessons show."""

import sys

from experiments.run import main

if __name__ == "__main__":
    sys.exit(main())
