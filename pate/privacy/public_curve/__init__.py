"""The certified public cost of one noisy argmax and of one threshold test; proofs in docs/public-curve.md."""

from pate.privacy.public_curve.rho_star import rho_star, threshold_rho_star, vote_cap_rho_star

__all__ = ["rho_star", "threshold_rho_star", "vote_cap_rho_star"]
