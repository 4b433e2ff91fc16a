"""The papers' own bounds, for comparison with the exact ones."""
