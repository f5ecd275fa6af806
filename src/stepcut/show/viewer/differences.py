"""What differs between two groups of videos, in plain words."""

from stepcut.tables import Table

SURE, LIKELY = 0.05, 0.2
"""p-values, corrected for their number, below which a difference is called clear, or possible."""


def in_words(table: Table) -> list[str]:
    """A sentence for each clear or possible difference of `compare_groups`; one where there is none."""
    told = []
    for what, step, a, b, _, _, p in table.rows:
        if not isinstance(p, float) or p >= LIKELY:
            continue
        one, other = float(a), float(b)  # type: ignore[arg-type]
        how = "clear" if p < SURE else "possible, not certain"
        if what == "seconds":
            name = "The whole video" if step == "(whole video)" else f"“{step}”"
            more = "longer" if one > other else "shorter"
            told.append(f"{name} takes {more} in A: {one:.1f} s, in B {other:.1f} s ({how}).")
        elif what == "exchanged pairs":
            told.append(
                f"The order differs from the usual one in {one:.0%} of step pairs in A, "
                f"in {other:.0%} in B ({how})."
            )
        else:
            verb = "is left out" if what == "left out" else "is repeated"
            told.append(
                f"“{step}” {verb} in {one:.0%} of the videos of A, in {other:.0%} of B ({how})."
            )
    return told or ["No clear difference. Small groups show only large differences."]
