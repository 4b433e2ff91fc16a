"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._ensemble import TorchTeacherEnsemble as TorchTeacherEnsemble
from ._recipe import default_steps as default_steps
