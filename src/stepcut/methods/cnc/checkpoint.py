"""Checkpoints of training: weights, optimiser and random state in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepcut.errors import OptionError
from stepcut.files.atomic import whole_file

AnyFile = str | os.PathLike[str]


def write_checkpoint(
    path: AnyFile,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    values: list[list[float]],
    record: Mapping[str, Any],
) -> None:
    """Keep all that a run needs to go on as if it had never stopped.

    values  the loss and its parts after every iteration
    record  JSON beside it: `run`, which names settings and data, and `drawn`, the state of the generator of frames
    """
    from safetensors.torch import save_file

    moments = optimiser.state_dict()["state"].items()
    tensors = {f"weights/{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"optimiser/{number}/{name}": value for number, state in moments for name, value in state.items()}
    tensors["random/torch"] = torch.get_rng_state()
    if _on_cuda(network):
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    tensors["curve"] = torch.tensor(values, dtype=torch.float64)
    with whole_file(path) as temporary:
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, temporary, metadata={"stepcut": json.dumps(record)})


def resume(
    path: AnyFile, run: str, network: nn.Module, optimiser: torch.optim.Optimizer, random: np.random.Generator
) -> tuple[list[list[float]], dict[str, Any]] | None:
    """Put everything into the state of the checkpoint of `run`, and give its values and record.

    None when there is none yet; one of another run is an `OptionError`.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            record: dict[str, Any] = json.loads((file.metadata() or {})["stepcut"])
            names = file.keys()  # a file cannot be gone through itself
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, ValueError) as error:
        raise OptionError(f"checkpoint={str(path)!r} is not a checkpoint of stepcut ({error}). Delete it.") from error
    if record["run"] != run:
        raise OptionError(
            f"checkpoint={str(path)!r} belongs to a run with other settings or other features. "
            f"Choose another file, or delete this one to start afresh."
        )
    weights: dict[str, Tensor] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition("/")
        if kind == "weights":
            weights[rest] = value
        elif kind == "optimiser":
            number, _, quantity = rest.partition("/")
            moments.setdefault(int(number), {})[quantity] = value
    network.load_state_dict(weights)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    torch.set_rng_state(tensors["random/torch"])
    if "random/cuda" in tensors and _on_cuda(network):
        torch.cuda.set_rng_state(tensors["random/cuda"])
    random.bit_generator.state = record["drawn"]
    return tensors["curve"].tolist(), record


def _on_cuda(network: nn.Module) -> bool:
    return next(network.parameters()).device.type == "cuda"
