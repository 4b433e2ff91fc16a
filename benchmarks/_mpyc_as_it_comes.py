"""The same sums and labels in MPyC's own way, for federation.py: one plain script, arrays as pickles, no TLS.

    python benchmarks/_mpyc_as_it_comes.py -M 5 [-K 60] [--no-prss] --no-log QUERIES CLASSES BOUND sum:1024 labels:32

Each word at the end is what is opened, and of how many steps a vote. Starts the other parties itself, as MPyC does.
Party 0 prints seconds and bytes as JSON.
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
    n_queries, n_classes, bound = map(int, sys.argv[1:4])
    own = np.random.default_rng(mpc.pid).multinomial(40, [1 / n_classes] * n_classes, n_queries).astype(object)
    found = {}
    started = time.perf_counter()
    async with mpc:
        found["start_s"] = time.perf_counter() - started
        for task in sys.argv[4:]:
            what, lattice = task.split(":")[0], int(task.split(":")[1])
            number = mpc.SecInt((2 * bound * lattice).bit_length() + 1)
            started, before = time.perf_counter(), sent()
            total = sum(mpc.input(number.array(own * lattice)))
            result = total if what == "sum" else mpc.np_argmax(total, axis=1)
            opened = await mpc.output(result, receivers=[0])
            found[task] = {"s": time.perf_counter() - started, "bytes": sent() - before}
            found[task]["checksum"] = None if opened is None else int(sum(np.ravel(opened)))
    if mpc.pid == 0:
        print(json.dumps(found), flush=True)


mpc.run(main())
