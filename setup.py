"""The one part that pyproject.toml cannot say: the compiled accounting kernel, which may fail to build.

Without a C compiler (or with one that does not know GCC's vector types) the install goes on and the numpy engine is
used, 15 to 20 times slower: the numbers are the same. The kernel calls nothing of Python, so any builder will do.
"""

import sys

from setuptools import Extension, setup

_GNU_FLAGS = ["-O3", "-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"]

setup(
    ext_modules=[
        Extension(
            "pate.privacy.exact._native",
            ["pate/privacy/exact/_native.c"],
            extra_compile_args=[] if sys.platform == "win32" else _GNU_FLAGS,
            optional=True,
        )
    ]
)
