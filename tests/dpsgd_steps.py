"""A few steps of private training, for tests of what one step releases."""

from dataclasses import fields
from functools import partial

import numpy as np
import torch

from pate import Budget
from pate.dpsgd._run import Training, training_steps
from pate.dpsgd._statement import Plan, make_plan
from pate.dpsgd._units import Units
from pate.dpsgd._values import KINDS, valued
from pate.dpsgd.clipping import FlatClipping
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.networks import make_module
from pate.privacy.noise.source import NoiseSource


def train(engine, X, y, *, q=1.0, n_steps=1, seed=0, sigma=1e-9, clip=1.0, batch=1, lr=1.0, mechanism=None, **more):
    """Run steps of SGD on the engine's module and return the module."""
    X = np.asarray(X)
    X, y = X if X.dtype.kind in "iu" else X.astype(np.float32), np.asarray(y, dtype=np.int64)
    units = Units(X, y, more.pop("owners", None), more.pop("rows_per_unit", 1))
    parameters = [p for p in engine.module.parameters() if p.requires_grad]
    plan = Plan(mechanism or PoissonSGD(), Shape(units.n_units, q, n_steps, batch), sigma, None, 1e-4)
    optimizer = more.pop("optimizer", None) or torch.optim.SGD(parameters, lr=lr)
    start = more.pop("start", 0)
    settings = {"random_state": 0, **more}
    run = Training(engine, units, plan, FlatClipping(clip), optimizer, NoiseSource(seed), **settings)
    for _ in training_steps(run, FlatClipping(clip), start):
        pass
    return engine.module.eval()


def least_noise_for(epsilon, delta, *, sample_rate, n_steps, adjacency="replace-one"):
    """Return the noise multiplier that a fit would take: its plan's."""
    shape = Shape(1000, sample_rate, n_steps, 100)
    return make_plan(Budget(epsilon, delta), shape, adjacency=adjacency).noise_multiplier


def by_value(**options):
    """Return keyword arguments of DPSGDClassifier of options in which fields of its values go by their own names."""
    for parameter, kind in KINDS.items():
        said = {f.name: options.pop(f.name) for f in fields(kind)[1:] if f.name in options}
        if said:
            options[parameter] = valued(kind, options[parameter], **said) if parameter in options else kind(**said)
    if more := options.pop("module_kwargs", None):
        options["module"] = partial(make_module(options["module"]), **more)
    return options
