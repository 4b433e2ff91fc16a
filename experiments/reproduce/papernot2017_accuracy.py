"""PATE 2017 on MNIST: accuracy of the labels against noise, and of students who learn from the published labels.

    PATE_DATA_HOME=... python experiments/reproduce/papernot2017_accuracy.py

The labels are the paper's own: 250 teachers' votes under Lap(20). The student is ours, where theirs is a GAN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from _table import WORK, Figure, main, or_why_not

from pate import LNMax, load_dataset
from pate.data import load_votes
from pate.models.students import ImageStudent
from pate.votes import ABSTAIN

NAME = "papernot2017_accuracy"
TITLE = "PATE 2017 on MNIST: accuracy against noise, and the students"
_TABLE = "Papernot et al. 2017, table of utility and privacy of the students"
_SECTION = "Papernot et al. 2017, section 4.1"
_OWN = "measured here, on the published votes"
_STUDENT = "another student: theirs is a GAN"


@dataclass(frozen=True)
class Config:
    """The noises, the numbers of queries, and the student's training.

    Attributes
    ----------
    scales : tuple of float
        1/gamma in votes; the paper's figure 2 goes over gamma.
    """

    scales: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 100.0)
    n_few: int = 100
    n_many: int = 1000
    few_epochs: int | str = "auto"
    many_epochs: int | str = 10
    n_public: int | None = None
    keep: bool = True  # a student in training, so that a stopped run goes on
    seeds: tuple[int, ...] = (0,)
    figures: tuple[Figure, ...] = (
        Figure("few", "student's accuracy, 100 labels (%)", _TABLE, 98.0, 1.0,
               _STUDENT + "; ours, which spreads the labels by a self-supervised network first, is more accurate"),
        Figure("spread", "images that have the right label when 100 were spread (%)", _OWN),
        Figure("many", "student's accuracy, 1,000 labels (%)", _TABLE, 98.1, 1.0,
               _STUDENT + "; which 1,000 theirs asked was not published, ours asks the first"),
        Figure("teacher", "accuracy of a teacher, mean (%)", _SECTION, 83.86, 1.0,
               "the published votes agree less with the truth than the text says of the teachers: why is not known"),
        Figure("5.0", "accuracy of labels with Lap(5) (%)", _OWN),
        Figure("10.0", "accuracy of labels with Lap(10) (%)", _OWN),
        Figure("20.0", "accuracy of labels with Lap(20), expected (%)", _SECTION, 93.18, 0.5,
               "on the 9,000 queries with published votes; theirs on the test set"),
        Figure("40.0", "accuracy of labels with Lap(40) (%)", _OWN),
        Figure("100.0", "accuracy of labels with Lap(100) (%)", _OWN),
    )  # fmt: skip


SMOKE = replace(Config(), few_epochs=1, many_epochs=1, n_public=200, keep=False)


def expected_accuracy(counts, truth, scale):
    """Return the mean probability of the true class, by the exact law of the noisy maximum, in %."""
    log_probs = np.asarray(LNMax(scale=scale).log_probs(counts))
    return 100 * float(np.exp(log_probs[np.arange(len(truth)), truth]).mean())


def measure(config, seed):
    return or_why_not(lambda: _measure(config, seed), *(f.key for f in config.figures))


def _measure(config, seed):
    votes = load_votes("papernot_mnist")
    data = load_dataset("mnist", protocol="paper", n_public=config.n_public)
    n_public = len(data.public.X)
    truth, counts = data.public.y_for_evaluation, votes.counts[:n_public]
    found = {str(scale): expected_accuracy(counts, truth, scale) for scale in config.scales}
    found["teacher"] = 100 * float((counts[np.arange(n_public), truth] / counts.sum(axis=1)).mean())
    few = votes.student_indices[: config.n_few]
    for name, queries, epochs in (
        ("few", few[few < n_public], config.few_epochs),
        ("many", np.arange(min(config.n_many, n_public)), config.many_epochs),
    ):
        labels = np.full(n_public, ABSTAIN)
        labels[queries] = votes.student_labels[queries]
        kept = WORK / f"{NAME}-{name}-{seed}" if config.keep else None
        student = ImageStudent(epochs=epochs, random_state=seed, device="cpu", checkpoint_dir=kept)
        student.fit(data.public.X, labels)
        if student.spread_labels_ is not None:
            found["spread"] = 100 * float((student.spread_labels_ == truth).mean())
        found[name] = 100 * float((student.predict(data.test.X) == data.test.y).mean())
    return found


if __name__ == "__main__":
    main(NAME, TITLE, Config(), SMOKE, measure, __doc__)
