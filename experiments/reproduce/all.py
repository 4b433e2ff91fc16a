"""Run every script of this folder, one after the other, and write docs/reproduction.md.

    PATE_DATA_HOME=... python experiments/reproduce/all.py [--smoke] [--only NAME ...]

What is finished is not computed again: a stopped run goes on. A script that fails is reported, and the others go on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from page import write_page

HERE = Path(__file__).parent
#: The fast ones first.
SCRIPTS = (
    "papernot2017_epsilons",
    "papernot2018_epsilons",
    "dpsgd_accounting",
    "papernot2018_adult",
    "papernot2017_diabetes",
    "papernot2017_accuracy",
    "papernot2018_mnist",
    "dpsgd_mnist",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="every script in seconds: does it run? Nothing is stored")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=SCRIPTS, help="these scripts")
    given = parser.parse_args()
    failed = []
    for name in given.only:
        # A process each: what one leaves behind (memory, threads, seeds) is nothing to the next.
        said = [sys.executable, str(HERE / f"{name}.py"), *(["--smoke"] if given.smoke else [])]
        if subprocess.run(said, check=False).returncode:
            failed.append(name)
    if not given.smoke:
        print(f"wrote {write_page()}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
