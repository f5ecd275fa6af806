"""`stepcut learn`, `teach`, `add`, `remove`, `features`, `cycles`, `history`: make procedures."""

import argparse
import inspect
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from stepcut.cli import say
from stepcut.cli.common import (
    chosen_options,
    describe_trust,
    label_options,
    open_engine,
    progress_hook,
    read_settings,
    spec_of,
    this_program,
)
from stepcut.errors import OptionError, StepcutError
from stepcut.evaluation.times import began
from stepcut.features.cycles import CYCLE, find_cycles
from stepcut.features.extract import export, extract
from stepcut.features.features import load_features
from stepcut.features.find import find_files, find_inputs
from stepcut.features.sensors import load_sensors
from stepcut.features.spec import FeatureSpec
from stepcut.files import Address, as_path
from stepcut.formats import read_folder
from stepcut.methods import METHODS
from stepcut.methods.inputs import read_step_count
from stepcut.plugins import find, is_own
from stepcut.procedure import edits, learning
from stepcut.procedure.folder import damaged
from stepcut.procedure.labels import origin_of
from stepcut.procedure.learning import changes, load, read_cycles, teach_folder
from stepcut.procedure.store import read_config
from stepcut.tables import Table
from stepcut.timeline import clock, is_unnamed

MANY = 40


def learn(args: argparse.Namespace) -> int:
    if args.cycles:
        if len(args.videos) != 1 or as_path(args.videos[0]).is_dir():
            raise OptionError(f"--cycles {args.cycles}: for one recording. Name its file.")
        output = args.output or f"{as_path(args.videos[0]).stem}.proc"
        args.videos, args.output = read_cycles(args.videos[0], args.cycles), output
    chosen = settings(args)
    if "rate" not in chosen and not args.quiet:
        state_rate(args.videos)
    warn(args.videos, chosen.get("steps"), args.quiet)
    output = args.output or default_output(args.videos[0])
    chosen |= {"output": output, "progress": progress_hook(args)}
    with open_engine(args) as engine:
        procedure = learning.learn(args.videos, engine=engine, **chosen)
    skipped = procedure.config.skipped
    print(procedure)
    for number, words in procedure.suggestions.items():
        print(f"  {procedure.steps[number]} may be: {', '.join(words)}")
    if why := procedure.method.why_steps_:
        print(f"\n{why}")
    place, expected, program = shlex.quote(output), procedure.expectations, this_program()
    print(f"\n{describe_trust(procedure)}")
    if expected.advice:
        unusual = shlex.quote(expected.most_unusual[0])
        print(f"{expected.advice}\n  {program} teach {place} --mistakes {unusual}")
    view = "" if isinstance(as_path(output), Address) else f"\nshow it:  {program} view {place}"
    print(f"\nsaved to {output}{view}")
    suffix = find_inputs(args.videos).files[0].suffix
    print(f"check a new video:  {program} check {place} NEW{suffix}")
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}")
    return 2 if skipped else 0


def state_rate(places: Sequence[str]) -> None:
    with suppress(StepcutError):  # errors are reported when all files are read
        inputs = find_inputs(places)
        for file in inputs.files if inputs.kind == "feature file" else ():
            if file.suffix != ".safetensors":
                lasts = clock(load_features([file], 1)[0].duration)
                say(
                    f"assuming 1 row of features per second, so {file.name} lasts {lasts}; "
                    "use --rate N for another rate."
                )
                return


def warn(videos: Sequence[str], steps: object, quiet: bool) -> None:
    count = None
    with suppress(StepcutError):  # reported once the settings are checked
        count = len(find_inputs(videos))
    if count == 1:
        raise OptionError(
            f"{videos[0]} is a single video, and learning compares videos. Use at least two. If it "
            f"shows many cycles, find them: {this_program()} cycles {shlex.quote(videos[0])} "
            "-o cycles.csv, then add --cycles cycles.csv"
        )
    if count == 2 and not quiet:
        say(
            "two videos are few: what they share may be chance, and check has little evidence. "
            "Use five or more."
        )
    if isinstance(steps, int) and steps > MANY and not quiet:
        say(f"-k {steps}: most procedures have 5 to 20 steps; more are short and hard to separate.")


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `learn`: those of --like, then the options of this command."""
    chosen: dict[str, Any] = {}
    spec = None
    if args.like:
        old = read_config(args.like)
        if not args.quiet:
            say(
                f"--like takes the settings of {args.like}, not its steps, names, labels, severities "
                f"and rules. To keep them: stepcut add {shlex.quote(args.like)} VIDEOS"
            )
        with damaged(args.like):
            saved = old.method, dict(old.settings)
            chosen = {"false_alarms": old.false_alarms}
            spec = FeatureSpec.from_json(old.backbone, trust=args.trust)
        chosen |= _known_settings(*saved, args)
        if spec is not None:
            chosen.pop("rate", None)
    chosen["backbone"] = spec_of(args, spec)
    if args.steps is not None:
        chosen["steps"] = read_step_count(args.steps)
    names = ("method", "rate", "false_alarms", "cache", "device", "seed")
    chosen |= chosen_options(args, *names, "labels", "transcripts", "recipe")
    how = chosen_options(args, "label_rate", "columns", "encoding", "sheet")
    if how and not args.labels:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in how)
        raise OptionError(f"{given}: for label files, and none were given. Add --labels DIR.")
    if how:
        how["rate"] = how.pop("label_rate", None)
        chosen["labels"] = read_folder(args.labels, confirmed=True, **how)
    if args.names:
        chosen["names"] = [name.strip() for name in args.names.split(",")]
        chosen.setdefault("steps", len(chosen["names"]))
    chosen.update(read_settings(args.set))
    chosen |= {name: True for name in ("as_published", "as_released") if getattr(args, name)}
    if any("." in name for name in chosen):
        maker: Any = find("method", chosen.get("method", "stepcut"), METHODS)
        chosen = maker.arrange(chosen)
    return {**chosen, "strict": args.strict}


def _known_settings(
    method: str, saved: Mapping[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    custom = [] if method in METHODS or args.method else [method]
    custom += filter(is_own, _strings(saved))
    if custom and not args.trust:
        raise OptionError(
            f"--like {args.like}: its settings name custom code ({custom[0]}). If you trust it, "
            "add --trust."
        )
    name = args.method or method
    known = inspect.signature(find("method", name, METHODS)).parameters
    return {"method": name, **{key: saved[key] for key in known if key in saved}}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def default_output(first: str) -> str:
    path = as_path(first)
    folder = path if path.is_dir() else path.parent
    return f"{(folder if isinstance(folder, Address) else folder.resolve()).name}.proc"


def teach(args: argparse.Namespace) -> int:
    how = label_options(args, "annotator")
    others = ("labels", "output", "steps", "source", "transcripts", "recipe")
    if args.mistakes or args.normal:
        if args.back or how or chosen_options(args, *others):
            raise OptionError(
                f"--{'mistakes' if args.mistakes else 'normal'} only marks videos. Use it alone, "
                "and teach in a second command."
            )
        before = load(args.procedure, trust=args.trust)
        marked = before.mark_mistakes(*args.mistakes or ())
        marked = marked.mark_mistakes(*args.normal or (), holds=False)
        marked.save(args.procedure)
        print(f"saved to {args.procedure}\n{describe_trust(marked)}\n{marked.expectations.advice}")
        return 0
    if args.back:
        if args.labels or args.output or args.transcripts or args.recipe:
            raise OptionError(
                "--back undoes the last teaching. Use it without labels and without -o."
            )
        edits.take_back(args.procedure)
        print(f"restored {args.procedure} as it was before the last teaching")
        return 0
    labels, origin = args.labels, None
    if how:
        if labels is None:
            options = ", ".join(f"--{name}" for name in how)
            raise OptionError(f"{options}: needs label files. Add them after {args.procedure}.")
        origin = origin_of(labels, args.annotator)
        labels = read_folder(labels, confirmed=True, **how)
    more = {"transcripts": args.transcripts, "recipe": args.recipe, "origin": origin}
    places = (args.procedure, labels, args.output, args.steps, args.source)
    before, after = teach_folder(*places, args.trust, progress_hook(args), **more)
    print(after)
    annotated = after.learned.annotations.annotated
    rest = len(after.samples) - len(annotated)
    print(f"\nlearned from {len(annotated)} annotated videos and {rest} others; changed time:")
    for name, share in sorted(changes(before, after).items(), key=lambda item: -item[1]):
        print(f"  {share:5.0%}  {name}{'  (annotated)' if name in annotated else ''}")
    gone = [name for name in before.steps if name not in after.steps and not is_unnamed(name)]
    if gone:
        print(f"removed steps, which the labels do not name: {', '.join(gone)}")
    print(f"\n{describe_trust(after)}\n")
    for name, reason in after.suggest_why():
        print(f"label next:  {name} ({reason})")
    kept = args.output or args.procedure
    print(f"\nsaved to {kept}")
    if not isinstance(as_path(kept), Address):
        print(f"show it:  {this_program()} view {shlex.quote(kept)}")
        if not args.output and edits.can_take_back(kept):
            print(f"undo:  {this_program()} teach {shlex.quote(kept)} --back")
    return 0


def add(args: argparse.Namespace) -> int:
    return _change_videos(args, args.videos or None, [], args.learn)


def remove(args: argparse.Namespace) -> int:
    return _change_videos(args, None, args.videos, learn=False)


def replace(args: argparse.Namespace) -> int:
    return _change_videos(args, [args.new], [args.old], args.learn)


def _change_videos(
    args: argparse.Namespace, new: Sequence[str] | None, gone: Sequence[str], learn: bool
) -> int:
    before = load(args.procedure, trust=args.trust)
    after = before.add(new, learn, progress_hook(args), replacing=gone)
    after.save(args.procedure)
    place, program = shlex.quote(args.procedure), this_program()
    print(after)
    for name, timeline in after.timelines.items():
        if name not in before.samples:
            print(f"added: {name}, {len(timeline)} segments")
    said = before.annotations.videos
    for name in before.samples.keys() - after.samples.keys():
        kept = "; what people said of it stays in the history" if name in said else ""
        print(f"removed: {name}{kept}")
    skipped = dict(after.config.skipped.items() - before.config.skipped.items())
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}")
    if not learn:
        print(f"the model is as before; learn again:  {program} add {place} --learn")
    print(f"\nsaved to {args.procedure}")
    if not isinstance(as_path(args.procedure), Address):
        print(f"undo:  {program} teach {place} --back")
    return 2 if skipped else 0


def features(args: argparse.Namespace) -> int:
    sensors = find_files(args.videos).kind == "sensor file"
    if sensors:
        computed, failures = load_sensors(args.videos, args.rate, args.fps, args.strict)
    elif args.rate is not None:
        raise OptionError(
            f"--rate {args.rate}: for sensor files (.csv). For videos, set the rows per second "
            f"with --fps {args.rate}."
        )
    else:
        with open_engine(args) as engine:
            computed, failures = extract(
                args.videos,
                spec_of(args),
                progress=progress_hook(args),
                engine=engine,
                **chosen_options(args, "cache", "strict", "device"),
            )
    for one in computed:
        target = export(one, args.output)
        corrupt = f", {one.corrupt} damaged frames skipped" if one.corrupt else ""
        if not args.quiet:
            shape = " x ".join(map(str, one.rows.shape))
            print(f"{target}  {shape}, {one.rate} per second, {one.duration:.1f} s{corrupt}")
    if failures:
        kind = "recordings" if sensors else "videos"
        say(f"{len(failures)} of {len(computed) + len(failures)} {kind} skipped:")
        print(*(f"  {failure}" for failure in failures), sep="\n", file=sys.stderr)
    return 2 if failures else 0


def cycles(args: argparse.Namespace) -> int:
    inputs = find_files(args.recording)
    if len(inputs.files) != 1:
        raise OptionError(f"{args.recording}: {len(inputs.files)} files. Name one recording.")
    if inputs.kind == "sensor file":
        [features], _ = load_sensors(args.recording, args.rate, args.fps, strict=True)
    elif inputs.kind == "feature file":
        [features] = load_features(inputs, args.rate)
    else:
        with open_engine(args) as engine:
            how = chosen_options(args, "cache", "device")
            hook, spec = progress_hook(args), spec_of(args)
            [features], _ = extract(
                inputs.files, spec, None, how.pop("cache", None), hook, True, engine=engine, **how
            )
    like = [read_span(text) for text in args.like]
    found = find_cycles(features, like, features.name)
    video = str(inputs.files[0]) if inputs.kind == "video" else None
    first = began(features.name, video)
    table = Table(
        ["video", "start", "end", "label", "cycle", "confidence", *(["clock"] if first else [])], []
    )
    for number, one in enumerate(found.cycles, 1):
        sure = "" if one.confidence is None else round(one.confidence, 2)
        when = [(first + timedelta(seconds=one.start)).isoformat(" ", "seconds")] if first else []
        table.rows.append(
            [features.name, round(one.start, 3), round(one.end, 3), CYCLE, number, sure, *when]
        )
    table.save(args.output)
    print(f"{len(found.cycles)} cycles of {found.period:.1f} s (median) in {features.name}")
    for note in found.notes:
        say(note)
    here, place = shlex.quote(args.recording), shlex.quote(args.output)
    print(f"correct them:  {this_program()} view {place} --videos {here}")
    print(f"learn from them:  {this_program()} learn {here} --cycles {place}")
    return 0


def read_span(text: str) -> tuple[float, float]:
    start, _, end = text.partition("-")
    try:
        return float(start), float(end)
    except ValueError as error:
        what = f"--like {text}: write the start and the end in seconds, such as --like 12.0-48.5."
        raise OptionError(what, setting="like", value=text) from error


def history(args: argparse.Namespace) -> int:
    if args.restore and args.to is not None:
        raise OptionError("--restore and --to are both set; give one of them.")
    if args.restore:
        found = edits.restore(args.procedure)
        lost = "; ".join(found.lost) or "nothing"
        print(f"restored {args.procedure}\ndamaged: {'; '.join(found.what)}\nlost: {lost}")
    elif args.to is not None:
        edits.go_back(args.procedure, args.to)
        print(f"{args.procedure} is as it was after change {args.to}")
    elif damage := edits.diagnose(args.procedure):
        print(f"{args.procedure} is {damage}")
        if damage.to is None:
            print("no learned state can be read; restore the folder from a backup")
        else:
            command = f"{this_program()} history {shlex.quote(args.procedure)}"
            print(f"restore it:  {command} --restore")
        return 1
    else:
        print(edits.history_table(args.procedure).format(args.format).rstrip("\n"))
    return 0
