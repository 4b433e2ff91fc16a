"""Every test begins with contestants that were asked nothing yet."""

import contestants_at_play
import pytest


@pytest.fixture(autouse=True)
def _no_calls():
    contestants_at_play.CALLS.clear()
