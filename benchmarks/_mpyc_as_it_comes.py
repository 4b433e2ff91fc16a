"""The same sums and labels in MPyC's own way, for federation.py: one plain script, arrays as pickles, no TLS.

    python benchmarks/_mpyc_as_it_comes.py -M 5 [-K 60] [--no-prss] --no-log QUERIES CLASSES BOUND LABELS

Starts the other parties itself, as MPyC does. Party 0 prints seconds and bytes as JSON.
"""

import json
import sys
import time

import numpy as np
from mpyc.runtime import mpc


def sent() -> int:
    """Return how many bytes this party has sent."""
    return sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)


async def main() -> None:
    n_queries, n_classes, bound, labels = map(int, sys.argv[1:])
    own = np.random.default_rng(mpc.pid).multinomial(40, [1 / n_classes] * n_classes, n_queries).astype(object)
    number = mpc.SecInt((2 * bound).bit_length() + 1)
    found = {}
    started = time.perf_counter()
    async with mpc:
        found["start_s"] = time.perf_counter() - started
        for what in ("sum", "labels") if labels else ("sum",):
            started, before = time.perf_counter(), sent()
            total = sum(mpc.input(number.array(own)))
            result = total if what == "sum" else mpc.np_argmax(total, axis=1)
            opened = await mpc.output(result, receivers=[0])
            found[what] = {"s": time.perf_counter() - started, "bytes": sent() - before}
            found[what]["checksum"] = None if opened is None else int(sum(np.ravel(opened)))
    if mpc.pid == 0:
        print(json.dumps(found), flush=True)


mpc.run(main())
