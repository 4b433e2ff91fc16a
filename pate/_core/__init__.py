"""What every room stands on: checks, seeds, secrets, files, progress, provenance, names of arrays."""
