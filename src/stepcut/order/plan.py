"""Export a procedure for planners and robots, as JSON that follows plan.schema.json."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Orders, name_of


def make_plan(graph: ProcedureGraph, orders: Orders, steps: Sequence[str]) -> dict[str, Any]:
    """The steps with direct preconditions and durations, and the orders of the videos.

    An optional precondition applies only if it is done at all.
    """
    described = [
        {
            "id": identifier(step),
            "step": step,
            "name": name_of(step, steps),
            "preconditions": [
                {"id": identifier(before), **graph.support[before, step]._asdict()}
                for before, after in sorted(graph.edges)
                if after == step
            ],
            "optional": step in graph.optional,
            "done_in": graph.occurs[step],
            "times": {"usual": graph.usual_times(step), "most": graph.times[step][-1]},
            "duration": graph.duration_of(step),
        }
        for step in graph.steps
    ]

    def keeps(order: Sequence[int]) -> bool:
        place = {step: at for at, step in enumerate(order)}
        return all(place[a] < place[b] for a, b in graph.edges if a in place and b in place)

    return {
        "format": "stepcut-plan",
        "version": 1,
        "videos": graph.videos,
        "steps": described,
        "start": [identifier(step) for step in graph.sources],
        "end": [identifier(step) for step in graph.sinks],
        "alternatives": [
            {
                "order": [identifier(step) for step in order],
                "videos": len(videos),
                "keeps": keeps(order),
            }
            for order, videos in orders
        ],
    }


def read_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a plan."""
    text = files("stepcut.order").joinpath("plan.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def identifier(step: int) -> str:
    """Of a step; it does not change when the step is renamed."""
    return f"step_{step}"
