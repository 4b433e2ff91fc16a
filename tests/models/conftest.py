"""One made-up world for all tests of heads."""

import pytest
from ballot_worlds import make_world


@pytest.fixture(scope="session")
def world():
    return make_world()
