"""A site, or a coordinator, as a process of its own that is killed at a step: FOLDER WHO STEP."""

import os
import signal
import sys
import time
from pathlib import Path

from sites_of import RECIPE, Local, blobs

from pate.federation import _ask, ask
from pate.federation._mpyc import MPyCAggregator


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def before(what, wanted, then=die):
    """Return what asks ``then`` first where its path (and round) are the wanted ones."""

    def instead(*args, **how):
        texts = [one for one in args if isinstance(one, str)]
        index = next((one["index"] for one in args if isinstance(one, dict) and "index" in one), None)
        if wanted in texts or f"{texts[0]} {index}" == wanted:
            then()
        return what(*args, **how)

    return instead


folder, who, step = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
local = Local(folder)
X, Y = blobs()


def killed_engine(self, *args, **how):
    self._child.kill()
    return SUM(self, *args, **how)


SUM = MPyCAggregator.sum
if step == "engine":
    MPyCAggregator.sum = killed_engine
elif step == "silent":
    MPyCAggregator.sum = lambda *args, **how: time.sleep(60)
elif step == "sum":  # when the others had time to pay
    MPyCAggregator.sum = lambda *args, **how: (time.sleep(1), die())

if who == "registry":
    if step.startswith("/"):
        _ask._Line.everywhere = before(_ask._Line.everywhere, step)
    ask(X[1200:], **local.terms(recipe=RECIPE))
else:
    number = int(who[-1])
    site = local.site(number, (X[number:1200:3], Y[number:1200:3]), classes=(0, 1))
    if step.startswith("/"):
        answer = site.answer
        site.answer = lambda caller, path, head, data: before(answer, step)(caller, path, head, data)
    elif step == "paid":
        paid = site._paid
        site._paid = lambda *args: (paid(*args), die())
    elif step == "slow":
        site._data.sums = lambda *args: time.sleep(60)
    site.serve()
