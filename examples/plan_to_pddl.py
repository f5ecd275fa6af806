"""Convert a procedure to PDDL: `python plan_to_pddl.py sandwich.proc`, then run any planner.

Writes sandwich-domain.pddl (one durative action per step, PDDL 2.1) and sandwich-problem.pddl (the
goal is every step that is not optional).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import stepcut


def domain(plan: dict[str, Any]) -> str:
    """Return one durative action per step, with its preconditions."""
    optional = {step["id"] for step in plan["steps"] if step["optional"]}
    lines = ["(define (domain procedure)", "  (:requirements :durative-actions)", "  (:predicates"]
    lines += [f"    (done-{step['id']})  ; {step['name']}" for step in plan["steps"]]
    lines.append("  )")
    for step in plan["steps"]:
        seconds = 1.0 if step["duration"] is None else step["duration"]["median"]
        # A plan may omit optional preconditions, so they are not required.
        needs = [need["id"] for need in step["preconditions"] if need["id"] not in optional]
        condition = " ".join(f"(at start (done-{need}))" for need in needs)
        lines += [
            f"  (:durative-action {step['id']}",
            "    :parameters ()",
            f"    :duration (= ?duration {seconds:.1f})",
            f"    :condition (and {condition})" if needs else "    :condition ()",
            f"    :effect (at end (done-{step['id']})))",
        ]
    return "\n".join([*lines, ")"]) + "\n"


def problem(plan: dict[str, Any]) -> str:
    """Return the goal: every step that is not optional."""
    goals = " ".join(f"(done-{step['id']})" for step in plan["steps"] if not step["optional"])
    return f"(define (problem do-it)\n  (:domain procedure)\n  (:init)\n  (:goal (and {goals})))\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Path(sys.argv[1])
    learned = stepcut.load(source).plan()
    for part, text in {"domain": domain(learned), "problem": problem(learned)}.items():
        target = Path(f"{source.stem}-{part}.pddl")
        target.write_text(text)
        print(target)
