"""`stepcut compare`, `times`, `evaluate`, `agree`, `report`, `instructions`, `clips` and `convert`."""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepcut import evaluation
from stepcut.annotations import STEP_CLASSES
from stepcut.cli import common, say
from stepcut.errors import OptionError, choose, unknown
from stepcut.evaluation.agreement import compare_annotations
from stepcut.evaluation.compare import compare_groups
from stepcut.evaluation.times import WHOLE, Times, only_confirmed
from stepcut.features.find import find_inputs, name_videos, unique_names
from stepcut.files import as_path, check_place, whole_path, write_text
from stepcut.files.names import match_videos, spell
from stepcut.formats import FORMATS, choose_format, format_to_write, left_out, write, write_folder
from stepcut.order.orders import counted
from stepcut.procedure.edits import Edits
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.learning import load, read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Stage
from stepcut.tables import save_figure
from stepcut.timeline import Timeline, clock


def compare(args: argparse.Namespace) -> int:
    folders = (args.first, args.second)
    for folder in folders:
        if not Path(folder).is_dir():
            raise OptionError(
                f"{folder} is not a folder; name a folder of videos or features for each group."
            )
    names = (Path(args.first).name, Path(args.second).name)
    names = names if names[0] != names[1] and all(names) else ("A", "B")
    groups: dict[str, dict[str, Timeline]] = {}
    failed = False
    inputs = [find_inputs(folder).files for folder in folders]
    for name, videos in zip(names, inputs, strict=True):
        answers, some = common.ask_procedure(args, "segment", list(map(str, videos)))
        failed = failed or some
        found = name_videos([video for video, _ in answers])
        groups[name] = dict(zip(found, (timeline for _, timeline in answers), strict=True))
    if args.confirmed_only:
        groups = only_confirmed(groups)
    first, second = (list(group.values()) for group in groups.values())
    steps = list(dict.fromkeys(step for timeline in (*first, *second) for step in timeline.steps))
    labelled = bool(read_outline(args.procedure).annotations.annotated)
    table = compare_groups(first, second, steps, names, labelled)
    there = {whole_path(str(path)) for path in inputs[1]}
    both = [path.name for path in inputs[0] if whole_path(str(path)) in there]
    if both:
        what = f"{counted(len(both))} of A and B are the same, such as {both[0]}."
        table.notes.insert(0, f"{what} Compare different recordings.")
    who = f"A is {args.first}, {counted(len(first))}; B is {args.second}, {counted(len(second))}."
    table.notes.insert(0, who)
    common.show_table(table, args.format, args.output)
    times = Times(groups, steps)
    if args.times:
        times.save(args.times)
    if args.plot:
        save_figure(times.draw(), args.plot)
    return 2 if failed else 0


def times(args: argparse.Namespace) -> int:
    how = common.label_options(args)
    outline = None
    if len(args.labels) == 1 and is_procedure(as_path(args.labels[0])):
        outline = _planned(args)
    elif args.limit or args.class_:
        raise OptionError("--class and --limit are saved in a procedure. Give one procedure.")
    groups = {
        name: common.read_timelines(place, annotator=args.annotator, confirmed=True, **how)
        for name, place in zip(group_names(args.labels), args.labels, strict=True)
    }
    steps = [step for some in groups.values() for one in some.values() for step in one.steps]
    found = Times(
        groups,
        outline.steps if outline else None,
        outline.annotations.classes if outline else {},
        by=args.by,
        takt=args.takt,
        step=spell([args.step], steps)[args.step] if args.step else WHOLE,
        paths=outline.videos if outline else {},
        confirmed_only=args.confirmed_only,
    )
    if args.output:
        found.save(args.output)
    if args.plot:
        save_figure(found.draw(), args.plot)
    table = found.per_recording if args.per_recording else found.per_step
    common.show_table(table, args.format, None)
    return 0


def _planned(args: argparse.Namespace) -> Procedure:
    """Save the classes and limits in the procedure, and return its outline."""
    place = args.labels[0]
    steps = read_outline(place).steps
    classes = [_pair(word, steps, f"={STEP_CLASSES[0]}") for word in args.class_]
    for _, kind in classes:
        choose("class", kind, dict.fromkeys((*STEP_CLASSES, "none")))
    limits = [_pair(word, steps, "=40") for word in args.limit]
    if classes or limits:
        edits = Edits(place)
        for step, limit in limits:
            edits.set_limit(step, limit)
        for step, kind in classes:
            edit = {"do": "classify", "step": edits.document.numbers[step]}
            edits.do({**edit, "kind": None if kind == "none" else kind})
    return read_outline(place)


def _pair(word: str, steps: Sequence[str], example: str) -> tuple[str, str]:
    """Split STEP=VALUE; a name may contain the sign."""
    name, equals, value = word.rpartition("=")
    step = spell([name], list(steps)).get(name, name)
    if not equals or step not in steps:
        raise unknown("step", name or word, steps, hint=f"Write it as NAME{example}.")
    return step, value


def group_names(places: Sequence[str]) -> list[str]:
    """
    >>> group_names(["novices/", "experts/labels.csv"]), group_names(["novices/"])
    (['novices', 'labels'], [''])
    """
    stems = [Path(place).stem for place in places]
    return unique_names([stems, [str(Path(place)) for place in places]]) if stems[1:] else [""]


def evaluate(args: argparse.Namespace) -> int:
    named: Any = named_rows(args.found)
    table = evaluation.evaluate(
        named or (args.found[0] if len(args.found) == 1 else args.found),
        args.truth,
        *(args.protocol, args.seeds, args.background, args.clock, args.seed),
        ignore_lengths=args.ignore_lengths,
        per_activity=args.per_activity,
        reading=common.label_options(args),
    )
    parts = ("per_activity", "per_step", "per_video", "confusion")
    more = {name: getattr(table, name)() for name in parts if getattr(args, name)}
    if args.output:
        table.save(args.output)
    if args.format == "json":  # one document, with the breakdowns inside
        record = json.loads(table.json()) | {name: json.loads(t.json()) for name, t in more.items()}
        print(json.dumps(record, indent=1, ensure_ascii=False))
        return 0
    text = [part.format(args.format).rstrip("\n") for part in (table, *more.values())]
    if args.matching:
        text.append(table.matching)
    print("\n\n".join(text))
    return 0


def named_rows(words: list[str]) -> dict[str, list[str]]:
    """Return an empty dict if no word has a name.

    >>> named_rows(["A=one.proc", "B=two.proc", "B=three.proc"])
    {'A': ['one.proc'], 'B': ['two.proc', 'three.proc']}
    """
    plain = [word for word in words if not re.match("[^=]+=.", word) or Path(word).exists()]
    if plain and len(plain) < len(words):
        raise OptionError(
            f"{plain[0]} has no name, but others have. Name every row, as in NAME={plain[0]}, "
            "or none."
        )
    rows: dict[str, list[str]] = {}
    for word in words if not plain else ():
        name, _, path = word.partition("=")
        rows.setdefault(name, []).append(path)
    return rows


def agree(args: argparse.Namespace) -> int:
    if args.output:
        format_to_write(Path(args.output))  # refuse an unknown suffix before any work
    how = common.label_options(args)
    first, second = (
        common.read_timelines(place, annotator=name, confirmed=True, **how)
        for place, name in zip(
            (args.first, args.second), args.annotators or (None, None), strict=True
        )
    )
    table, apart = compare_annotations(first, second, args.tolerance)
    if not args.annotators and Path(args.first).resolve() == Path(args.second).resolve():
        table.notes.insert(0, "Both are the same labels, so they agree completely.")
    if args.output:
        write(args.output, list(apart.values()))
    common.show_table(table, args.format, args.table)
    if args.format != "text":
        return 0
    # Differences too short for the printed times are rounding of formats that count frames.
    listed = [
        (name, segment)
        for name, timeline in apart.items()
        for segment in timeline
        if clock(segment.start) != clock(segment.end)
    ]
    listed.sort(key=lambda each: -each[1].duration)
    for name, segment in listed[: args.worst]:
        print(f"{name}  {clock(segment.start)}  {clock(segment.end)}  {segment.step}")
    if len(listed) > args.worst:
        print(f"{args.worst} of {len(listed)} disagreements; -o FILE writes all.")
    if listed:
        name, segment = listed[0]
        words = [args.first, "--beside", args.second, "--at", f"{name}@{segment.start:g}"]
        words += ["--annotators", *args.annotators] if args.annotators else []
        words += [word for name, value in how.items() for word in (f"--{name}", value)]
        print(f"show them:  {common.this_program()} view {shlex.join(words)}")
    return 0


def report(args: argparse.Namespace) -> int:
    from stepcut.show.report import make_report

    if Path(args.output).suffix.lower() not in (".html", ".htm"):
        raise OptionError(
            f"-o {args.output}: a report is an HTML page. Use a name that ends in .html."
        )
    procedure = load(args.procedure, trust=args.trust)
    procedure = procedure.moved(common.find_moved(procedure.videos, args.videos))
    common.warn_changed(procedure, procedure.videos)
    checks, failed = common.ask_procedure(args, "check", args.check) if args.check else ([], False)
    title = args.title or Path(args.procedure).resolve().name.removesuffix(".proc")
    page = make_report(procedure, args.truth, [check for _, check in checks], args.pictures, title)
    write_text(args.output, page)
    print(f"the report is in {args.output}")
    return 2 if failed else 0


def instructions(args: argparse.Namespace) -> int:
    from stepcut.show.instructions import make_instructions, writer_of

    writer_of(args.output)  # refuse what cannot be written before any work
    procedure = load(args.procedure, trust=args.trust)
    procedure = procedure.moved(common.find_moved(procedure.videos, args.videos))
    common.warn_changed(procedure, procedure.videos)
    title = args.title or Path(args.procedure).resolve().name.removesuffix(".proc")
    hook = common.progress_hook(args)
    made = make_instructions(procedure, title, args.pictures, hook)
    made.save(args.output)
    print(f"the work instruction is in {args.output}: {len(made.parts)} steps")
    if args.pictures and not any(part.pictures for part in made.parts):
        say("it has no pictures, since no video was found. Add --videos FOLDER.")
    return 0


def clips(args: argparse.Namespace) -> int:
    from stepcut.show.clips import write_clips

    outline = read_outline(args.procedure)  # clips need no model
    step = None if args.step is None else spell([args.step], outline.steps)[args.step]
    if step is not None and step not in outline.steps:
        raise unknown("step", step, outline.steps)
    timelines, videos = outline.timelines, common.find_moved(outline.videos, args.videos)
    common.warn_changed(outline, videos)
    total = sum(step in (None, one.step) for timeline in timelines.values() for one in timeline)
    written = 0
    errors = []
    with Stage(common.progress_hook(args), "clips", total=total, unit="clips") as stage:
        for video, clip in write_clips(timelines, videos, Path(args.output), step):
            if isinstance(clip, Exception):
                errors.append(clip)
                say(str(clip))
            else:
                written += 1
                stage.advance(item=video)
    print(f"{written} clips in {args.output}; times: {Path(args.output) / 'times.csv'}")
    return 2 if errors else 0


def convert(args: argparse.Namespace) -> int:
    target = _beside(args) if args.target is None else Path(args.target)
    ends = args.target is not None and args.target.endswith(("/", "\\"))
    into_folder = ends or os.path.isdir(target) or not target.suffix
    if into_folder and args.to is None:
        raise OptionError(
            f"{target}: a folder has no suffix that decides the format. "
            f"Add --to, one of {', '.join(FORMATS)}."
        )
    name = args.to or format_to_write(target)
    check_place(target, into_folder)
    found = common.read_timelines(
        args.source, args.from_, **common.label_options(args, "annotator")
    )
    if args.video is not None:
        chosen = match_videos([args.video], found).get(args.video)
        if chosen is None:
            raise unknown("video", args.video, found)
        found = {chosen: found[chosen]}
    save: Any = write_folder if into_folder else write
    save(target, found, name, args.rate, spreadsheet=args.spreadsheet_safe)
    if not args.quiet:
        title = FORMATS[name].title
        if lost := left_out(list(found.values()), name):
            say(f"{title} cannot store {', '.join(lost)}.")
        print(f"{counted(len(found))} written to {target} as {title}.", file=sys.stderr)
    return 0


def _beside(args: argparse.Namespace) -> Path:
    source = Path(args.source)
    if args.to is None or not source.is_file():
        what = "give TARGET, the file to write" if args.to else "give TARGET or --to"
        raise OptionError(f"{source}: {what}, such as {source.stem}.csv.")
    target = source.with_suffix(choose_format(args.to).suffix)
    if target == source:
        raise OptionError(f"{source}: the result would replace the source. Give another TARGET.")
    return target
