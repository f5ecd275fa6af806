"""ELAN files with tiers of several people."""

import re
import xml.etree.ElementTree as etree

from stepcut.formats import write


def write_tiers(path, tiers):
    roots = []
    for place, (name, timeline) in enumerate(tiers.items()):
        path.unlink(missing_ok=True)
        write(path, timeline, annotator=name)
        text = re.sub(r'"(ts|a)(\d+)"', rf'"\g<1>{place}_\2"', path.read_text())  # own ids
        roots.append(etree.fromstring(text))
    first, *others = roots
    for root in others:
        first.find("TIME_ORDER").extend(root.iter("TIME_SLOT"))
        last = max(n for n, each in enumerate(first) if each.tag == "TIER")
        first[last + 1 : last + 1] = root.findall("TIER")
    slots = first.find("TIME_ORDER")
    slots[:] = sorted(slots, key=lambda slot: int(slot.get("TIME_VALUE")))
    etree.ElementTree(first).write(path, encoding="UTF-8", xml_declaration=True)
