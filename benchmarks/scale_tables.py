"""The tables of reports/scale.md from the measurements of benchmarks/scale.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shared
from stepcut.progress import duration

FPS = 2
HOURS = {"EgoProceL": 62, "Ego4D": 3670}
TASKS = {"EgoProceL": 16, "Ego4D": 947}
"""Ego4D has no tasks; as many as at EgoProceL's 3.9 hours each."""
SIZES = (("1 GPU, 16 cores", 1, 16), ("8 GPUs, 128 cores", 8, 128), ("100 CPU workers", 0, 100))

Costs = dict[str, Any]


def figures(costs: Costs) -> str:
    """The measurements and their targets."""
    m = costs["measured"]
    minutes, megabytes = list(m["memory"]), list(m["memory"].values())
    lengths = f"{', '.join(minutes[:-1])} and {minutes[-1]} minutes"
    peaks = f"{', '.join(f'{value:.0f}' for value in megabytes)} MB"
    lines = [
        f"Measured with stepcut {costs['version']} on {m['cores']} cores ({costs['machine']}): {m['frames']} frames of "
        "640x480 videos,",
        f"{m['rounds']} interleaved runs, medians; other programs used {m['others']:.0%} of the cores.",
        *([m["note"]] if "note" in m else []),
        "",
        "| | wall time | CPU time | goal |",
        "|---|---|---|---|",
        f"| frames per second, one worker on a separate core | {m['rate_1']:.1f} | | |",
        f"| frames per second, two workers, each on a separate core | {m['rate_2']:.1f} | | |",
        f"| efficiency of the two | {m['efficiency']:.2f} | {m['efficiency_cpu']:.2f} | 0.90 |",
        f"| Ray over local, two workers, all started and warm | {m['ray']:+.1%} | {m['ray_cpu']:+.1%} | under +10 % |",
        f"| starting Ray | {m['ray_start']:.0f} s | | |",
        f"| peak memory of a worker, videos of {lengths} | {peaks} | | flat |",
    ]
    return "\n".join(lines)


def unit_costs(costs: Costs) -> str:
    """Cost of one frame and one training iteration."""
    rows = {
        "a frame, decoded and seen, on one core": f"{1000 * costs['cpu_frame']:.1f} ms, "
        f"of which {1000 * costs['cpu_decode']:.1f} ms decoding",
        "an iteration on vectors, on one core": f"{1000 * costs['cpu_step']:.1f} ms",
        "an iteration of the paper's embedder on maps, on an H200 (`benchmarks/training.py`)": (
            f"{1000 * costs['gpu_step']:.1f} ms"
        ),
        "a frame seen by an H200 (`benchmarks/extract.py --device cuda`)": (
            f"{1000 * costs['gpu_frame']:.2f} ms; decoding sets the pace"
        ),
    }
    return "\n".join(
        ["| | |", "|---|---|", *(f"| {what} | {cost} |" for what, cost in rows.items())]
    )


def plan(costs: Costs) -> str:
    """Time and cost of every size for every collection, and its bottleneck.

    Extraction on GPUs takes as long as the slower of decoding (on all cores) and the backbone (on
    all GPUs). Tasks are learned in parallel.
    """
    lines = [
        "| data | hardware | seeing | learning | cost | the next bottleneck |",
        "|---|---|---|---|---|---|",
    ]
    for data, hours in HOURS.items():
        frames, tasks = hours * 3600 * FPS, TASKS[data]
        for name, gpus, cores in SIZES:
            network = costs["gpu_frame"] / gpus if gpus else 0.0
            decode = costs["cpu_decode" if gpus else "cpu_frame"] / (cores * costs["efficiency"])
            see = frames * max(decode, network)
            step, steps = (costs["gpu_step"], 10_000) if gpus else (costs["cpu_step"], 1_000)
            learn = -(-tasks // (gpus or cores)) * steps * step
            limit = (
                "the backbone on the CPUs"
                if not gpus
                else "decoding"
                if decode > network
                else "the backbone"
            )
            if learn > see:
                limit = "training: one GPU for each task"
            price = (see + learn) / 3600 * (gpus * costs["gpu_price"] + cores * costs["cpu_price"])
            cells = (
                f"{data}, {hours:,} h",
                name,
                duration(see),
                duration(learn),
                f"${price:,.2f}",
                limit,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[Costs], str]] = {"figures": figures, "costs": unit_costs, "plan": plan}


def fill(text: str, costs: Costs) -> str:
    """Replace the tables of a page between `<!-- NAME ... -->` and `<!-- end -->`."""
    return shared.fill(text, {name: table(costs) for name, table in TABLES.items()})
