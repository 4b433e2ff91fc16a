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
    """
    n = len(one)
    views = F.normalize(torch.cat([one, two]).float(), dim=1)
    nearness = views @ views.T / temperature
    nearness = nearness.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=views.device), float("-inf"))
    twin = torch.arange(2 * n, device=views.device).roll(n)
    return F.cross_entropy(nearness, twin)


def vicreg(one: Tensor, two: Tensor) -> Tensor:
    """Twins are to be alike, each number to vary over the batch, and no two numbers to vary together.

    Parameters
    ----------
    one, two : tensors of shape (n, p)

    References
    ----------
    Bardes, Ponce and LeCun, *VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning*, ICLR
    2022, equation 6 with their weights 25, 25 and 1; as in their code, the first term is a mean over numbers too, and
    the second one is halved.
    """
    loss = 25 * F.mse_loss(one.float(), two.float())
    for views in (one.float(), two.float()):
        apart = views - views.mean(dim=0)
        loss = loss + 12.5 * F.relu(1 - (apart.var(dim=0) + 1e-4).sqrt()).mean()
        together = apart.T @ apart / (len(views) - 1)
        loss = loss + (together.square().sum() - together.diagonal().square().sum()) / views.shape[1]
    return loss
