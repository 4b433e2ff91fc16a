"""DP-SGD (Abadi et al. 2016) as a scikit-learn classifier: the baseline PATE is measured against."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pate.core.checks import check_choice, check_int, check_real
from pate.core.seeds import training_seed
from pate.data import records_fingerprint
from pate.dpsgd._build import build_engine
from pate.dpsgd._calibration import ADJACENCIES
from pate.dpsgd._plan import Plan, make_plan
from pate.dpsgd._rows import keep_columns, read_features, read_records
from pate.dpsgd._statement import dpsgd_statement, mechanism_of
from pate.dpsgd._training import OPTIMIZERS, PoissonSampler, make_optimizer, train
from pate.dpsgd.engines import Engine
from pate.exceptions import InvalidInputError, PateError, PrivacyParameterWarning
from pate.ledger import Ledger, Registration
from pate.networks._devices import held_threads, one_device
from pate.networks._generators import own_generator
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget

_PREDICTION_ROWS = 4096


class DPSGDClassifier(ClassifierMixin, BaseEstimator):
    """Train a torch module with differentially private stochastic gradient descent.

    Parameters
    ----------
    module : {"linear", "tanh-mlp", "tanh-cnn", ...}, a torch.nn.Module class, or a function that makes a module
        What :class:`pate.teachers.torch.TorchTeacherEnsemble` takes, or a name in :func:`pate.networks.named_modules`:
        made anew by every fit as ``module(**module_kwargs)``, with ``n_features`` and ``n_classes`` added where it
        takes them; maps rows as they are given to ``fit``, float32 of shape (batch, ...), to logits (batch, n_classes),
        or to a mapping or object that has them under ``logits``. A module that already exists is refused: it would
        carry what it learnt before. One that mixes the records of a batch is refused (use group norm instead
        of batch norm).
    budget : Budget
        Spent whole by each fit.
    max_grad_norm : float
        L2 norm to which each record's gradient is clipped.
    epochs : int
        Of ceil(n / expected_batch_size) steps each; n is ``nominal_n`` where that is given.
    expected_batch_size : int
        Each record enters a step with probability expected_batch_size / n, independently.
    learning_rate : float
        Of the noisy clipped sum divided by the *expected* batch size.
    optimizer : {"sgd", "adam"}
    momentum : float
        Of sgd only.
    module_kwargs : mapping or None
        More arguments of ``module``, such as ``{"hidden": (128,)}``.
    classes : sequence or None
        Every class that could occur: public knowledge. None reads them off y, with a warning.
    max_physical_batch_size : int or None
        Records whose gradients are computed at once; has no effect on the result but for rounding. None takes what fits
        in some 100 MB.
    noise_multiplier : float or None
        None takes the least noise the budget allows. A number is checked against the budget.
    adjacency : {"replace-one", "add-or-remove"}
        Replace-one, as everywhere in this package, gives epsilons that compare with PATE's. Most published DP-SGD
        epsilons are for add-or-remove, and smaller at the same noise: the statement says by how much.
    nominal_n : int or None
        For add-or-remove only, and needed there: a public number of records, from which sampling rate and steps follow.
        Neighbours differ in the true one, which is then used nowhere.
    ledger : Ledger or None
        Charge the fit there before it begins, and stay within its total; replace-one only. The noise is then the least
        that the budget and the ledger both allow (the ledger's currency prices a run somewhat higher: up to twice the
        noise). A fit that dies after the charge stays charged, and every further fit draws new noise and is charged
        anew.
    device : str
        ``"auto"`` takes a CUDA device where there is one.
    n_threads : int or None
        CPU threads of torch during fit and predict. One is fastest for small modules, by far when other processes
        want the same cores; None leaves torch as it is.
    random_state : int or None
        Of the initial weights and of dropout. Not of the noise.
    noise_seed : int or None
        For tests and experiments only: makes samples and noise repeatable, and then nothing is private.
    verbose : bool
        Show a progress bar on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    noise_multiplier_ : float
        Standard deviation of the noise on the summed gradients, in units of ``max_grad_norm``.
    n_steps_ : int
    sample_rate_ : float
    module_ : torch.nn.Module
        The trained module, on the CPU.
    guarantee_ : Guarantee
    statement_ : PrivacyStatement

    Notes
    -----
    **Guarantees.** The trained parameters, those of every intermediate step included, are (epsilon,
    delta)-differentially private for one record under ``adjacency``; the module ``pate.dpsgd._calibration`` has
    the theorem. That clipping bounds one record does not hang on the module keeping records apart: a module of torch's
    own layers is run by an engine that knows them (book-keeping: one pass for many records), any other one record at a
    time, on a copy that is thrown away. (Code that keeps rows outside of the module, in a global say, is not seen.)
    All parameters above are taken as public, and under replace-one the number of records. Each fit is a fresh spend:
    searching over k settings costs k budgets, which a ``ledger`` adds up. Features are used as they come: scale them by
    public knowledge (pixel / 255) or with statistics of public data, never with statistics of the private rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPSGDClassifier("linear", budget=Budget(8.0, 1e-4), classes=range(10), epochs=5, random_state=0)
    >>> bool(clf.fit(X[:1200] / 16, y[:1200]).score(X[1200:] / 16, y[1200:]) > 0.5)
    True
    >>> clf.guarantee_.epsilon <= 8.0
    True
    """

    def __init__(
        self,
        module: str | Callable[..., nn.Module],
        *,
        budget: Budget,
        max_grad_norm: float = 1.0,
        epochs: int = 20,
        expected_batch_size: int = 256,
        learning_rate: float = 0.25,
        optimizer: str = "sgd",
        momentum: float = 0.9,
        module_kwargs: Mapping[str, Any] | None = None,
        classes: Any = None,
        max_physical_batch_size: int | None = None,
        noise_multiplier: float | None = None,
        adjacency: str = "replace-one",
        nominal_n: int | None = None,
        ledger: Ledger | None = None,
        device: str = "cpu",
        n_threads: int | None = 1,
        random_state: int | None = None,
        noise_seed: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.module = module
        self.budget = budget
        self.max_grad_norm = max_grad_norm
        self.epochs = epochs
        self.expected_batch_size = expected_batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.module_kwargs = module_kwargs
        self.classes = classes
        self.max_physical_batch_size = max_physical_batch_size
        self.noise_multiplier = noise_multiplier
        self.adjacency = adjacency
        self.nominal_n = nominal_n
        self.ledger = ledger
        self.device = device
        self.n_threads = n_threads
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.verbose = verbose

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> DPSGDClassifier:
        """Train on private records, spending the budget once.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or array of shape (n, ...) such as images
            Finite numbers on a scale fixed without looking at these rows.
        y : array-like of shape (n,)
            Class values.

        Returns
        -------
        DPSGDClassifier
            This object. When anything fails, or on Ctrl-C, it stays exactly as it was before.

        Raises
        ------
        InvalidInputError
            A value is out of range, or the module cannot be trained with differential privacy.
        BudgetExceededError
            ``noise_multiplier`` is too small for the budget, or the ledger does not pay for the fit.
        LedgerError
            The ledger could not be written, or is for other private data; nothing was trained.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=[0, 1], expected_batch_size=8)
        >>> clf.fit(np.eye(16), np.arange(16) % 2).n_steps_
        40
        """
        self._check_settings()
        reader = copy.copy(self)  # what it learns of the columns is ours once all has gone well
        features, labels, classes = read_records(reader, X, y, self.classes)
        n_records = self._nominal(len(features))
        source = NoiseSource(self.noise_seed)
        device = one_device(self.device)
        data = Registration("record", classes, n_units=len(features), fingerprint=records_fingerprint(labels))
        if self.ledger is not None:
            self.ledger.check(data)
        plan = make_plan(
            self.budget,
            n_records=n_records,
            expected_batch_size=self.expected_batch_size,
            epochs=self.epochs,
            noise_multiplier=self.noise_multiplier,
            adjacency=self.adjacency,
            ledger=self.ledger,
        )
        with held_threads(self.n_threads):
            with own_generator(training_seed(self.random_state, 0), device):
                engine = build_engine(self.module, features.shape[1:], len(classes), self.module_kwargs)
                engine.module.to(device)
            # Charged once nothing public can fail any more, and before the first noise.
            releases = self._pay(plan, data, seeded=source.seeded)
            trained = self._train(engine, features, labels, plan, source, device)

        statement = dpsgd_statement(
            plan,
            max_grad_norm=self.max_grad_norm,
            classes_given=self.classes is not None,
            seeded=source.seeded,
            apart=engine.apart,
            ledger=self.ledger,
            releases=releases,
        )
        keep_columns(self, reader)
        self.classes_, self.module_ = np.asarray(classes), trained
        self.noise_multiplier_, self.n_steps_ = plan.noise_multiplier, plan.n_steps
        self.sample_rate_ = plan.sample_rate
        # Whoever knows the seed can subtract the noise.
        self.guarantee_ = replace(plan.guarantee, kind="seeded") if source.seeded else plan.guarantee
        self.statement_ = statement
        return self

    def _pay(self, plan: Plan, data: Registration, *, seeded: bool) -> tuple[int, ...]:
        """Charge the run to the ledger, durably; return the release's number."""
        if self.ledger is None or plan.cost is None:
            return ()
        self.ledger.open_total(self.ledger.total or self.budget)
        facts = {
            "n_steps": plan.n_steps,
            "sample_rate": plan.sample_rate,
            "noise_multiplier": plan.noise_multiplier,
            "max_grad_norm": float(self.max_grad_norm),
            # Counted more tightly than the charge: what its statement says, for whoever compares the two.
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
        }
        mechanism = mechanism_of(plan, float(self.max_grad_norm))
        release = self.ledger.record(
            plan.cost, mechanism=mechanism, n_queries=0, facts=facts, seeded=seeded, registration=data, kind="DP-SGD"
        )
        return (release,)

    def _train(
        self,
        engine: Engine,
        features: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64],
        plan: Plan,
        source: NoiseSource,
        device: torch.device,
    ) -> nn.Module:
        problem = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the module's own code says may quote private values
            try:
                return train(
                    engine,
                    torch.from_numpy(features).to(device),
                    torch.from_numpy(labels).to(device),
                    sampler=PoissonSampler(len(features), plan.sample_rate, plan.n_steps, source),
                    optimizer=make_optimizer(
                        self.optimizer, engine.module, learning_rate=self.learning_rate, momentum=self.momentum
                    ),
                    noise_multiplier=plan.noise_multiplier,
                    max_grad_norm=self.max_grad_norm,
                    expected_batch_size=self.expected_batch_size,
                    max_physical_batch_size=self.max_physical_batch_size,
                    random_state=self.random_state,
                    shared_draws=self.adjacency == "add-or-remove",
                    show=self.verbose,
                )
            except PateError:
                raise
            except Exception as error:
                problem = type(error).__name__
        raise InvalidInputError(
            f"training failed: the module raised {problem} on the private rows, though not on made-up ones. What it "
            "said is not shown: it may quote private values. That it failed is for the curator alone."
        )

    def _nominal(self, n_records: int) -> int:
        """Return the number of records that rate, steps and warnings follow from: one that neighbours agree on."""
        remedy = (
            f"There are {n_records} private records, and a step cannot expect more than all of them."
            if self.nominal_n is None
            else "A step cannot expect more records than nominal_n."
        )
        n_nominal = n_records if self.nominal_n is None else int(self.nominal_n)
        check_int("expected_batch_size", self.expected_batch_size, low=1, high=n_nominal, remedy=remedy)
        if self.budget.delta >= 1 / n_nominal:
            warnings.warn(
                f"delta={self.budget.delta:g} is not below 1/n for {n_nominal} records: such a guarantee allows "
                "publishing a whole record now and then. Use a smaller delta.",
                PrivacyParameterWarning,
                stacklevel=3,
            )
        return n_nominal

    def _check_settings(self) -> None:
        if not isinstance(self.budget, Budget):
            raise InvalidInputError(
                f"budget must be a pate.Budget, got {type(self.budget).__name__}. Pass Budget(epsilon=1.0, delta=1e-5)."
            )
        check_real("max_grad_norm", self.max_grad_norm, low=0, low_open=True)
        check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)
        check_int("epochs", self.epochs, low=1)
        check_int("expected_batch_size", self.expected_batch_size, low=1)
        if self.max_physical_batch_size is not None:
            check_int("max_physical_batch_size", self.max_physical_batch_size, low=1)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        if self.n_threads is not None:
            check_int("n_threads", self.n_threads, low=1)
        if self.random_state is not None:
            check_int("random_state", self.random_state, low=0)
        if self.noise_multiplier is not None:
            check_real("noise_multiplier", self.noise_multiplier, low=0, low_open=True)
        if self.nominal_n is not None:
            check_int("nominal_n", self.nominal_n, low=1)
        if self.adjacency == "add-or-remove":
            if self.nominal_n is None:
                raise InvalidInputError(
                    "nominal_n must be given for adjacency='add-or-remove', got None: neighbours differ in the number "
                    "of records, so the sampling rate, the steps and what the statement says of them must follow from "
                    "a public number. Pass about how many records there are, known without counting these."
                )
            if self.ledger is not None:
                raise InvalidInputError(
                    "ledger must be None for adjacency='add-or-remove': a ledger adds up replace-one costs. Use "
                    "adjacency='replace-one'."
                )
        elif self.nominal_n is not None:
            raise InvalidInputError(
                "nominal_n is for adjacency='add-or-remove', got it with 'replace-one', under which the number of "
                "records is public itself. Leave it at None."
            )
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidInputError(f"ledger must be a pate.Ledger or None, got a {type(self.ledger).__name__}.")

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return class probabilities of shape (n, n_classes), in the order of ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=[0, 1], expected_batch_size=8)
        >>> clf.fit(np.eye(16), np.arange(16) % 2).predict_proba(np.eye(16)).shape
        (16, 2)
        """
        check_is_fitted(self)
        features = read_features(self, X, reset=False)
        blocks = []
        with torch.inference_mode(), held_threads(self.n_threads):
            for start in range(0, len(features), _PREDICTION_ROWS):
                logits = self.module_(torch.from_numpy(features[start : start + _PREDICTION_ROWS]))
                blocks.append(torch.softmax(logits.double(), dim=1).numpy())
        return np.concatenate(blocks)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the likeliest class of each row, shape (n,).

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=["a", "b"], expected_batch_size=8)
        >>> set(clf.fit(np.eye(16), ["a", "b"] * 8).predict(np.eye(16)).tolist()) <= {"a", "b"}
        True
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        bare = copy.copy(self)
        bare.random_state = bare.noise_seed = None  # whoever knows the noise can subtract it
        return BaseEstimator.__repr__(bare, N_CHAR_MAX)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        return tags
