import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from signals import heard_ctrl_c


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """For every test that sends SIGINT; see :func:`heard_ctrl_c`."""
    with heard_ctrl_c():
        yield


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    """Every test of comparisons begins with contestants that were asked nothing yet."""
    if (module := sys.modules.get("contestants_at_play")) is not None:
        module.CALLS.clear()


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder with real data, or a skip that says how to get one."""
    folder = os.environ.get("PATE_DATA_HOME")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PATE_DATA_HOME does not name a folder with the real data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def mnist2018_counts(data_home):
    """Vote counts of the 2018 paper's 250 MNIST teachers, shape (9000, 10)."""
    import numpy as np

    path = data_home / "pate2018_mnist_votes.npz"
    if not path.exists():
        pytest.skip("pate2018_mnist_votes.npz is not in PATE_DATA_HOME")
    with np.load(path) as file:
        return file["counts"].astype(np.int64)


@pytest.fixture(scope="session")
def golden(data_home):
    """Golden numbers of the accounting, from an independent computation, kept beside the data folder."""
    import json

    path = data_home.parent / "golden_dev.json"
    if not path.exists():
        pytest.skip("golden_dev.json is not beside PATE_DATA_HOME")
    return json.loads(path.read_text(encoding="utf-8"))
