"""Turn a learned procedure into a behaviour tree: `python plan_to_behaviour_tree.py sandwich.proc > tree.xml`.

The XML is that of BehaviorTree.CPP 4 (also read by Groot2 and py_trees_ros). Steps go layer by layer: all whose
preconditions are met may run side by side; an optional step may fail without harm.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import stepcut


def layers(plan: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The steps in layers: each stands behind the last of its preconditions."""
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
    """The tree as XML text."""
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
