"""Look for private cells in whatever might hold them: all that an object reaches, its pickle, files."""

import gc
import pickle
import re
import weakref
import zipfile
from pathlib import Path
from types import FrameType, FunctionType, ModuleType

import numpy as np
import torch

_NUMBER = re.compile(rb"\d+\.\d{6,17}(?:e-?\d+)?")


class PrivateCells:
    """Numbers (n, d), each of them met nowhere else, and texts, met nowhere else either."""

    def __init__(self, numbers, texts=()):
        self.numbers = np.ascontiguousarray(numbers, dtype="<f8")
        short = self.numbers.astype("<f4")
        # Four bytes may be met by chance: numbers of 32 bits are looked for beside the next one, of the row or column.
        pairs = [
            np.stack([a.ravel(), b.ravel()], 1) for a, b in ((short[:, :-1], short[:, 1:]), (short[:-1], short[1:]))
        ]
        self.words = np.unique([np.r_[self.numbers.ravel().view("<i8"), *(p.view("<i8").ravel() for p in pairs)]])
        self.texts = [text.encode(code) for text in texts for code in ("utf-8", "utf-16-le", "utf-32-le")]

    def within(self, data):
        """How many cells stand in bytes: as numbers of 64 or 32 bits, written out, or as texts."""
        places = (np.frombuffer(data[i : i + (len(data) - i) // 8 * 8], "<i8") for i in range(min(8, len(data))))
        found = sum(int(np.isin(words, self.words).sum()) for words in places)
        found += int(np.isin([float(number) for number in _NUMBER.findall(data)], np.abs(self.numbers)).sum())
        return found + sum(text in data for text in self.texts)

    def held_by(self, thing):
        """How many of them something holds, in its pickle or anywhere that it reaches."""
        try:
            found = self.within(pickle.dumps(thing))
        except (TypeError, AttributeError, pickle.PicklingError):
            found = 0
        return found + self.within(b"\0".join(reached(thing)))

    def in_files(self, folder):
        """Return the names of files that hold some."""
        return [str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file() and self._in(path)]

    def _in(self, path):
        if not zipfile.is_zipfile(path):
            return self.within(path.read_bytes())
        with zipfile.ZipFile(path) as packed:
            return sum(self.within(packed.read(name)) for name in packed.namelist())


def reached(thing):
    """Yield the bytes of all arrays, tensors and texts that can be reached: attributes, closures, views' bases."""
    todo, seen = [thing], {}
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FrameType | weakref.ref | int):
            continue
        seen[id(one)] = one
        if isinstance(one, float):
            yield np.float64(one).tobytes()
        elif isinstance(one, str | bytes):
            yield one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass")
        elif isinstance(one, torch.Tensor):
            yield one.detach().cpu().contiguous().view(-1).numpy().tobytes()
            todo.append(vars(one))
        elif isinstance(one, np.ndarray):
            todo.append(one.base)
            todo += one.ravel().tolist() if one.dtype.hasobject else []
            yield b"" if one.dtype.hasobject else one.tobytes("A")
        elif hasattr(one, "iloc"):
            todo += [one[name].to_numpy() for name in one.columns] if hasattr(one, "columns") else [one.to_numpy()]
        elif isinstance(one, FunctionType):  # what its module holds is not its own
            todo += [one.__closure__, one.__defaults__, one.__kwdefaults__, one.__dict__]
        elif not (isinstance(one, dict) and "__builtins__" in one):
            todo += gc.get_referents(one)
