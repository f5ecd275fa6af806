"""Work instructions: a cover and a part per step in the usual order, as HTML, Markdown or Word.

All words about a step are its name, its note, and what was counted in the recordings.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepcut.errors import StepcutError, VideoError, choose
from stepcut.evaluation.times import Times
from stepcut.files import AnyPath, as_path, write_bytes, write_text
from stepcut.files.names import Fragment
from stepcut.order import graph_of_labels, orders_of_labels
from stepcut.order.graph import ProcedureGraph
from stepcut.plugins import needs
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook, silent
from stepcut.show.clips import flat, picture_at
from stepcut.tables import markdown_text
from stepcut.version import __version__

HEIGHT = 480  # pixels of a picture, which is a whole frame
OTHERS = 3  # orders besides the usual one
SEVERITY_WORDS = {
    "critical": "Critical: a check raises an alarm when this step is missing.",
    "optional": "This step may be left out.",
    "free": "This step may be done at any time.",
}


class Picture(NamedTuple):
    video: str
    time: float
    data: bytes  # JPEG

    @property
    def about(self) -> str:
        return f"{self.video}, {self.time:.0f} s"


@dataclass(frozen=True)
class Part:
    name: str
    facts: list[str]
    note: str
    pictures: list[Picture]


@dataclass(frozen=True)
class Instruction:
    title: str
    cover: list[str]
    parts: list[Part]

    def save(self, path: AnyPath) -> None:
        """Write the document; the suffix decides: .html, .docx or .md (with its pictures beside)."""
        writer_of(path)(self, as_path(path))


def make_instructions(
    procedure: Procedure, title: str = "", pictures: int = 2, progress: Hook = silent
) -> Instruction:
    """Collect the steps that recordings without a marked mistake show, in their usual order."""
    said = procedure.annotations
    normal = [name for name in procedure.timelines if name not in said.mistakes]
    labels = {name: procedure.labels[name] for name in normal}
    graph = graph_of_labels(labels, float(procedure.rate), procedure.steps)
    usual, found = usual_order(graph), orders_of_labels(labels, float(procedure.rate)).ranked
    others = [(order, videos) for order, videos in found if order != tuple(usual)]
    names = procedure.steps
    timelines = {name: procedure.timelines[name] for name in normal}
    times, moments = Times({"": timelines}, names), _typical(procedure, normal, progress)
    rules = [] if procedure.learned.method is None else procedure.expectations.rules
    parts = [
        Part(
            names[step],
            [
                *_counted(graph, step),
                *(SEVERITY_WORDS[kind] for kind in said.severities.get(names[step], ())),
                *(f"Rule: {rule}." for rule in rules if names[step] in (rule.step, rule.other)),
            ],
            said.notes.get(names[step], ""),
            _pictures(procedure.videos, moments.get(step, []), pictures),
        )
        for step in usual
    ]
    recordings = _recordings(len(normal))
    whole = float(np.median([timeline.end for timeline in timelines.values()]))
    cover = [f"{len(parts)} steps from {recordings}; usually {whole:.0f} s in all."]
    for order, videos in others[:OTHERS]:
        listed = " → ".join(names[step] for step in order) or "no step"
        cover.append(f"Another order, in {_recordings(len(videos))}: {listed}.")
    sure = times.confirmed or 0.0
    text = f"A person confirmed {sure:.0f} % of the time of the steps."
    if not sure:
        text = "Nobody has confirmed the steps: this is a draft from predictions."
    advice = " Check it before use, and confirm the steps in stepcut view."
    cover.append(text + (advice if sure < 99.5 else ""))
    return Instruction(title or "Work instruction", cover, parts)


def usual_order(graph: ProcedureGraph) -> list[int]:
    """Sort the steps by the number of steps that more often come before than after them."""
    first, done = graph.first, [step for step in graph.steps if graph.occurs[step]]

    def rank(step: int) -> int:
        return sum(first.get((o, step), 0) > first.get((step, o), 0) for o in done)

    return sorted(done, key=rank)


def _recordings(count: int) -> str:
    return f"{count} recording{'' if count == 1 else 's'}"


def _counted(graph: ProcedureGraph, step: int) -> list[str]:
    spent, facts = graph.durations.get(step), []
    if spent and graph.occurs[step] == 1:
        facts.append(f"{spent.median:.0f} s in the only recording that shows it.")
    elif spent:
        often = f"80 % of the recordings: {spent.low:.0f} to {spent.high:.0f} s"
        facts.append(f"Usually {spent.median:.0f} s ({often}).")
    before = sorted((a for a, b in graph.edges if b == step), key=list(graph.all_before).index)
    if before:
        needed = [f"{graph.name(a)} ({graph.support[a, step]} recordings)" for a in before]
        facts.append(f"Must come before it: {', '.join(needed)}.")
    if missing := graph.videos - graph.occurs[step]:
        what = "Optional: " if step in graph.optional else ""
        facts.append(f"{what}{missing} of {_recordings(graph.videos)} do without it.")
    if step in graph.repeated:
        again = sum(count > 1 for count in graph.times[step])
        facts.append(f"Done again in {again} of the {_recordings(graph.occurs[step])}.")
    return facts


def _typical(
    procedure: Procedure, normal: Sequence[str], progress: Hook
) -> Mapping[int, list[tuple[str, float]]]:
    """By step, the moment of each video whose features are nearest the mean of the step."""
    rows: dict[str, Any] = {}
    with suppress(StepcutError, OSError):  # without features, the middles of steps
        learned = procedure.learned_features(progress=progress)
        rows = {one.name: one.rows.reshape(len(one.rows), -1) for one in learned}
    found: dict[int, list[tuple[str, float]]] = {}
    for step in range(len(procedure.steps)):
        at = {video: np.flatnonzero(procedure.labels[video] == step) for video in normal}
        shown = {v: rows[v][at[v]] if v in rows else at[v][:, None] for v in normal if len(at[v])}
        if shown:
            mean = np.concatenate([*shown.values()]).mean(axis=0) if rows else None
            far = {
                v: np.linalg.norm(each - (each.mean(axis=0) if mean is None else mean), axis=1)
                for v, each in shown.items()
            }
            found[step] = [
                (v, float((at[v][far[v].argmin()] + 0.5) / procedure.rate))
                for v in sorted(far, key=lambda v: float(far[v].min()))
            ]
    return found


def _pictures(
    paths: Mapping[str, str | None], moments: Sequence[tuple[str, float]], most: int
) -> list[Picture]:
    found: list[Picture] = []
    for video, time in moments:
        path, time = paths[video], Fragment.of(video).start + time
        if len(found) < most and path is not None and Path(path).is_file():
            with suppress(VideoError):
                found.append(Picture(video, time, picture_at(path, time, HEIGHT)))
    return found


# ---------- documents


def to_html(made: Instruction) -> str:
    style = (resources.files("stepcut.show") / "instructions.css").read_text(encoding="utf-8")
    parts = enumerate(made.parts, 1)
    listed = (f'<li><a href="#step{n}"><bdi>{escape(one.name)}</bdi></a></li>' for n, one in parts)
    cover = "".join(f"<p>{escape(text)}</p>" for text in made.cover)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(made.title)}</title><style>{style}</style></head><body><main>"
        f'<section class="cover"><h1>{escape(made.title)}</h1><ol>{"".join(listed)}</ol>{cover}</section>'
        f"{''.join(_section(n, part) for n, part in enumerate(made.parts, 1))}"
        f"<footer>Made with stepcut {__version__}.</footer></main></body></html>"
    )


def _section(number: int, part: Part) -> str:
    pictures = "".join(
        f'<figure><img src="data:image/jpeg;base64,{base64.b64encode(one.data).decode()}" '
        f'alt="{escape(part.name)}"><figcaption>{escape(one.about)}</figcaption></figure>'
        for one in part.pictures
    )
    note = f'<p class="note">{escape(part.note)}</p>' if part.note else ""
    facts = "".join(f"<li>{escape(text)}</li>" for text in part.facts)
    return (
        f'<section id="step{number}"><h2>{number}. <bdi>{escape(part.name)}</bdi></h2>'
        f'{note}<div class="pictures">{pictures}</div><ul>{facts}</ul></section>'
    )


def writer_of(path: AnyPath) -> Callable[[Instruction, Any], None]:
    writers = {".html": _html, ".md": _markdown, ".docx": _docx}
    writer = choose("suffix", as_path(path).suffix.lower(), writers)
    if writer is _docx:
        with needs("docx"):
            import docx  # noqa: F401
    return writer


def _html(made: Instruction, path: Any) -> None:
    write_text(path, to_html(made))


def _markdown(made: Instruction, path: Any) -> None:
    lines = [f"# {markdown_text(made.title)}", ""]
    lines += [f"{n}. {markdown_text(part.name)}" for n, part in enumerate(made.parts, 1)]
    lines += [line for text in made.cover for line in ("", markdown_text(text))]
    folder = path.with_name(f"{path.stem}-pictures")
    for number, part in enumerate(made.parts, 1):
        lines += ["", f"## {number}. {markdown_text(part.name)}"]
        lines += ["", markdown_text(part.note), ""] if part.note else [""]
        for place, one in enumerate(part.pictures, 1):
            file = folder / f"{number:02d}-{flat(part.name)[:40].replace(' ', '_')}-{place}.jpg"
            write_bytes(file, one.data)
            lines.append(f"![{markdown_text(one.about)}](<{folder.name}/{file.name}>)")
        lines += [
            *([""] if part.pictures else []),
            *(f"- {markdown_text(text)}" for text in part.facts),
        ]
    write_text(path, "\n".join(lines) + "\n")


def _docx(made: Instruction, path: Any) -> None:
    from docx import Document
    from docx.shared import Cm

    page = Document()
    page.add_heading(made.title, 0)
    for part in made.parts:
        page.add_paragraph(part.name, style="List Number")
    for text in made.cover:
        page.add_paragraph(text)
    for number, part in enumerate(made.parts, 1):
        page.add_heading(f"{number}. {part.name}", 1).paragraph_format.page_break_before = True
        if part.note:
            page.add_paragraph(part.note)
        pictures = page.add_paragraph()
        for one in part.pictures:
            pictures.add_run().add_picture(io.BytesIO(one.data), width=Cm(7.5))
        for text in part.facts:
            page.add_paragraph(text, style="List Bullet")
    out = io.BytesIO()
    page.save(out)
    write_bytes(path, out.getvalue())
