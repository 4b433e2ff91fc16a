"""Shared by all packages: checks, random bits and secrets, files, progress, messages for the data curator."""
