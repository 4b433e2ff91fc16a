"""The model file, ``*.pate``: what a release taught, with its statement, in one archive that holds no code.

Examples
--------
>>> from pate.model import Door
>>> print(Door(kind="table", n_features=2, columns=(("age", "numeric"), ("town", "text"))))
a table with the columns 'age' (number), 'town' (text)
"""

from pate.model._archive import ModelFile, check_model_path, read_model, write_model, write_page
from pate.model._manifest import Door, Manifest

__all__ = ["Door", "Manifest", "ModelFile", "check_model_path", "read_model", "write_model", "write_page"]
