"""Use the user's own torch module, pre-trained elsewhere, as a representation."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.checks import check_int, shown
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.networks import RowByRow, check_copied, one_device, steady_kernels, why_rows_fail
from pate.representations._base import Representation
from pate.representations._own import Brought, as_vectors, check_provenance

_SEED = 0x9B0E
#: Made-up rows by whose vectors a file distinguishes an architecture from another with the same weights.
_PROBES = 4


@dataclass(repr=False, eq=False)
class FromModule(Brought):
    """Use your own torch module as a representation: in evaluation mode, without gradients, each row by itself.

    Parameters
    ----------
    module : nn.Module
        Takes a float32 tensor of shape (batch, n_features), or (batch, *input_shape), and returns one of shape (batch,
        ...), which is flattened. A copy is taken when fitted.
    provenance : str
        On what it was trained: it stands in the statement, marked as the person's own word.
    input_shape : tuple of int or None
        Shape of one row, such as (1, 28, 28).
    batch_size : int
        Rows that are mapped side by side, always this many.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"auto"``. Not saved in a file.
    one_by_one : bool
        Map one row at a time: slower, but every vector is then the same to the last bit at any place,
        which add-or-remove adjacency needs.

    Attributes
    ----------
    module_ : nn.Module

    Notes
    -----
    ``fit`` trains nothing: it tries the module on public rows and refuses one that mixes rows. Batch normalisation in
    evaluation mode mixes none. What such a trial cannot show (experts with a capacity) changes no vector either: layers
    that are known to act on rows alone run on all rows at once, any other module on single rows, as a copy that is
    thrown away. A row on which it raises is the zero vector. Whether it ever saw private rows cannot be tested. A file
    stores the weights; the architecture is code, and is given again to :func:`pate.representations.load`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> module = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
    >>> rep = FromModule(module, provenance="a public corpus").fit(X)
    >>> rep.transform(X).shape, rep.provenance_
    ((50, 8), 'FromModule: Sequential, pre-trained on: a public corpus (as stated by the person)')
    """

    _passing: ClassVar[tuple[str, ...]] = ("module", "device")

    module: Any
    _: KW_ONLY
    provenance: str = ""
    input_shape: Any = None
    batch_size: int = 256
    device: str = "cpu"
    one_by_one: bool = False

    def _check(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise InvalidInputError(
                f"module must be a torch.nn.Module, got {shown(self.module)}. Pass the module itself, with its weights."
            )
        check_provenance(self.provenance, needed=True)
        check_int("batch_size", self.batch_size, low=1)
        one_device(self.device)
        if self.input_shape is not None:
            if not isinstance(self.input_shape, list | tuple) or not self.input_shape:
                raise InvalidInputError(
                    f"input_shape must be a row's shape such as (1, 28, 28), got {shown(self.input_shape)}."
                )
            for i, side in enumerate(self.input_shape):
                check_int(f"input_shape[{i}]", side, low=1)

    def _learn(self, rows: Any) -> None:
        n = self.cells_.n_features
        if self.input_shape is not None and int(np.prod(self.input_shape)) != n:
            raise InvalidInputError(
                f"input_shape={tuple(self.input_shape)} has {int(np.prod(self.input_shape))} cells, and a row has {n}."
            )
        self._take(self.module)
        tried = copy.deepcopy(self.module_)
        try:
            self._try("module", rows, lambda block: self._as_vectors(tried, block))
        except (MemoryError, InvalidInputError):
            raise
        except Exception as error:  # the module's own code, of public rows alone
            shape = tuple(self.input_shape or (n,))
            raise InvalidInputError(
                f"module must take rows of shape {shape}, as the public ones are, and it fails on them: {error}."
                + (
                    why_rows_fail(self.module_, torch.float32)
                    or " Pass a module for such rows, or input_shape=, the shape in which it takes a row."
                )
            ) from error
        self._read_module()
        self.probe_ = self._probed()

    def _take(self, module: nn.Module) -> None:
        check_copied(module)
        self.module_ = copy.deepcopy(module).to(one_device(self.device)).eval().requires_grad_(False)

    def _read_module(self) -> None:
        self._apart = RowByRow.of(self.module_, self._tensor(np.zeros((1, self.cells_.n_features))))

    def _disposable(self) -> FromModule:
        return self  # what is run on rows are copies, or known layers

    @property
    def _dtype(self) -> Any:
        return self.probe_.dtype

    def _tensor(self, block: FloatArray) -> torch.Tensor:
        shape = (len(block), *(self.input_shape or block.shape[1:]))
        return torch.from_numpy(block.astype(np.float32).reshape(shape)).to(one_device(self.device))

    def _map(self, block: FloatArray) -> npt.NDArray[Any]:
        return self._as_vectors(self._apart, block)

    def _as_vectors(self, run: Callable[[torch.Tensor], Any], block: FloatArray) -> npt.NDArray[Any]:
        rows = self._tensor(block)
        try:
            with torch.no_grad(), steady_kernels(rows.device):
                made = run(rows)
        except torch.cuda.OutOfMemoryError as error:  # no row's doing
            raise MemoryError(str(error)) from error
        if not isinstance(made, torch.Tensor):
            raise InvalidInputError(
                f"module must return a tensor, it returned a {type(made).__name__}. Wrap it in a module that does."
            )
        values = (made.float() if made.dtype == torch.bfloat16 else made).cpu().numpy()
        return as_vectors("module", values, len(block), self.n_features_out_)

    def _probed(self) -> npt.NDArray[Any]:
        """Return the vectors of made-up rows within the public bounds."""
        share = np.random.default_rng(_SEED).random((self._block_rows, self.cells_.n_features))
        rows = self.cells_.low + share * (self.cells_.high - self.cells_.low)
        return self._map(rows)[:_PROBES]

    def _provenance(self) -> str:
        said = check_provenance(self.provenance, needed=True)
        return f"FromModule: {type(self.module).__name__}, pre-trained on: {said} (as stated by the person)"

    def _given(self) -> str:
        digest = hashlib.sha256(repr(self.module).encode())
        for name, array in _weights(self.module).items():
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
        return digest.hexdigest()

    def _modules(self) -> list[Any]:
        return [self.module]

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        arrays = {f"weights.{name}": array for name, array in _weights(self.module_).items()}
        return {**arrays, "probe": self.probe_}, {"module": type(self.module_).__name__}

    @classmethod
    def _empty(cls, settings: dict[str, Any], parts: tuple[Representation, ...], modules: list[Any]) -> Any:
        if parts or set(settings) != {"provenance", "input_shape", "batch_size", "one_by_one"}:
            raise ValueError("other settings")
        if not modules:
            raise InvalidInputError(
                "the file keeps a torch module's weights, and its architecture is code: pass load(path, module=...)."
            )
        rep = cls(modules.pop(0), **settings)
        rep._check()
        return rep

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self._take(self.module)
        weights = {k.removeprefix("weights."): torch.from_numpy(v.copy()) for k, v in arrays.items() if k != "probe"}
        try:
            self.module_.load_state_dict(weights, strict=True)
        except RuntimeError:
            raise InvalidInputError(
                f"module has other weights than the {str(words['module'])[:60]!r} in the file. Pass its architecture."
            ) from None
        self.module = copy.deepcopy(self.module_)
        self._read_module()
        self.probe_ = arrays["probe"]
        made = self._probed()
        scale = float(np.abs(self.probe_).max(initial=0.0))
        if made.shape != self.probe_.shape or not np.allclose(made, self.probe_, rtol=1e-3, atol=1e-3 * scale):
            raise InvalidInputError(
                "module gives other vectors than the one that was saved, with the same weights: another architecture. "
                "Pass the one it was saved with."
            )


def _weights(module: nn.Module) -> dict[str, npt.NDArray[Any]]:
    found = {}
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu()
        if value.dtype == torch.bfloat16:
            raise InvalidInputError(f"module has weights of type bfloat16 ({name}). Convert it: module.float().")
        found[name] = np.ascontiguousarray(value.numpy())
    return found
