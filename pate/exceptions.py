"""The errors and warnings of this package.

Every exception raised on purpose derives from :class:`PateError` *and* from the standard exception a caller would
have caught anyway.

Examples
--------
>>> issubclass(InvalidInputError, ValueError)
True
"""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "CheckpointWarning",
    "CovariateShiftWarning",
    "CuratorWarning",
    "DatasetNotFoundError",
    "DuplicateRecordsWarning",
    "InvalidInputError",
    "LedgerError",
    "MissingExtraError",
    "NotWorthwhileError",
    "NothingSelectedError",
    "PateError",
    "PateWarning",
    "PrivacyLeakWarning",
    "PrivacyParameterWarning",
    "PublicOverlapWarning",
    "RepeatedFitWarning",
    "ResultWarning",
    "RunFolderError",
    "SensitiveValueError",
    "StudentError",
    "StudentWarning",
]


class PateError(Exception):
    """Base of every error this package raises on purpose.

    Examples
    --------
    >>> raise PateError("something is wrong")
    Traceback (most recent call last):
    pate.exceptions.PateError: something is wrong
    """


class InvalidInputError(PateError, ValueError):
    """A value is refused: the text has its name, the value, what is allowed and the remedy.

    Examples
    --------
    >>> try:
    ...     raise InvalidInputError("sigma must be positive")
    ... except ValueError as error:
    ...     print(error)
    sigma must be positive
    """


class NotWorthwhileError(InvalidInputError):
    """Nearly nothing is to be expected of this setting at this budget; nothing was spent."""


class BudgetExceededError(PateError, RuntimeError):
    """The release would cost more than the budget allows; nothing was released or charged.

    Examples
    --------
    >>> issubclass(BudgetExceededError, RuntimeError)
    True
    """


class SensitiveValueError(PateError, TypeError):
    """A private number was about to be printed, compared, pickled or exported.

    Examples
    --------
    >>> issubclass(SensitiveValueError, TypeError)
    True
    """


class LedgerError(PateError, RuntimeError):
    """The ledger cannot be read or written, or contradicts what it is asked to hold.

    Examples
    --------
    >>> issubclass(LedgerError, RuntimeError)
    True
    """


class MissingExtraError(PateError, ImportError):
    """A package is missing that only some people need; the text says which, and how to install it."""


class NothingSelectedError(PateError, RuntimeError):
    """A private selection had no run, or none that succeeded: it is paid for, and released nothing.

    Examples
    --------
    >>> issubclass(NothingSelectedError, RuntimeError)
    True
    """


class StudentError(PateError, RuntimeError):
    """A student could not learn from labels that were released; they are kept; another one learns from them free."""


class DatasetNotFoundError(PateError, FileNotFoundError):
    """A named data set is neither on disk nor could be downloaded."""


class RunFolderError(PateError, FileExistsError):
    """A run folder holds something already, and it is not this very run."""


class PateWarning(UserWarning):
    """Base of the warnings.

    Examples
    --------
    >>> issubclass(PateWarning, UserWarning)
    True
    """


class PrivacyLeakWarning(PateWarning):
    """Something private is about to become visible outside the guarantee.

    Examples
    --------
    >>> issubclass(PrivacyLeakWarning, PateWarning)
    True
    """


class DuplicateRecordsWarning(PrivacyLeakWarning):
    """Identical rows fell into different shards: one person twice would break the guarantee.

    Examples
    --------
    >>> issubclass(DuplicateRecordsWarning, PrivacyLeakWarning)
    True
    """


class PublicOverlapWarning(PrivacyLeakWarning):
    """Rows that are called public stand among the private records: for the curator alone.

    Examples
    --------
    >>> issubclass(PublicOverlapWarning, PrivacyLeakWarning)
    True
    """


class ReplayError(PateError):
    """A pipeline cannot be replayed as it is: two runs on the same data differ, or it would write where none may."""


class PrivacyParameterWarning(PateWarning):
    """A privacy parameter is legal but weak, such as delta >= 1/n."""


class RepeatedFitWarning(PateWarning):
    """An estimator whose fits spend was fitted again, itself or a clone: a grid search does so many times.

    Examples
    --------
    >>> issubclass(RepeatedFitWarning, PateWarning)
    True
    """


class ResultWarning(PateWarning):
    """What was released should not be relied on as it is; public, and paid for: the statement says it too.

    Examples
    --------
    >>> issubclass(ResultWarning, CuratorWarning)
    False
    """


class CheckpointWarning(PateWarning):
    """A stored teacher could not be read and is trained again."""


class CuratorWarning(PateWarning):
    """Something about the private records that the curator alone may know: what it says is **private**.

    Examples
    --------
    >>> issubclass(CuratorWarning, PateWarning)
    True
    """


class CovariateShiftWarning(CuratorWarning):
    """Columns stand elsewhere in the private rows than in the public ones, as in other units: for the curator alone.

    Examples
    --------
    >>> issubclass(CovariateShiftWarning, CuratorWarning)
    True
    """


class StudentWarning(PateWarning):
    """The released labels are too few or too uniform for the student asked for."""


class PerformanceWarning(PateWarning):
    """What was asked for works, but much slower than it could.

    Examples
    --------
    >>> issubclass(PerformanceWarning, PateWarning)
    True
    """
