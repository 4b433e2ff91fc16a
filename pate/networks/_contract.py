"""What is required of a torch module: built from public arguments, rows in, one row of logits each out.

Teachers and DP-SGD take the same modules; further requirements are documented with each of them.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pate._core.files import write_bytes
from pate._core.secret import global_generators
from pate._core.tensors import opened
from pate.exceptions import InvalidInputError

# The global generators, held for one piece of training and given back.

#: torch's global generators belong to one training at a time, also where several run in threads of one process.
_GENERATORS = threading.RLock()


@contextmanager
def own_generator(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed the global generators of torch, NumPy and Python, and give them back as they were.

    What is trained shares no state: otherwise later draws would depend on how much was drawn before.
    """
    devices = [device] if device is not None and device.type == "cuda" else []
    with _GENERATORS, torch.random.fork_rng(devices=devices), global_generators(seed):
        # Not torch.manual_seed: it reseeds all devices, also those that are not given back.
        torch.default_generator.manual_seed(seed)
        for place in devices:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        if device is not None and device.type == "mps":
            torch.mps.manual_seed(seed)
        yield


# Which devices there are, and how many threads torch takes on the CPU.


def visible_devices(device: Any) -> list[torch.device]:
    """Return the devices that ``device`` stands for, in this process; refuse one that is not here.

    ``"auto"`` is every CUDA device, else MPS, else the CPU; ``"cuda"`` is every CUDA device.
    """
    cuda = [torch.device("cuda", i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    mps = [torch.device("mps")] if torch.backends.mps.is_available() else []
    if device == "auto":
        return cuda or mps or [torch.device("cpu")]
    wanted = named_device(device)
    if wanted.type == "cpu":
        return [torch.device("cpu")]
    found = cuda if wanted.type == "cuda" else mps
    if wanted.index is not None:
        found = [d for d in found if (d.index or 0) == wanted.index]
    if not found:
        raise InvalidInputError(
            f"device={device!r} is not there: torch sees {len(cuda)} CUDA and {len(mps)} MPS devices. Use 'auto'."
        )
    return found


def named_device(device: Any) -> torch.device:
    """Return a device by its name, whether or not this process has it."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        wanted = None
    if wanted is None or wanted.type not in ("cpu", "cuda", "mps"):
        raise InvalidInputError(
            f"device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps', got {device!r}. 'auto' takes what there is."
        )
    return wanted


def one_device(device: Any) -> torch.device:
    """Return the one device of a training that sums in float64: torch's current CUDA device where there is a choice."""
    found = visible_devices(device)
    if found[0].type == "mps":
        if device == "auto":
            return torch.device("cpu")
        raise InvalidInputError(f"device={device!r} has no float64, which is needed here. Use device='cpu' or 'auto'.")
    return found[torch.cuda.current_device()] if len(found) > 1 else found[0]


@contextmanager
def held_threads(number: int | None) -> Iterator[None]:
    """Hold torch to this many CPU threads, and give it back as it was; None leaves it."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def steady_kernels(device: torch.device, *, enabled: bool | None = None) -> Iterator[None]:
    """Hold cuDNN to whole float32, and to kernels that add up in one order; all is as before afterwards.

    Left alone it convolves in TF32, whose numbers keep 10 bits of 23, with kernels that depend on the batch and may add
    up in any order: the same seed would give other weights each time. Nothing changes on other devices than CUDA's.
    """
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    held = [(cudnn, "enabled", cudnn.enabled if enabled is None else enabled)]
    held += [(cudnn, "deterministic", True), (cudnn, "benchmark", False)]
    if hasattr(cudnn, "conv"):  # from torch 2.9 on, each kind of layer has a setting of its own
        held += [(kind, "fp32_precision", "ieee") for kind in (cudnn.conv, cudnn.rnn)]
    else:
        held += [(cudnn, "allow_tf32", False)]
    before = [getattr(part, name) for part, name, _ in held]
    try:
        for part, name, value in held:
            setattr(part, name, value)
        yield
    finally:
        for (part, name, _), value in zip(held, before, strict=True):
            setattr(part, name, value)


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 is faster here: a fact of the machine."""
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported() and torch.cpu.get_capabilities().get("avx512_bf16"))
    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported())


def logits_of(output: Any) -> torch.Tensor:
    """Return the logits in what a module returned: a tensor, an entry "logits" or an attribute ``logits``."""
    found = output
    if not isinstance(found, torch.Tensor):
        found = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if isinstance(found, torch.Tensor):
        return found
    keys = f" with the entries {', '.join(map(repr, output))}" if isinstance(output, Mapping) else ""
    raise InvalidInputError(
        "module must return logits: a tensor, a mapping with an entry 'logits' or an object with an attribute "
        f"logits. It returned a {type(output).__name__}{keys}. Wrap it in a module that returns its logits."
    )


def give_logits(module: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
    """Return a module's logits; a forward hook, so that every caller gets them."""
    return logits_of(output)


def hooked(module: nn.Module) -> bool:
    """Whether a module has hooks of the user's; the one that picks the logits is the package's."""
    return bool(
        any(hook is not give_logits for hook in module._forward_hooks.values())
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def module_arguments(
    module: Callable[..., nn.Module], kwargs: Mapping[str, Any] | None, *, n_features: int, n_classes: int
) -> dict[str, Any]:
    """Return the arguments to make a module with: the user's, ``n_features`` and ``n_classes`` where it takes them."""
    found = dict(kwargs or {})
    try:
        names = inspect.signature(module).parameters
    except (TypeError, ValueError):
        return found
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values())
    for name, value in (("n_features", n_features), ("n_classes", n_classes)):
        named = name in names and names[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if named or (takes_any and _passes_on(module, name)):
            found.setdefault(name, value)
    return found


def _passes_on(module: Any, name: str) -> bool:
    """Whether a class hands ``**kwargs`` on to a base that takes ``name``."""
    for base in inspect.getmro(module)[1:] if inspect.isclass(module) else ():
        names = inspect.signature(base).parameters
        if name in names:
            return names[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values()):
            return False
    return False


def why_rows_fail(module: nn.Module, dtype: torch.dtype) -> str:
    """Return what to do where ``forward`` takes several inputs, or numbers of another type than ``dtype``.

    With a space before it; empty where it is neither.
    """
    others = {p.dtype for p in module.parameters()} - {dtype}
    if others and dtype.is_floating_point:
        return (
            f" It has weights of {', '.join(sorted(map(str, others)))}, and rows come as {dtype}: convert it, "
            "module.float(), or the rows in its forward."
        )
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
    if len(names) < 2:
        return ""
    return (
        f" forward takes {len(names)} inputs ({', '.join(names)}), and a row comes as one: put them side by side in X "
        "(np.hstack), and take them apart in a module around this one: self.inner(x[:, :k], x[:, k:])."
    )


def check_copied(module: nn.Module) -> None:
    """Refuse lazy layers, and modules of which a copy is not a module as good: compiled code, and DataParallel."""
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        raise InvalidInputError(
            "module has lazy layers, whose sizes the first rows would decide. Give them sizes: n_features is passed to "
            "whatever takes it."
        )
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise InvalidInputError(
                "module must hold no torch.jit.ScriptModule: a copy of such compiled code is cut off from its "
                "gradients, takes no hooks and cannot be pickled. Pass the nn.Module that was compiled, with its "
                "weights: load_state_dict(scripted.state_dict())."
            )
        if isinstance(part, nn.DataParallel | nn.parallel.DistributedDataParallel):
            raise InvalidInputError(
                f"module must hold no torch.nn.{type(part).__name__}, which cuts batches up itself, by what devices "
                "there are. Pass the module inside it, .module; device= says where it runs."
            )


def make(module: Callable[..., nn.Module], kwargs: Mapping[str, Any]) -> nn.Module:
    """Make a module that returns logits; refuse what is none, or cannot be copied (:func:`check_copied`).

    Arguments are copied: a tensor or module among them is every module's start, not one thing that they all train.
    """
    made = module(**copy.deepcopy(dict(kwargs)))
    if not isinstance(made, nn.Module):
        raise InvalidInputError(f"module must make a torch.nn.Module, it made a {type(made).__name__}.")
    check_copied(made)
    if give_logits not in made._forward_hooks.values():
        made.register_forward_hook(give_logits)
    return made


def check_apart(one: nn.Module, other: nn.Module) -> None:
    """Refuse a factory whose modules share memory: training one would change the other."""
    places = [
        {t.untyped_storage().data_ptr() for t in (*m.parameters(), *m.buffers()) if t.numel()} for m in (one, other)
    ]
    if one is other or places[0] & places[1]:
        raise InvalidInputError(
            "module must make a new module with parameters of its own at every call; two calls shared some. "
            "Make the layers inside the class or function."
        )


# What training has come to, as safetensors: names, tensors and some JSON, of which nothing is run.


def state_of(parts: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, by: str) -> dict[str, torch.Tensor]:
    """Return the state of modules and their optimiser by name, ``by`` standing between a name's parts."""
    found = {f"{name}{by}{k}": v for name, part in parts.items() for k, v in part.state_dict().items()}
    for i, moments in optimizer.state_dict()["state"].items():
        found |= {f"optimizer{by}{i}{by}{k}": v for k, v in moments.items()}
    return found


def take_state(
    tensors: Mapping[str, torch.Tensor], parts: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, by: str
) -> None:
    """Give modules and their optimiser the state that :func:`state_of` returned."""
    state = optimizer.state_dict()
    learnt = [p for group in optimizer.param_groups for p in group["params"]]
    for name, value in tensors.items():
        owner, _, place = name.partition(by)
        if owner == "optimizer":
            number, _, moment = place.partition(by)
            # A fused optimiser goes through memory: its moments lie as their parameters do, channels last.
            laid = torch.empty_like(learnt[int(number)]).copy_(value) if value.ndim else value
            state["state"].setdefault(int(number), {})[moment] = laid
    for name, part in parts.items():
        start = f"{name}{by}"
        part.load_state_dict({k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)})
    optimizer.load_state_dict(state)


def save_state(path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], key: str, facts: Any) -> None:
    """Write tensors, and JSON (and NumPy's numbers) under a key, as one safetensors file: whole or not at all."""
    from safetensors.torch import save

    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    write_bytes(path, save(plain, metadata={key: json.dumps(facts, default=lambda number: number.item())}))


def read_state(path: str | os.PathLike[str], key: str, what: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return what :func:`save_state` wrote; refuse a file that is not there, damaged, or not of ``what``."""
    if not Path(path).is_file():
        raise InvalidInputError(f"path={os.fspath(path)!r} is no file. Name one that {what} was saved to.")
    try:
        return opened(path, key, framework="pt")
    except Exception as error:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is no intact file of {what} ({type(error).__name__}). Fit or fetch it again."
        ) from None
