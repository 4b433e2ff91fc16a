"""DP-SGD on MNIST with the settings of two libraries' own examples: accuracy.

    PATE_DATA_HOME=... python experiments/reproduce/dpsgd_mnist.py

Both train the same small network; adjacency is add-or-remove, as theirs. Sampling is Poisson, and noise comes from the
operating system. TF Privacy takes shuffled batches of 256 and accounts them as Poisson samples; ours are that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from _table import Figure, main, or_why_not
from torch import nn

from pate import Budget, DPSGDClassifier, load_dataset
from pate.dpsgd import Optimizer, SampledGaussian

NAME = "dpsgd_mnist"
TITLE = "DP-SGD on MNIST: the examples of Opacus and TF Privacy"
_OPACUS = "Opacus, examples/mnist_README.md, last set of parameters (mean of 10 runs)"
_TFP = "TF Privacy, README, table of parameters of tutorials/mnist_dpsgd_tutorial.py, second line (mean of 10 runs)"


@dataclass(frozen=True)
class Run:
    """One example's settings.

    Attributes
    ----------
    n_steps : int
        Opacus: 15 epochs of 1 / 0.004 steps. TF Privacy: 15 epochs of 60,000 // 256.
    mean, sd : float
        What pixels in [0, 1] are shifted and divided by.
    """

    key: str
    batch: int
    n_steps: int
    mean: float
    sd: float
    learning_rate: float = 0.25
    noise_multiplier: float = 1.3
    max_grad_norm: float = 1.5
    n_train: int = 60_000


@dataclass(frozen=True)
class Config:
    """Both examples, delta, the seeds of the initial weights, and the figures."""

    runs: tuple[Run, ...] = (
        Run("opacus", batch=240, n_steps=3750, mean=0.1307, sd=0.3081),
        Run("tfp", batch=256, n_steps=15 * (60_000 // 256), mean=0.0, sd=1.0),
    )
    delta: float = 1e-5
    seeds: tuple[int, ...] = (0,)
    figures: tuple[Figure, ...] = (
        Figure("opacus", "accuracy, Opacus' example (%)", _OPACUS, 94.63, 1.0, "their own runs differ by 0.34 (sd)"),
        Figure(
            "tfp", "accuracy, TF Privacy's tutorial (%)", _TFP, 95.0, 1.0,
            "their own runs differ by less than 0.3 (sd); torch's initial weights in place of Keras'",
        ),
    )  # fmt: skip


SMOKE = replace(
    Config(),
    runs=tuple(replace(r, n_steps=2, batch=8, n_train=300) for r in Config().runs),
    seeds=(0,),
)


class SampleConvNet(nn.Module):
    """The network of both examples: 26,010 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            *(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)),
            *(nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)),
            *(nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)),
        )

    def forward(self, x):
        """Map flat images to logits."""
        return self.layers(x)


def train(run, config, seed, private, test):
    """Return accuracy in %; dpsgd_accounting.py has the epsilon."""
    clf = DPSGDClassifier(
        SampleConvNet,
        # Room for the noise that is given. So wide a budget makes the epsilon that is proved of the fit a coarse one.
        budget=Budget(50.0, config.delta),
        classes=range(10),
        max_grad_norm=run.max_grad_norm,
        expected_batch_size=run.batch,
        learning_rate=run.learning_rate,
        optimizer=Optimizer("sgd", momentum=0.0),
        mechanism=SampledGaussian(
            adjacency="add-or-remove",
            nominal_n=run.n_train,
            n_steps=run.n_steps,
            noise_multiplier=run.noise_multiplier,
        ),
        random_state=seed,
    )
    rows = slice(run.n_train)
    scale = np.float32(run.mean), np.float32(run.sd)
    clf.fit((private.X[rows] - scale[0]) / scale[1], private.y[rows])
    return 100 * float(clf.score((test.X - scale[0]) / scale[1], test.y))


def measure(config, seed):
    def runs():
        # The published training and test sets, whole.
        data = load_dataset("mnist", protocol="paper", random_state=seed)
        test = replace(
            data.test,
            X=np.concatenate([data.public.X, data.test.X]),
            y=np.concatenate([data.public.y_for_evaluation, data.test.y]),
        )
        return {run.key: train(run, config, seed, data.private, test) for run in config.runs}

    return or_why_not(runs, *(f.key for f in config.figures))


if __name__ == "__main__":
    main(NAME, TITLE, Config(), SMOKE, measure, __doc__)
