"""Compare PATE, DP-SGD and other classifiers: which is more accurate at which epsilon, and how sure that is."""
