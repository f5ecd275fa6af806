"""Convert a procedure to a behaviour tree: `plan_to_behaviour_tree.py sandwich.proc > tree.xml`.

The output is XML for BehaviorTree.CPP 4 (Groot2 and py_trees_ros read it, too). Steps whose
preconditions are met run in parallel, and optional steps may fail.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import stepcut


def layers(plan: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Group the steps into layers: each comes after all its preconditions."""
    left = {step["id"]: step for step in plan["steps"]}
    done: set[str] = set()
    found = []
    while left:
        free = [s for s in left.values() if all(need["id"] in done for need in s["preconditions"])]
        found.append(free)
        done |= {step["id"] for step in free}
        left = {key: step for key, step in left.items() if key not in done}
    return found


def behaviour_tree(plan: dict[str, Any]) -> str:
    """Return the tree as XML."""
    root = ElementTree.Element("root", BTCPP_format="4", main_tree_to_execute="procedure")
    tree = ElementTree.SubElement(root, "BehaviorTree", ID="procedure")
    sequence = ElementTree.SubElement(tree, "Sequence", name="procedure")
    for layer in layers(plan):
        parent = sequence
        if len(layer) > 1:
            parent = ElementTree.SubElement(
                sequence, "Parallel", success_count="-1", failure_count="1"
            )
        for step in layer:
            place = ElementTree.SubElement(parent, "ForceSuccess") if step["optional"] else parent
            length = step["duration"]
            seconds = {} if length is None else {"usual_seconds": f"{length['median']:.1f}"}
            ElementTree.SubElement(
                place, "Action", ID="DoStep", step=step["id"], name=step["name"], **seconds
            )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(behaviour_tree(stepcut.load(sys.argv[1]).plan()), end="")
