"""scikit-learn objects as bytes by skops: no pickle, and only types that are named are built when they are read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from typing import Any

from pate.exceptions import InvalidInputError

#: What skops does not trust by itself, and cannot harm: data holders and pure functions, each by its full name. A
#: prefix such as ``numpy.`` would not do: functions are types to skops, and ``numpy.testing`` has one that runs code.
HARMLESS: tuple[str, ...] = (
    "numpy.dtype",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.utils._bunch.Bunch",
)


def pack_estimator(estimator: Any, *, trusted: Collection[str] = HARMLESS, refusal: str, remedy: str) -> bytes:
    """Return a fitted estimator as bytes that :func:`unpack_estimator` will take with the same ``trusted``.

    Parameters
    ----------
    estimator : scikit-learn estimator
    trusted : collection of str
        Full names of types, beside those that skops trusts.
    refusal, remedy : str
        How the refusal begins and ends: who cannot keep what, and what to do about it.

    Raises
    ------
    InvalidInputError
        It holds something that could not be read back safely. Nothing of what it was fitted on is quoted.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> pack_estimator(FunctionTransformer(lambda x: x), refusal="it cannot be kept", remedy="Leave it.")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: it cannot be kept: ... Leave it.
    """
    import skops.io as sio  # slow to import, and only those who keep estimators need it

    try:
        data = bytes(sio.dumps(estimator))
        unknown = sorted(set(sio.get_untrusted_types(data=data)) - set(trusted))
    except Exception as error:
        # Not chained and not quoted: a fitted part's text may show private values.
        raise InvalidInputError(f"{refusal}: skops cannot store it ({type(error).__name__}). {remedy}") from None
    if unknown:
        raise InvalidInputError(
            f"{refusal}: {', '.join(unknown)} is not among the types that are safe to read back. {remedy}"
        )
    return data


def unpack_estimator(data: bytes, *, trusted: Collection[str] = HARMLESS) -> Any:
    """Return the estimator in bytes; whatever skops raises is raised.

    Raises
    ------
    ValueError
        The bytes claim to hold more than they are: what is packed here is stored as it is.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> unpack_estimator(pack_estimator(GaussianNB(), refusal="", remedy=""))
    GaussianNB()
    """
    import skops.io as sio

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(data):
            raise ValueError("members that unpack to more than they are")

    return sio.loads(data, trusted=list(trusted))
