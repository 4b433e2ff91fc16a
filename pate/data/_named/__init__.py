"""Named data sets, fetched or read from a folder."""
