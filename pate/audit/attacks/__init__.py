"""Membership inference against whatever is fitted: shadow models, LiRA, RMIA, loss and labels alone."""

from pate.audit.attacks._attack import attack

__all__ = ["attack"]
