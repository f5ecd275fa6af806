"""Training by several processes (torchrun, Ray Train) with torch's DistributedDataParallel: as if there were one.

Every process embeds its share of the videos of a batch. The embeddings are then gathered, with their gradients, and
every process takes the loss over all of them: the losses are means over pairs of videos, and most pairs have their two
videos in different processes, so a loss of one's own share only would be another loss. BatchNorm counts all rows.
In one process nothing of this happens.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from stepcut.paper.cnc.sampling import Batch
from stepcut.parallel.contract import processes

_PATIENCE = timedelta(days=7)
"""How long processes wait for the first one, which may be seeing hours of video."""


@contextmanager
def together() -> Iterator[None]:
    """Inside, the processes that `torchrun` has started train together; without torchrun nothing changes."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or processes() > 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE
    )
    try:
        yield
    finally:
        distributed.destroy_process_group()


def embed_together(embed: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """The embeddings of a batch, (B, T, d): every process embeds its share of the videos and gets those of all."""
    if processes() == 1:
        return embed(batch)
    mine = np.array_split(np.arange(len(batch.durations)), processes())[distributed.get_rank()]
    context, times, durations, mask = (part[mine] for part in batch.parts())
    u = embed(Batch(context, times, durations, mask, batch.padded))
    everyone = u.new_zeros(len(batch.durations), *u.shape[1:])
    everyone[mine] = u
    # Every process takes the same loss, so the sum of its gradients is one gradient times the number of processes, by
    # which DistributedDataParallel divides.
    return sum_over_processes(everyone)


def agree(values: Tensor) -> Tensor:
    """The first process's values, so that all stop training at the same iteration."""
    if processes() > 1:
        distributed.broadcast(values, 0)
    return values


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum over the processes; a gradient is summed likewise, since every process's loss depends on it."""
    function: type[torch.autograd.Function] = _Sum
    total: Tensor = function.apply(values)
    return total


def batch_norm(rows: Tensor, norm: nn.BatchNorm3d) -> Tensor:
    """`norm` on `rows (n, C)`, in training with mean and variance over the rows of all processes."""
    if norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    share = norm.momentum or 0.1
    if not norm.training or processes() == 1:
        running = (norm.running_mean, norm.running_var)
        return functional.batch_norm(
            rows, *running, norm.weight, norm.bias, norm.training, share, norm.eps
        )
    x = rows.float()
    count = sum_over_processes(torch.full((1,), float(len(x)), device=x.device))
    mean = sum_over_processes(x.sum(0)) / count
    centred = x - mean
    variance = sum_over_processes(centred.square().sum(0)) / count
    if norm.running_mean is not None and norm.running_var is not None:
        unbiased = variance.detach() * count / (count - 1).clamp_min(1)
        norm.running_mean.lerp_(mean.detach(), share)
        norm.running_var.lerp_(unbiased, share)
    y = centred / (variance + norm.eps).sqrt()
    return (y * norm.weight + norm.bias).to(rows.dtype)


class _Sum(torch.autograd.Function):
    """Sum over the processes, forwards and backwards."""

    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        total = values.detach().contiguous().clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        return _Sum.forward(_ctx, gradients[0])
