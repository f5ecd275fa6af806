"""stepcut teach: a procedure learned again from labels of some videos, or from what was corrected in the viewer."""

import argparse
import shlex

from stepcut.cli.common import describe_trust, label_options, progress_hook, said, this_program
from stepcut.errors import OptionError
from stepcut.files.addresses import Address, as_path
from stepcut.formats import read_folder
from stepcut.procedure.lesson import origin_of
from stepcut.procedure.procedure import load
from stepcut.procedure.taught import changes, take_back, teach_folder
from stepcut.timeline import is_unnamed


def run(args: argparse.Namespace) -> int:
    """Teach, and say what changed."""
    others = [
        args.back,
        args.labels,
        args.output,
        args.steps,
        args.source,
        args.annotator,
        args.transcripts,
        args.recipe,
        *label_options(args).values(),
    ]
    if args.mistakes and any(one not in (None, False) for one in others):
        raise OptionError(
            "--mistakes marks videos and learns nothing; give it alone, and teach in a second command."
        )
    if args.back:
        if args.labels or args.output or args.transcripts or args.recipe:
            raise OptionError("--back takes the last teaching back; give it no labels and no -o.")
        take_back(args.procedure)
        print(f"{args.procedure} is as it was before it was taught")
        return 0
    if args.mistakes:
        marked = load(args.procedure, trust=args.trust).mark_mistakes(*args.mistakes)
        marked.save(args.procedure)
        print(f"kept in {args.procedure}\n{describe_trust(marked)}\n{marked.expectations.advice}")
        return 0
    labels, origin = args.labels, None
    how = {**label_options(args), **said(args, "annotator")}
    if how:
        if labels is None:
            given = ", ".join(f"--{name}" for name in how)
            raise OptionError(f"{given}: for label files, and none were given. Name them.")
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
    annotated = after.learned_annotations.annotated
    taught = f"learned from {len(annotated)} annotated videos and {len(after.samples) - len(annotated)} others"
    print(f"\n{taught}; what is another step now:")
    for name, share in sorted(changes(before, after).items(), key=lambda item: -item[1]):
        print(f"  {share:5.0%}  {name}{'  (annotated)' if name in annotated else ''}")
    gone = [name for name in before.steps if name not in after.steps and not is_unnamed(name)]
    if gone:
        print(f"no longer a step, since the labels do not name it: {', '.join(gone)}")
    print(f"\n{describe_trust(after)}\n")
    for name, reason in after.suggest_why():
        print(f"label next:  {name} ({reason})")
    kept = args.output or args.procedure
    print(f"\nkept in {kept}")
    if not isinstance(as_path(kept), Address):
        print(f"look at it:  {this_program()} view {shlex.quote(kept)}")
        if not args.output:
            print(f"take it back:  {this_program()} teach {shlex.quote(kept)} --back")
    return 0
