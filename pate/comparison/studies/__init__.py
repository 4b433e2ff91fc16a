"""Studies: runs, comparisons, plans, and accounts of given votes."""
