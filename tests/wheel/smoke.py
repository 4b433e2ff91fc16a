"""What an installed pate has to do outside of its repository; prints one line of JSON. Run by ``prove.py``."""

import json
import sys
from importlib.resources import files


def main() -> None:
    """Fit, account, load the kernel; say what is missing of the packages that only some people need."""
    from sklearn.datasets import load_digits

    import pate
    from pate._core.curator import need
    from pate.exceptions import MissingExtraError
    from pate.privacy.exact import native

    X, y = load_digits(return_X_y=True)
    budget = pate.Budget(epsilon=1.0, delta=1e-5)
    clf = pate.PATEClassifier(budget=budget, classes=range(10), image_shape=(8, 8))
    clf.fit(X[:1200], y[:1200], X_public=X[1200:1500])
    report = pate.account([[60, 30, 10], [90, 5, 5], [34, 33, 33]] * 20, pate.GNMax(sigma=20.0), delta=1e-5)
    missing = []
    for module, extra in (
        ("matplotlib", "plots"),
        ("pyarrow", "parquet"),
        ("PIL", "images"),
        ("openpyxl", "excel"),
        ("duckdb", "duckdb"),
    ):
        try:
            need(module, extra=extra, why="This")
        except MissingExtraError:
            missing.append(extra)
    found = {
        "where": str(files("pate")),
        "version": pate.__version__,
        "kernel": native.available(),
        "accuracy": clf.score(X[1500:], y[1500:]),
        "epsilon": clf.statement_.guarantee.epsilon,
        "public": report.public.epsilon,
        "exact": report.data_dependent.reveal().epsilon,
        "missing": missing,
        "python": sys.version.split()[0],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
