"""What two changed views of the same images are to agree on."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def simclr(one: Tensor, two: Tensor, temperature: float) -> Tensor:
    """Each view is to be nearer to its twin than to any other view in the batch.

    Parameters
    ----------
    one, two : tensors of shape (n, p)
    temperature : float

    References
    ----------
    Chen, Kornblith, Norouzi and Hinton, *A Simple Framework for Contrastive Learning of Visual Representations*, ICML
    2020, equation 1.

    Examples
    --------
    >>> twins = torch.eye(4)
    >>> bool(simclr(twins, twins, 0.2) < simclr(twins, twins.flip(0), 0.2))
    True
    """
    n = len(one)
    views = F.normalize(torch.cat([one, two]).float(), dim=1)
    nearness = views @ views.T / temperature
    nearness = nearness.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=views.device), float("-inf"))
    twin = torch.arange(2 * n, device=views.device).roll(n)
    return F.cross_entropy(nearness, twin)
