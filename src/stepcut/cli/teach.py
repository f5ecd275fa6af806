"""`stepcut teach`: learn again from labels of some videos, or from corrections in the viewer."""

import argparse
import shlex

from stepcut.cli.common import (
    chosen_options,
    describe_trust,
    label_options,
    progress_hook,
    this_program,
)
from stepcut.errors import OptionError
from stepcut.files.addresses import Address, as_path
from stepcut.formats import read_folder
from stepcut.procedure.history import can_take_back, take_back
from stepcut.procedure.labels import origin_of
from stepcut.procedure.loading import changes, load, teach_folder
from stepcut.timeline import is_unnamed


def run(args: argparse.Namespace) -> int:
    others = ("labels", "output", "steps", "source", "annotator", "transcripts", "recipe")
    how = {**label_options(args), **chosen_options(args, "annotator")}
    marks = args.mistakes or args.normal
    if marks and (args.back or how or chosen_options(args, *others)):
        option = "mistakes" if args.mistakes else "normal"
        raise OptionError(
            f"--{option} only marks videos. Use it alone, and teach in a second command.",
            setting=option,
        )
    if args.back:
        if args.labels or args.output or args.transcripts or args.recipe:
            raise OptionError(
                "--back undoes the last teaching. Use it without labels and without -o.",
                setting="back",
            )
        take_back(args.procedure)
        print(f"restored {args.procedure} as it was before the last teaching")
        return 0
    if marks:
        marked = load(args.procedure, trust=args.trust).mark_mistakes(*(args.mistakes or ()))
        marked = marked.mark_mistakes(*(args.normal or ()), holds=False)
        marked.save(args.procedure)
        print(f"saved to {args.procedure}\n{describe_trust(marked)}\n{marked.expectations.advice}")
        return 0
    labels, origin = args.labels, None
    if how:
        if labels is None:
            options = ", ".join(f"--{name}" for name in how)
            raise OptionError(
                f"{options}: needs label files. Add them after {args.procedure}.", setting="labels"
            )
        origin = origin_of(labels, args.annotator)
        labels = read_folder(labels, confirmed=True, **how)
    before, after = teach_folder(
        args.procedure,
        labels,
        args.output,
        args.steps,
        args.source,
        args.trust,
        progress_hook(args),
        transcripts=args.transcripts,
        recipe=args.recipe,
        origin=origin,
    )
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
        if not args.output and can_take_back(kept):
            print(f"undo:  {this_program()} teach {shlex.quote(kept)} --back")
    return 0
