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
    "FederationError",
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
    """A value is invalid: the message says which one, what is allowed and what to do.

    Examples
    --------
    >>> try:
    ...     raise InvalidInputError("sigma must be positive")
    ... except ValueError as error:
    ...     print(error)
    sigma must be positive
    """


class NotWorthwhileError(InvalidInputError):
    """The setting would give nearly useless results at this budget; nothing was spent."""


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


class FederationError(PateError, RuntimeError):
    """A run among institutions was refused or broke off; the message says by whom, and what was spent.

    Examples
    --------
    >>> raise FederationError("hospital-b did not answer within 60 s. Nothing was opened.")
    Traceback (most recent call last):
    pate.exceptions.FederationError: hospital-b did not answer within 60 s. Nothing was opened.
    """


class MissingExtraError(PateError, ImportError):
    """An optional package is missing; the message says which, and how to install it."""


class NothingSelectedError(PateError, RuntimeError):
    """A private selection made no run, or no run succeeded: it is charged, but released nothing.

    Examples
    --------
    >>> issubclass(NothingSelectedError, RuntimeError)
    True
    """


class StudentError(PateError, RuntimeError):
    """The student could not learn from the released labels; they are kept, and another student can use them free."""


class DatasetNotFoundError(PateError, FileNotFoundError):
    """A named data set is neither on disk nor could be downloaded."""


class RunFolderError(PateError, FileExistsError):
    """The run folder already exists and holds something else."""


class PateWarning(UserWarning):
    """Base of all warnings of this package.

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
    """Identical rows are in different shards: if they are one person's, the guarantee does not hold.

    Examples
    --------
    >>> issubclass(DuplicateRecordsWarning, PrivacyLeakWarning)
    True
    """


class PublicOverlapWarning(PrivacyLeakWarning):
    """Some public rows are also among the private records: for the curator alone.

    Examples
    --------
    >>> issubclass(PublicOverlapWarning, PrivacyLeakWarning)
    True
    """


class ReplayError(PateError):
    """A pipeline cannot be replayed as it is: two runs on the same data differ, or it would write where none may."""


class PrivacyParameterWarning(PateWarning):
    """A privacy parameter is legal but weak, such as delta >= 1/n, or an epsilon is more than the ledger has left."""


class RepeatedFitWarning(PateWarning):
    """An estimator, or a clone of it, was fitted again, and every fit spends anew: a grid search does so many times.

    Examples
    --------
    >>> issubclass(RepeatedFitWarning, PateWarning)
    True
    """


class ResultWarning(PateWarning):
    """A released result is unreliable as it is, as its statement says too, or few rows are about to be answered.

    Examples
    --------
    >>> issubclass(ResultWarning, CuratorWarning)
    False
    """


class CheckpointWarning(PateWarning):
    """A stored teacher could not be read and is trained again."""


class CuratorWarning(PateWarning):
    """A warning about the private records, for the curator alone: its text is **private**.

    Examples
    --------
    >>> issubclass(CuratorWarning, PateWarning)
    True
    """


class CovariateShiftWarning(CuratorWarning):
    """Columns differ between private and public rows, as if in other units: for the curator alone.

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
