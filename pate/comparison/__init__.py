"""PATE, DP-SGD and others side by side: who is ahead at which epsilon, and how sure that is."""
