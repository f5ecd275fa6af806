"""`stepcut demo`: the whole workflow on synthetic videos: learn, label three, find mistakes."""

import argparse
import shlex
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import stepcut as sc
from stepcut.cli.common import progress_hook, this_program
from stepcut.features.extract import extract
from stepcut.files import write_text
from stepcut.procedure.edits import Edits
from stepcut.show.plots import compare
from stepcut.show.report import make_report
from stepcut.timeline import Timeline
from stepcut.toy import EDGES, STEPS, make_kitchen, write_script

VIDEOS = 12
SECONDS = 30.0
WIDTH = 60


def demo(args: argparse.Namespace) -> int:
    folder, hook = Path(args.output), progress_hook(args)
    # A recipe: each step once, in one order.
    film = partial(make_kitchen, duration=SECONDS, skip=0, repeat=0, shuffle=0)
    print(
        f"1. Videos without labels: {VIDEOS} cooks make the same breakfast in different kitchens."
    )
    kitchen = film(folder / "kitchen", videos=VIDEOS, seed=args.seed, progress=hook)
    truth = kitchen.timelines
    # The new videos of step 4 are rendered meanwhile: drawing and encoding release the GIL.
    pool = ThreadPoolExecutor(1)
    new = [
        pool.submit(film, folder / f"new-{n}", videos=1, seed=args.seed + n, flaw=flaw)
        for n, flaw in enumerate([None, *draw_flaws(args.seed)], 1)
    ]
    pool.shutdown(wait=False)

    print("2. Learning from the pixels alone, without labels ...")
    found = sc.learn(
        kitchen.videos,
        steps=len(STEPS),
        seed=args.seed,
        cache=folder / "cache",
        false_alarms=0.08,  # 12 videos cannot guarantee less
        progress=hook,
    )
    print(f"   Discovered {len(found.steps)} steps. Quality: {found.quality}")

    labelled = found.suggest(3)
    others = {name: each for name, each in truth.items() if name not in labelled}
    print(f"3. A person labels the three of {VIDEOS} videos that stepcut suggests ...")
    taught = found.teach({name: truth[name] for name in labelled}, progress=hook)
    place = folder / "kitchen.proc"
    taught.save(place)
    print(f"   stepcut segments the other {len(others)}. One of them, with a digit for each step:")
    one = next(iter(others))
    before = found.timelines[one].rename(compare(found, others).names)
    lines = {"truth": others[one], "no labels": before, "3 labels": taught.timelines[one]}
    for title, shown in lines.items():
        print(f"   {title:>10}  {sketch(shown, others[one].end)}")
    print(f"   {'':>10}  {', '.join(f'{n} {step}' for n, step in enumerate(STEPS, 1))}; · none")
    without, with_labels = (sc.evaluate(found, others), sc.evaluate(taught, others, "named"))
    print(
        f"   All {len(others)} compared with the truth: {without.score.f1:.0f} % without labels, "
        f"{with_labels.score.f1:.0f} % with three labelled videos.\n"
        f"   (F1, 100 % is perfect; the uniform baseline, which ignores the video, scores "
        f"{without.scores['uniform'][0].f1:.0f} %.)"
    )
    edits = Edits(place)
    rules = [str(rule) for rule in edits.proposed_rules() if rule.kind == "before"]
    for rule in rules:
        edits.set_rule(rule)
    print(f"   The person also confirms what all videos keep to: {'; '.join(rules) or 'nothing'}.")

    print("4. New videos from new kitchens. Does stepcut find the mistakes?")
    kitchens = [each.result() for each in new]
    videos = [made.videos[0] for made in kitchens]
    features, _ = extract(videos, cache=folder / "cache", progress=hook)
    checks = [taught.check(rows, rules=rules) for rows in features]
    for made, check in zip(kitchens, checks, strict=True):
        wrong = [flaw.reason for some in made.flaws.values() for flaw in some]
        reasons = [finding.reason for finding in check.findings]
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        result = f"alarm: {reasons[0]}{more}" if check.deviates else check.outcome
        print(f"   {' '.join(wrong) or 'no mistake':<38} → {result}")
    alarms = [video for video, check in zip(videos, checks, strict=True) if check.deviates]

    page = folder / "report.html"
    write_text(page, make_report(taught, truth, checks, title="Breakfast"))
    print(f"5. {page} shows all figures and pictures. Next:")
    for command in offers(place, [*alarms, kitchen.videos[0]][0]):
        print(f"   {command}")
    if args.open == "report":
        webbrowser.open(page.resolve().as_uri())
    elif args.open == "viewer":
        sc.view(place)
    else:
        print("   Add --open report or --open viewer to open one of them at the end.")
    return 0


def draw_flaws(seed: int) -> list[str]:
    random = np.random.default_rng(seed)

    def moves_another(step: str) -> bool:  # there must be one mistake in each video
        done = write_script(shuffle=0, flaw=f"repeat:{step}").timeline.sequence()
        return tuple(dict.fromkeys(done)) != STEPS

    again = [step for step in STEPS if not moves_another(step)]
    some = {"skip": STEPS, "swap": sorted({after for _, after in EDGES}), "repeat": again}
    return [f"{kind}:{random.choice(steps)}" for kind, steps in some.items()]


def sketch(timeline: Timeline, end: float) -> str:
    times = (np.arange(WIDTH) + 0.5) * end / WIDTH
    return "".join("·" if step < 0 else str(step + 1) for step in timeline.labels(times, STEPS))


def offers(procedure: Path, video: Path) -> list[str]:
    paths = (procedure, video, procedure.parent / "new.eaf")
    program, (kept, new, labels) = this_program(), (shlex.quote(str(path)) for path in paths)
    return [
        f"{program} view {kept}    # watch the videos, correct the steps",
        f"{program} check {kept} {new}",
        f"{program} segment {kept} {new} -o {labels}    # labels to correct in ELAN",
    ]
