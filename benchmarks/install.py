"""How large the default installation is and how long it takes: one environment for the wheel, made and thrown away.

``python benchmarks/install.py --name "with CUDA"``; with ``--torch FOLDER``, a folder with torch's build without CUDA,
that build is taken. The time is mostly the network's; the sizes are the files'.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from _machine import HERE, machine

ROOT = HERE.parent
#: What torch's build with CUDA brings along.
OF_TORCH = ("torch", "nvidia", "triton", "cuda", "functorch", "torchgen")

#: Run in the new environment: megabytes by distribution, and what takes how long to import.
_ASK = """
import json
from importlib.metadata import distributions
sizes = {}
for dist in distributions():
    files = [dist.locate_file(f) for f in dist.files or ()]
    sizes[dist.metadata["Name"]] = sum(f.stat().st_size for f in files if f.is_file()) / 1e6
import pate
print(json.dumps([sizes, pate.__version__]))
"""


def measure(wheel: Path, folder: Path, *, local: Path | None) -> dict[str, Any]:
    """Install the wheel and what it needs into a new environment, at the versions of constraints.txt."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    more = [] if local is None else ["--find-links", str(local)]
    inherited = {k: v for k, v in os.environ.items() if k not in ("PIP_FIND_LINKS", "PYTHONPATH")}
    before = time.perf_counter()
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *more, wheel],
        check=True,
        cwd=folder,
        env=inherited | {"PIP_CONFIG_FILE": os.devnull},
    )
    seconds = time.perf_counter() - before
    asked = subprocess.run([python, "-c", _ASK], check=True, capture_output=True, text=True, cwd=folder, env=inherited)
    sizes, version = json.loads(asked.stdout)
    sizes = {name: size for name, size in sizes.items() if name not in ("pip", "setuptools")}
    whole = sum(sizes.values())
    torch = sum(size for name, size in sizes.items() if name.lower().startswith(OF_TORCH))
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:12]
    return {
        "seconds": round(seconds, 1),
        "megabytes": round(whole),
        "torch_share": round(torch / whole, 3),
        "without_torch_megabytes": round(whole - torch),
        "distributions": len(sizes),
        "largest_megabytes": {name: round(size, 1) for name, size in largest},
        "pate": version,
    }


def main() -> None:
    """Measure one installation, and add it to the result under its name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True, help="of this installation in the result")
    parser.add_argument("--torch", type=Path, help="a folder with a wheel of torch's build without CUDA")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "install.json")
    asked = parser.parse_args()
    stamp = machine()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, ROOT], check=True
        )
        (wheel,) = scratch.glob("*.whl")
        found = measure(wheel, scratch / "env", local=asked.torch)
        shutil.rmtree(scratch / "env")
    held = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.exists() else {}
    held[asked.name] = {**found, "machine": stamp}
    asked.out.write_text(json.dumps(held, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(held[asked.name], indent=2))


if __name__ == "__main__":
    main()
