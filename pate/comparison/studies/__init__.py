"""Runs of PATE on named data sets, beside DP-SGD and references without privacy."""
