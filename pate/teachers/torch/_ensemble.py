"""Torch modules as teachers: one per disjoint shard, trained one after the other on CPUs and side by side on GPUs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pate._core.checks import check_choice, check_int, check_real
from pate._core.cluster import on_cluster, workers
from pate._core.curator import tell_curator, warn
from pate._core.frames import plain_rows
from pate._core.types import Mask
from pate.data import private_cells, read_numbers
from pate.exceptions import InvalidInputError, PerformanceWarning
from pate.networks import module_arguments, named_device, visible_devices
from pate.teachers._base import Shard as ShardRows
from pate.teachers._base import ShardEnsemble, rehearse
from pate.teachers._shards import Asked, Failure, Trained, batches, side_by_side
from pate.teachers._usable import column_kinds, complete_rows, is_frame, match_columns
from pate.teachers.checkpoints import WEIGHTS, CheckpointStore, recipe_key
from pate.teachers.torch._grouped import stacked_forward
from pate.teachers.torch._recipe import (
    OPTIMIZERS,
    PRECISIONS,
    Optimizer,
    Recipe,
    check_output,
    code_digest,
    default_steps,
    load_weights,
    with_chain,
)
from pate.teachers.torch._single import train_single
from pate.teachers.torch._tasks import Places, Shard, ask_teachers, contained_torch, group_size_on, train_shards

#: The data curator is warned of less than one part in so many of the rule's steps.
_FEW = 10


@dataclass(repr=False, eq=False)
class TorchTeacherEnsemble(ShardEnsemble):
    """Train one copy of a torch module on each of ``n_teachers`` disjoint shards; the copies vote on public rows.

    It has the methods of :class:`pate.TeacherEnsemble`: ``fit``, ``vote``, no ``predict``. On CPUs teachers are trained
    one after the other in ``n_jobs`` single-threaded workers; on GPUs hundreds of them are trained together.

    Parameters
    ----------
    module : torch.nn.Module class, or a function that makes a module
        Made from scratch for every teacher as ``module(**module_kwargs)``, with ``n_features`` and ``n_classes`` added
        where it takes them; maps rows as they are given to ``fit``, shape (batch, ...), to logits (batch, n_classes),
        or to a mapping or object that has them under ``logits``. Ready ones are in :mod:`pate.networks`.
        Batch normalisation and dropout work; teachers that have them are trained one by one, on GPUs too.
    n_teachers : int
    module_kwargs : mapping or None
    classes : iterable or None
        Every class that could occur: **public** knowledge. None takes them from the private ``y`` and warns.
    epochs : int or None
        Passes over a teacher's own shard, each record once per pass; the last batch of a pass may be smaller. None:
        ``n_steps`` says how long training is.
    n_steps : int or None
        Steps of the optimizer, the same for every teacher whatever its shard holds. None (and no ``epochs``): 500, or
        20 passes over the average shard if that is more, ``20 * ceil(n_units / n_teachers / batch_size)``. The numbers
        of records (of people, with ``groups``) and of teachers are public (docs/defaults.md).
    batch_size : int
    optimizer : {"adam", "adamw", "sgd"}
    learning_rate, weight_decay : float
        As in torch's optimiser of that name.
    momentum : float
        Used by sgd only.
    augment : callable or None
        ``augment(rows, generator)`` gets the rows of one teacher's epoch, shape (n_shard, ...), on the CPU, and a
        ``torch.Generator`` from which all its randomness must come. See :mod:`pate.teachers.torch.augment`.
    precision : {"float32", "bf16", "float64"}
        The number format of training; with bf16 the optimiser keeps float32 weights. Votes are never computed in bf16.
    device : str
        ``"auto"`` takes every visible CUDA device (one worker process each), else MPS, else the CPU.
    group_size : int or "auto"
        How many teachers are trained together. ``"auto"``: 1 on a CPU, all of a device's teachers (up to 256) on a GPU.
        It is halved until a group fits into the GPU's memory, before any shard is used.
    n_jobs : int or None
        Worker processes on the CPU, as in joblib; None leaves it to ``joblib.parallel_config`` (1 otherwise). Each GPU
        always has one.
    random_state : int or None
        Seed of the teachers' training; None draws one from the operating system. It does not decide the shards.
    partition_seed : int or None
        None cuts the shards by a secret from the operating system, because nobody may know which records share a shard.
        A number makes the cut repeatable, for experiments on public data; statements then say what that assumes. See
        :func:`pate.partition`.
    checkpoint_dir : path or None
        Keep every finished teacher here (as safetensors files with a seal), so that a killed run goes on with the
        remaining ones. The folder is as sensitive as the data.
    verbose : bool
        Show progress: teachers done, records per second, time left.

    Attributes
    ----------
    partition_ : Partition
        Which record is in which shard.
    teachers_ : list of dict of arrays
        **Sensitive.** Every teacher's weights by name; :meth:`module_of` makes a module of them. None for one that
        failed.
    failed_, failed_in_vote_ : dict of int -> str
        **Sensitive.** As for :class:`pate.TeacherEnsemble`.
    classes_ : tuple
        The class values, in the order of the votes' columns.
    n_features_in_ : int
        Numbers per row.
    n_resumed_ : int
        How many teachers came from ``checkpoint_dir``.

    Notes
    -----
    **Guarantees.** As for :class:`pate.TeacherEnsemble`: a teacher is a function of its shard, its seed and public
    configuration. Everything random (weights, order of records, augmentation, dropout) is drawn from (seed, teacher,
    epoch) on the CPU, so grouping, workers, devices and interruptions change nothing but the rounding of floating
    point. Who is in a group, a teacher's place in it and the shape of every array are public and decided before any
    shard is looked at; a teacher that has made its steps, or failed, is not moved while others go on, and no teacher's
    failure changes how others are trained. What a GPU's memory holds (and whether a recorded step is faster, on made-up
    rows) decides how large a group is, and so the rounding.

    Modules that share tensors between calls are refused. A class or an augmentation that keeps what it has seen in a
    global variable or a closure would carry it from one shard to the next: that is for you to avoid.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate.networks import MLP
    >>> X, y = load_digits(return_X_y=True)
    >>> teachers = TorchTeacherEnsemble(
    ...     MLP, 5, classes=range(10), device="cpu", random_state=0
    ... )
    >>> votes = teachers.fit(X[:500] / 16, y[:500]).vote(X[500:600] / 16)
    >>> votes, bool((votes.labels == y[500:600]).mean() > 0.7)
    (Votes(n_queries=100, n_classes=10, n_teachers=5, counts=<sensitive>), True)
    """

    module: Callable[..., nn.Module]
    n_teachers: int
    _: KW_ONLY
    module_kwargs: Mapping[str, Any] | None = None
    classes: Any = None
    epochs: int | None = None
    n_steps: int | None = None
    batch_size: int = 32
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    augment: Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None = None
    precision: str = "float32"
    device: str = "auto"
    group_size: int | str = "auto"
    n_jobs: int | None = None
    random_state: int | None = None
    partition_seed: int | None = None
    checkpoint_dir: Any = None
    verbose: bool = False

    def module_of(self, index: int) -> nn.Module:
        """Return teacher ``index`` as a module in evaluation mode, on the CPU: **sensitive**.

        Examples
        --------
        >>> from pate.networks import MLP
        >>> X, y = np.eye(4, dtype=np.float32), [0, 1, 0, 1]
        >>> teachers = TorchTeacherEnsemble(
        ...     MLP, 2, classes=(0, 1), n_steps=50, device="cpu", random_state=0
        ... ).fit(X, y)
        >>> teachers.module_of(1)(torch.zeros(1, 4)).shape
        torch.Size([1, 2])
        """
        check_is_fitted(self, "teachers_")
        index = check_int("index", index, low=0, high=len(self.teachers_) - 1)
        if self.teachers_[index] is None:
            raise InvalidInputError(f"teacher {index} failed, so it has no module; failed_[{index}] says why.")
        return load_weights(self._recipe, index, self.teachers_[index])

    def _check_model(self) -> None:
        if isinstance(self.module, nn.Module) or not callable(self.module):
            raise InvalidInputError(
                f"module must be a torch.nn.Module class or a function that makes a module, got a "
                f"{type(self.module).__name__}. Every teacher needs one of its own: pass SmallCNN, not SmallCNN()."
            )
        if self.module_kwargs is not None and not isinstance(self.module_kwargs, Mapping):
            raise InvalidInputError(f"module_kwargs must be a mapping or None, got {self.module_kwargs!r}.")
        if self.augment is not None and not callable(self.augment):
            raise InvalidInputError(f"augment must be callable as augment(rows, generator), got {self.augment!r}.")
        if self.epochs is not None and self.n_steps is not None:
            raise InvalidInputError(
                "epochs and n_steps both say how long training is, got "
                f"{self.epochs!r} and {self.n_steps!r}. Give one, or neither."
            )
        for name in ("epochs", "n_steps"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), low=1, remedy="None takes a number of steps by a rule.")
        check_int("batch_size", self.batch_size, low=1)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("precision", self.precision, PRECISIONS)
        check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("weight_decay", self.weight_decay, low=0)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)
        if self.momentum and self.optimizer != "sgd":
            raise InvalidInputError(
                f"momentum is for optimizer='sgd', got {self.momentum} with {self.optimizer!r}. Leave it at 0."
            )
        devices = self._devices()
        group_size_on(devices[0], self.group_size, self.n_teachers, len(devices))
        if self.precision == "float64" and devices[0].type == "mps":
            raise InvalidInputError("precision must be 'float32' or 'bf16' on MPS, which has no float64.")

    def _private_rows(self, X: Any, like: Any) -> tuple[npt.NDArray[Any], Mask]:
        X, readable = private_cells(X, texts=False, like=like, finite=True)
        rows = read_numbers(X, missing=True)
        return rows, readable & complete_rows(rows)

    def _set_columns(self, X: Any, given: Any) -> None:
        self._columns = column_kinds(given)
        self._row_shape = tuple(X.shape[1:])
        self.n_features_in_ = int(np.prod(self._row_shape))
        n_classes = len(self.classes_)
        arguments = module_arguments(
            self.module, self.module_kwargs, n_features=self.n_features_in_, n_classes=n_classes
        )
        self._recipe = Recipe(
            self.module,
            arguments,
            n_classes,
            self._row_shape,
            self.epochs,
            self.batch_size,
            Optimizer(self.optimizer, float(self.learning_rate), float(self.weight_decay), float(self.momentum)),
            self.augment,
            self.precision,
            self._seed,
            n_steps=self._n_steps(),
        )
        check_output(self._recipe)
        self._recipe.check_apart()
        self._recipe = with_chain(self._recipe)
        self._code_digest = "" if self.checkpoint_dir is None else code_digest(self._recipe)

    def _n_steps(self) -> int | None:
        """Return how many steps every teacher takes, or None where passes over its shard decide.

        From the numbers of units and of shards, which are public: how many records a shard holds may not be.
        """
        n_shard = math.ceil(self.partition_.n_units / self.partition_.n_shards)
        by_rule, said, words = default_steps(n_shard, self.batch_size), self.n_steps, f"n_steps={self.n_steps}"
        if self.epochs is not None:
            said = self.epochs * math.ceil(n_shard / self.batch_size)
            words = f"epochs={self.epochs} ({said} steps of the optimizer)"
        if said is not None and said * _FEW < by_rule:
            tell_curator(
                f"{words} is hardly any training for shards of {n_shard} records: teachers may be little better than "
                f"chance. Leave epochs and n_steps out (the rule takes {by_rule} steps), or ask for more.",
            )
        return by_rule if said is None else self.n_steps

    def _public_rows(self, X: Any) -> tuple[Any, Any]:
        if is_frame(X := plain_rows(X)) and self._columns is not None:
            X = match_columns(X, self._columns, self.n_features_in_)  # by name, whatever their order
        rows = read_numbers(X)
        if rows.shape[1:] != self._row_shape:
            raise InvalidInputError(
                f"X must have rows of shape {self._row_shape}, as the private ones, got {tuple(rows.shape[1:])}. "
                "Public and private rows need the same features in the same order."
            )
        return rows, rows

    def _open_store(self) -> CheckpointStore:
        return CheckpointStore(self.checkpoint_dir, codec=WEIGHTS)

    def _key(self, X: Any, labels: npt.NDArray[np.int64], index: int, shard: ShardRows) -> bytes:
        recipe = self._recipe
        # Either one: where passes are asked for, the key is what it was before there were steps.
        length = "epochs" if recipe.n_steps is None else "n_steps"
        rest = ("n_classes", length, "batch_size", "optimizer", "augment", "precision", "seed")
        configuration = {"module": recipe.module, "code": self._code_digest, "kwargs": dict(recipe.kwargs)}
        return recipe_key(
            configuration | {name: getattr(recipe, name) for name in rest},
            X[shard],
            labels[shard],
            partition=self.partition_.fingerprint(),
            index=index,
            versions=f"torch={torch.__version__} numpy={np.__version__}",
        )

    def _work(self, n_records: int) -> tuple[float, str]:
        recipe, n_shard = self._recipe, n_records / self.partition_.n_shards
        if recipe.n_steps is None:
            return (recipe.epochs or 0) * n_shard, "records"
        return recipe.n_steps * min(recipe.batch_size, n_shard), "records"

    def _rehearse(self, X: Any, n_rows: int, *, public: bool) -> None:
        recipe = dataclasses.replace(self._recipe, epochs=1, n_steps=None)

        def work(rows: Any, labels: npt.NDArray[np.int64]) -> None:
            with contained_torch():
                given = torch.from_numpy(np.asarray(rows)).to(recipe.dtype)
                train_single(recipe, 0, given, torch.from_numpy(labels), torch.device("cpu"))

        n_rows = min(n_rows, 2 * self.batch_size)
        rehearse(work, X, n_rows=n_rows, n_classes=len(self.classes_), public=public)

    def _train(
        self,
        waiting: list[int],
        keys: list[bytes | None],
        X: Any,
        labels: npt.NDArray[np.int64],
        shards: list[ShardRows],
    ) -> Generator[Trained, None, None]:
        n_teachers = len(shards)
        places = self._places(n_teachers)
        if places.group_size > 1 and waiting and stacked_forward(self._recipe) is None:
            warn(
                f"{getattr(self.module, '__name__', 'module')} cannot be run for many teachers at once (batch "
                "normalisation, dropout, control flow, or numbers that it does not take): they are trained one by one, "
                "slowly on a GPU. Group normalisation and no dropout go together.",
                PerformanceWarning,
            )
        unfinished = set(waiting)

        def cut(i: int) -> Shard:
            if i not in unfinished:
                return Shard(i)
            try:
                return Shard(i, X[shards[i]], labels[shards[i]], keys[i])
            except Exception as error:
                return Shard(i, failure=Failure.of(error, "cutting its rows"))

        # Rows are cut when joblib asks for the next task: never a second copy of all the data.
        calls = (([cut(i) for i in group], self._recipe) for group in self._tasks(waiting, places))
        return self._spread(
            train_shards,
            calls,
            places.n_gpus,
            failed=lambda i, why: Trained(i, failure=Failure(why)),
            alone=lambda i: [cut(j) if j == i else Shard(j) for j in places.group_of(i)],
            device=self.device,
            group_size=places.group_size,
            public_rows=-(-len(X) // n_teachers) if self.partition_.unit == "record" else None,
        )

    def _ask(self, X: Any, chunk_size: int | None) -> Generator[Asked, None, None]:
        places = self._places(len(self.teachers_))
        waiting = [i for i, weights in enumerate(self.teachers_) if weights is not None]
        groups = self._tasks(waiting, places)
        return self._spread(
            ask_teachers,
            (([(i, self.teachers_[i]) for i in group], X, self._recipe) for group in groups),
            places.n_gpus,
            failed=lambda i, why: Asked(i, failure=Failure(why)),
            alone=lambda i: [(j, self.teachers_[j] if j == i else None) for j in places.group_of(i)],
            device=self.device,
            group_size=places.group_size,
            chunk_size=chunk_size,
        )

    def _tasks(self, waiting: list[int], places: Places) -> Iterable[list[int]]:
        """Return the teachers of each task."""
        if places.group_size == 1 and not places.n_gpus:
            # Single teachers travel a few at a time, unless each is to be kept as soon as it is there.
            return batches(waiting, n_jobs=self.n_jobs, largest=4 if self.checkpoint_dir is None else 1)
        return places.groups(waiting)

    def _places(self, n_teachers: int) -> Places:
        devices, spread_out = self._devices(), workers(None)
        n_devices = max(len(devices), spread_out)  # on a cluster every worker has its own
        size = group_size_on(devices[0], self.group_size, n_teachers, n_devices)
        return Places(n_teachers, size, 0 if devices[0].type == "cpu" else n_devices)

    def _devices(self) -> list[torch.device]:
        """Return this process's devices; a cluster's workers look for theirs when they begin."""
        if on_cluster() and self.device != "auto":
            return [named_device(self.device)]
        return visible_devices(self.device)

    def _spread(
        self, function: Callable[..., list[Any]], calls: Iterable[tuple[Any, ...]], n_gpus: int, **options: Any
    ) -> Generator[Any, None, None]:
        """Yield results as they are finished; with GPUs in waves of one task for each, so that no two share one."""
        if not n_gpus:
            slotted = ((*args, 0) for args in calls)
            yield from side_by_side(function, slotted, n_jobs=self.n_jobs, **options)
            return
        spread_out = workers(None)  # other than 1 within joblib.parallel_config
        n_jobs = None if spread_out > 1 else n_gpus  # more workers would fight over a GPU
        tasks = iter(calls)
        while wave := list(islice(tasks, workers(n_jobs))):
            slotted = ((*args, slot) for slot, args in enumerate(wave))
            yield from side_by_side(function, slotted, n_jobs=n_jobs, **options)
