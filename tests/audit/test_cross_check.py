"""Our bounds beside those of jax-privacy's auditing module, on the same scores and the same way of spending alpha.

``python tests/audit/test_cross_check.py`` writes the golden file again, where jax-privacy is installed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "jax_privacy_golden.json"
#: (seed, canaries, mu, delta, threshold)
CASES = [
    (0, 400, 1.0, 1e-5, 1.5),
    (1, 1000, 3.0, 1e-5, 2.0),
    (2, 2000, 2.0, 1e-3, 1.0),
    (3, 300, 0.2, 1e-2, 0.0),
    (4, 5000, 5.0, 1e-6, 3.5),
]


def scores_of(seed: int, m: int, mu: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=m // 2).round(3), rng.normal(mu, 1, m - m // 2).round(3)


def by_jax(seed: int, m: int, mu: float, delta: float, threshold: float) -> dict[str, float]:
    from jax_privacy import auditing

    out, in_ = scores_of(seed, m, mu)
    auditor = auditing.CanaryScoreAuditor(in_, out)
    how = {"threshold_strategy": auditing.Explicit(threshold)}
    return {
        "clopper_pearson": float(auditor.epsilon_clopper_pearson(0.05, delta, one_sided=False, **how)),
        "one_run": float(auditor.epsilon_one_run(0.05, delta, **how)),
        "one_run_fdp": float(auditor.epsilon_one_run_fdp(0.05, delta, **how)),
    }


def ours(seed: int, m: int, mu: float, delta: float, threshold: float) -> dict[str, float]:
    from scipy.optimize import brentq

    from pate.audit._bounds import rates_bound
    from pate.audit._claims import Claim
    from pate.audit._one_run import curve_p_value, pair_p_value
    from pate.privacy.convert import gdp_to_epsilon

    out, in_ = scores_of(seed, m, mu)
    fp, fn = int((out >= threshold).sum()), int((in_ < threshold).sum())
    guesses, right = fp + len(in_) - fn, len(in_) - fn

    def root(p_value):
        return brentq(lambda x: p_value(x) - 0.05, 0.0, 40.0, xtol=1e-6) if p_value(0.0) < 0.05 else 0.0

    mu_found = root(lambda x: curve_p_value(m, guesses, right, Claim.gaussian(max(x, 1e-9))))
    return {
        "clopper_pearson": rates_bound(fp, len(out), fn, len(in_), delta=delta, level=0.95),
        "one_run": root(lambda e: pair_p_value(m, guesses, right, epsilon=e, delta=delta)),
        "one_run_fdp": gdp_to_epsilon(mu_found, delta) if mu_found else 0.0,
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_our_bounds_are_those_of_jax_privacy(number):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert [tuple(case) for case in golden["cases"]] == CASES, "write the golden file again"
    # Theirs end at 1e-6 in epsilon; our p-value of a curve is found up to 1e-3.
    assert ours(*CASES[number]) == pytest.approx(golden["found"][number], rel=2e-3, abs=2e-3)


def test_the_golden_file_can_fail():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert any(found["one_run"] > 0.5 for found in golden["found"])
    assert golden["version"]
    assert ours(1, 1000, 3.0, 1e-5, 2.2) != pytest.approx(golden["found"][1], rel=2e-3, abs=2e-3)


def test_jax_privacy_still_says_so():
    pytest.importorskip("jax_privacy")
    for case in CASES:
        assert ours(*case) == pytest.approx(by_jax(*case), rel=2e-3, abs=2e-3)


if __name__ == "__main__":
    from importlib import metadata

    golden = {
        "from": "jax-privacy",
        "version": metadata.version("jax-privacy"),
        "cases": CASES,
        "found": [by_jax(*case) for case in CASES],
    }
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
