"""The one part that pyproject.toml cannot say: the compiled accounting kernel, which may fail to build.

The kernel is a plain shared library that calls nothing of Python and is loaded by ctypes, so one wheel per platform
serves every version of Python. Without a C compiler (or with one that does not know GCC's vector types) the install
goes on and the numpy engine is used, 15 to 20 times slower: the numbers are the same. Such a wheel holds nothing but
Python, and its name says so.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

_KERNEL = "pate.privacy.exact._native"
_GNU_FLAGS = ["-O3", "-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"]


class BuildLibrary(build_ext):
    """Builds a shared library where setuptools would build a module of Python's."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without the tag of one Python; ``pate.privacy.exact.native`` looks for this one."""
        return str(Path(*fullname.split("."))) + (".dll" if sys.platform == "win32" else ".so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return no initialiser of a module: there is none. What is exported is marked in the source."""
        return ext.export_symbols

    def get_libraries(self, ext: Extension) -> list[str]:
        """Return no library of Python's: none of its functions is called."""
        return ext.libraries


class Wheel(bdist_wheel):
    """Names the wheel by its platform alone, or by none when the kernel could not be built."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, its binary interface and the platform."""
        build = self.get_finalized_command("build_ext")
        if not Path(build.get_ext_fullpath(_KERNEL)).is_file():
            self.root_is_pure = True
            return "py3", "none", "any"
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
    ext_modules=[
        Extension(
            _KERNEL,
            ["pate/privacy/exact/_native.c"],
            extra_compile_args=[] if sys.platform == "win32" else _GNU_FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            optional=True,
        )
    ],
)
