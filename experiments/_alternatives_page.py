"""The page of ``alternatives.py``, from its JSON alone."""


def write_page(stored, path):
    pass
