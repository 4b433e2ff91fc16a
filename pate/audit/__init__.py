"""Audits of privacy claims: tests that try to refute what is claimed of a release.

Public names are loaded when first used.

Examples
--------
>>> from pate import GNMax, audit
>>> audit.law(GNMax(40.0), sampler=GNMax(30.0), n_classes=10, noise_seed=0)
AuditResult(law: REFUTED; 7 figures)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
