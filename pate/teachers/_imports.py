"""Teachers by import path: for whoever says in so many words that the code may run."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from sklearn.base import is_classifier

from pate.exceptions import InvalidInputError

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def is_import_path(name: Any) -> bool:
    """Return whether a teacher's name has the form ``package.module:attribute``.

    Examples
    --------
    >>> is_import_path("sklearn.tree:DecisionTreeClassifier"), is_import_path("svm")
    (True, False)
    """
    return isinstance(name, str) and _PATH.fullmatch(name) is not None


def import_teacher(path: str) -> Any:
    """Return the classifier at an import path; **this runs the module's code**.

    Parameters
    ----------
    path : str
        ``package.module:attribute``: a classifier, a class, or a function without parameters that returns one.

    Raises
    ------
    InvalidInputError
        There is no such module or attribute, or it is no classifier.

    Examples
    --------
    >>> import_teacher("sklearn.tree:DecisionTreeClassifier")
    DecisionTreeClassifier()
    """
    if not is_import_path(path):
        raise InvalidInputError(
            f"teacher must be a name, or an import path like package.module:attribute, got {path!r}."
        )
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be imported: {error}. The module must be installed, or on Python's path "
            "(PYTHONPATH=. finds one in this folder)."
        ) from error
    except AttributeError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be imported: {error}. Check the name after the colon."
        ) from error
    try:
        model = found if hasattr(found, "fit") and not isinstance(found, type) else found()
    except TypeError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be made without parameters: {error}. Name a function that returns a classifier."
        ) from error
    if not (hasattr(model, "fit") and hasattr(model, "predict") and is_classifier(model)):
        raise InvalidInputError(
            f"teacher {path!r} is a {type(model).__name__}, not a scikit-learn classifier. Name one, or a function "
            "that returns one."
        )
    return model
