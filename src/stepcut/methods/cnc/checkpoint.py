"""Checkpoints of training: weights, optimiser and random state in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepcut.errors import OptionError
from stepcut.files.atomic import whole_file


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped."""

    run: str
    """Names the run: settings and data."""
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    """`parameter number/name of the quantity` -> tensor."""
    torch_state: Tensor
    cuda_state: Tensor | None
    numpy_state: dict[str, Any]
    names: tuple[str, ...]
    values: list[list[float]]
    finished: bool

    @staticmethod
    def take(
        run: str,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        drawn: Mapping[str, Any],
        names: tuple[str, ...],
        values: list[list[float]],
        finished: bool,
    ) -> Checkpoint:
        """The state of a run now; `drawn` is that of the generator of frames."""
        moments = {
            f"{number}/{name}": value
            for number, state in optimiser.state_dict()["state"].items()
            for name, value in state.items()
        }
        cuda = torch.cuda.get_rng_state() if _on_cuda(network) else None
        return Checkpoint(
            run, network.state_dict(), moments, torch.get_rng_state(), cuda, dict(drawn), names, values, finished
        )

    def restore(self, network: nn.Module, optimiser: torch.optim.Optimizer, random: np.random.Generator) -> None:
        """Put a network, an optimiser and the random generators into this state."""
        network.load_state_dict(dict(self.weights))
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.optimiser.items():
            number, name = key.split("/")
            state.setdefault(int(number), {})[name] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        torch.set_rng_state(self.torch_state)
        if self.cuda_state is not None and _on_cuda(network):
            torch.cuda.set_rng_state(self.cuda_state)
        random.bit_generator.state = self.numpy_state


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all."""
    from safetensors.torch import save_file

    tensors = {f"weights/{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"optimiser/{name}": value for name, value in checkpoint.optimiser.items()}
    tensors["random/torch"] = checkpoint.torch_state
    if checkpoint.cuda_state is not None:
        tensors["random/cuda"] = checkpoint.cuda_state
    tensors["curve"] = torch.tensor(checkpoint.values, dtype=torch.float64)
    record = {
        "run": checkpoint.run,
        "numpy": checkpoint.numpy_state,
        "names": checkpoint.names,
        "finished": checkpoint.finished,
    }
    with whole_file(path) as temporary:
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, temporary, metadata={"stepcut": json.dumps(record)})


def read_checkpoint(path: str | os.PathLike[str], run: str) -> Checkpoint | None:
    """Read the checkpoint of `run`; None when there is none yet; one of another run is an `OptionError`."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            record = json.loads((file.metadata() or {})["stepcut"])
            names = file.keys()  # a file cannot be gone through itself
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, ValueError) as error:
        raise OptionError(f"checkpoint={str(path)!r} is not a checkpoint of stepcut ({error}). Delete it.") from error
    if record["run"] != run:
        raise OptionError(
            f"checkpoint={str(path)!r} belongs to a run with other settings or other features. "
            f"Choose another file, or delete this one to start afresh."
        )
    return Checkpoint(
        run,
        _under("weights/", tensors),
        _under("optimiser/", tensors),
        tensors["random/torch"],
        tensors.get("random/cuda"),
        record["numpy"],
        tuple(record["names"]),
        tensors["curve"].tolist(),
        record["finished"],
    )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _on_cuda(network: nn.Module) -> bool:
    return next(network.parameters()).device.type == "cuda"
