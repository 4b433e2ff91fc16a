"""``python -m pate``: the command line."""

from pate.cli import main

if __name__ == "__main__":
    main()
