"""What the seed paper (Bansal, Arora, Jawahar, ECCV 2022) reports, as tables; nothing here was computed by stepcut."""

from __future__ import annotations

SOURCE = "Bansal, Arora, Jawahar: My View is the Best View, ECCV 2022"
PARTS = ("CMU-MMAC", "EGTEA", "MECCANO", "EPIC-Tents", "PC Assembly", "PC Disassembly")

# The part of EgoProceL that a task belongs to: a column of the paper's tables is the mean over its tasks.
PART_OF = {
    **dict.fromkeys(("Brownie", "Eggs", "Pepperoni Pizza", "Salad", "Sandwich"), "CMU-MMAC"),
    **dict.fromkeys(
        (
            "Bacon and Eggs",
            "Cheese Burger",
            "Continental Breakfast",
            "Greek Salad",
            "Pasta Salad",
            "Hot Dog Pizza",
            "Turkey Sandwich",
        ),
        "EGTEA",
    ),
    "Toy Bike (MECCANO)": "MECCANO",
    "Tent": "EPIC-Tents",
    "PC Assembly": "PC Assembly",
    "PC Disassembly": "PC Disassembly",
}

Figures = dict[str, float]


def _pairs(text: str) -> list[Figures]:
    """`15.7/5.9 15.3/4.6 ...`: F1 and IoU, a pair per part."""
    return [dict(zip(("F1", "IoU"), map(float, pair.split("/")), strict=True)) for pair in text.split()]


def _triples(text: str) -> list[Figures]:
    """`18.5/19.7/9.5 ...`: precision, F1 and IoU, a triple per part."""
    return [dict(zip(("precision", "F1", "IoU"), map(float, one.split("/")), strict=True)) for one in text.split()]


def _by_part(values: list[Figures]) -> dict[str, Figures]:
    return dict(zip(PARTS, values, strict=True))


# Row -> part -> figures; protocol `paper`, K = 7.
MAIN = {
    "random": _by_part(_pairs("15.7/5.9 15.3/4.6 13.4/5.3 14.1/6.5 15.1/7.2 15.3/7.1")),
    "tc3i + kmeans": _by_part(_pairs("19.2/9.0 20.8/7.9 16.6/8.0 15.4/7.8 21.7/11.0 24.9/14.1")),
    "tc3i + subset": _by_part(_pairs("19.7/8.9 20.4/7.9 16.3/7.8 15.9/7.8 24.8/11.9 23.6/14.0")),
    "tc3i + procut": _by_part(_pairs("22.7/11.1 21.7/9.5 18.1/7.8 17.2/8.3 25.1/12.8 27.0/14.8")),
}

# The same with the ProCut Module after four losses; protocol `paper`, K = 7.
LOSSES = {
    "tcc + procut": _by_part(
        _triples("18.5/19.7/9.5 17.5/19.7/8.8 15.1/17.9/8.7 14.2/14.9/7.8 19.9/21.7/11.6 22.0/23.4/12.2")
    ),
    "lav+tcc + procut": _by_part(
        _triples("18.8/19.7/9.0 16.4/18.6/7.5 13.4/15.6/7.3 16.0/16.7/8.5 21.6/21.1/10.8 21.0/24.3/12.3")
    ),
    "lav + procut": _by_part(
        _triples("20.6/21.1/9.4 17.4/19.1/8.0 14.6/17.4/7.1 15.2/15.8/8.3 21.5/22.7/11.7 26.4/26.5/12.9")
    ),
    "tc3i + procut": _by_part(
        _triples("21.6/22.7/11.1 19.6/21.7/9.5 15.5/18.1/7.8 17.1/17.2/8.3 25.0/25.1/12.8 28.4/27.0/14.8")
    ),
}

# Row -> K -> part -> figures; protocol `paper`.
STEPS = {
    "tc3i + procut": {
        7: {p: {"F1": f} for p, f in zip(PARTS, (22.7, 21.7, 18.1, 17.2, 25.1, 27.0), strict=True)},
        10: {p: {"F1": f} for p, f in zip(PARTS, (19.1, 19.9, 15.2, 11.1, 18.7, 26.5), strict=True)},
        12: {p: {"F1": f} for p, f in zip(PARTS, (20.4, 19.9, 13.5, 12.1, 20.7, 24.5), strict=True)},
        15: {p: {"F1": f} for p, f in zip(PARTS, (20.1, 19.9, 11.9, 9.46, 19.0, 23.6), strict=True)},
    },
    "random": {
        7: {"CMU-MMAC": {"F1": 15.7}},
        10: {"CMU-MMAC": {"F1": 12.7}},
        12: {"CMU-MMAC": {"F1": 11.6}},
        15: {"CMU-MMAC": {"F1": 10.4}},
    },
}


def _four(text: str) -> dict[str, Figures]:
    names = ("precision", "recall", "F1", "IoU")
    return {"CMU-MMAC": dict(zip(names, map(float, text.split()), strict=True))}


# View -> part -> figures of CnC; protocol `paper`, K = 7.
VIEWS = {
    "top": _four("17.4 18.4 17.9 8.1"),
    "back": _four("18.8 21.5 20.0 8.5"),
    "left": _four("21.2 22.7 21.8 9.7"),
    "right": _four("19.8 21.7 20.6 8.7"),
    "egocentric": _four("21.6 24.4 22.7 11.1"),
}


def _both(procel: str, crosstask: str) -> dict[str, Figures]:
    names = ("precision", "recall", "F1")
    sets = {"procel": procel, "crosstask": crosstask}
    return {data: dict(zip(names, map(float, text.split()), strict=True)) for data, text in sets.items()}


# Row -> data set -> figures; protocol `legacy`.
THIRD_PERSON = {
    "uniform": _both("12.4 9.4 10.3", "8.7 9.8 9.0"),
    "tc3i + procut": _both("20.7 22.6 21.6", "22.8 22.5 22.6"),
    "Kukleva": _both("11.7 30.2 16.4", "9.8 35.9 15.3"),
    "Elhamifar": _both("9.5 26.7 14.0", "10.1 41.6 16.3"),
    "Shen (with narration)": _both("16.5 31.8 21.1", "15.2 35.5 21.0"),
    "Alayrac (with narration)": _both("12.3 3.7 5.5", "6.8 3.4 4.5"),
}
