"""Attacks as a user or an attacker may try them: `make attack ROUNDS=n`.

Each attack through the command line yields one message per attempt: what went wrong, or nothing.
`FINDINGS` are what such attacks once found, each with the tests that try it again.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as etree
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
from features_films import hostile_texts, make_film

import stepcut as sc
from stepcut.toy import toy_features

PATIENCE = 120
"""Time limit of one command in seconds: imports, and about forty files."""
Outcome = Iterator[str]
QUICK = ("--set", "restarts=2")
ROOT = Path(__file__).parents[2]


def start(folder, *words, **settings):
    own = {"STEPCUT_CACHE": str(folder / "cache"), "STEPCUT_STATE": str(folder / "state")}
    return subprocess.Popen(
        [sys.executable, "-m", "stepcut", *map(str, words)],
        cwd=folder,
        env={**os.environ, **own, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder, *words, **settings):
    """Run a command to its end; return its exit code and output. The code is 124 after a timeout."""
    begun = start(folder, *words, **settings)
    try:
        out, error = begun.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        begun.kill()
        return 124, "hangs"
    return begun.returncode, out + error


def learned(folder, steps=4):
    rows, truth = toy_features(videos=6, seed=1, dim=8)
    (folder / "features").mkdir(exist_ok=True)
    for number, one in enumerate(rows):
        np.save(folder / "features" / f"{number}.npy", one)
        sc.write(folder / "labels" / f"{number}.csv", truth[number])
    sc.learn(folder / "features", steps=steps, output=folder / "a.proc", restarts=2)
    return folder / "a.proc"


def not_videos(folder, random):
    """Playlists, ffconcat nests, holes, pipes, devices and links named like videos, for `learn` and `watch`"""
    mixed = folder / "mixed"
    films = [make_film(mixed.parent / f"{n}.mp4", frames=80 + 10 * n) for n in range(3)]
    names = hostile_texts(mixed)
    (mixed / "level24.mkv").unlink()
    whole = films[0].read_bytes()
    for name, begin in (("a.h264", b""), ("b.mp4", whole), ("c.y4m", b"YUV4MPEG2 W64 H48 F20:1\n")):
        (mixed / name).write_bytes(begin)
        os.truncate(mixed / name, 1 << random.randrange(34, 42))
        names.append(name)
    os.mkfifo(mixed / "pipe.mp4")
    targets = {"zero": "/dev/zero", "full": "/dev/full", "loop": "loop.mp4", "none": "/nowhere"}
    for name, target in targets.items():
        (mixed / f"{name}.mp4").symlink_to(target)
    names += ["pipe.mp4", *(f"{name}.mp4" for name in targets)]
    names.remove("list.m3u8")  # not a video suffix, so it is ignored
    for film in films:
        film.rename(mixed / film.name)
    code, said = run(folder, "learn", "mixed", "-k", 2, "-o", "m.proc", *QUICK)
    for name in names:
        told = code == 2 and f"mixed/{name}: " in said
        yield "" if told else f"learn, {name}: {code}"
    code, said = run(folder, "watch", "mixed", "-p", "m.proc", "--once", "--settle", 0)
    told_of = {Path(one["path"]).name for one in map(json.loads, _records(said))}
    for name in [name for name in names if (mixed / name).is_file()]:
        yield "" if code == 2 and name in told_of else f"watch, {name}: {code}"


def _records(said):
    return [line for line in said.splitlines() if line.startswith("{")]


def signals(folder, random):
    """Ctrl-C and SIGTERM at a random moment of `learn`"""
    learned(folder)
    for _ in range(10):
        words = ("learn", "features", "-k", 3, "-o", "s.proc", "--set", "restarts=2000")
        begun, sent = start(folder, *words), random.choice((signal.SIGINT, signal.SIGTERM))
        time.sleep(random.uniform(0.5, 4))
        begun.send_signal(sent)
        try:
            _, error = begun.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            begun.kill()
            yield f"{sent.name}: still running after 10 s"
            continue
        left = list(folder.glob("**/*.part"))
        fine = begun.returncode in (-sent, 128 + sent) and "Traceback" not in error and not left
        yield "" if fine else f"{sent.name}: {begun.returncode}, {left}, {error[-300:]}"


def kills(folder, random):
    """SIGKILL at a random moment of `teach`, then the same command again"""
    place = learned(folder)
    for _ in range(10):
        begun = start(folder, "teach", place, "labels")
        time.sleep(random.uniform(1, 5))
        begun.kill()
        begun.communicate()
        try:
            steps = len(sc.load(place).steps)
        except Exception as error:
            yield f"{error}"
            continue
        code, said = run(folder, "teach", place, "labels")
        yield "" if steps and not code else f"{code}: {said[-300:]}"
    left = [path for path in folder.iterdir() if path.suffix == ".old"]
    yield f"left behind: {left}" if left else ""


ATTACKS = (not_videos, signals, kills)

FINDINGS = {
    "Files, folders and links of others in a procedure's folder":
        "procedure what_stepcut_did_not_write link_in_a_procedure not_a_plain_file",
    "Permissions of files that are written again, and folders that others lock":
        "procedure files_have_the_rights somebody_else_locks",
    "Journals of `watch` that are links, forged, damaged or open to others":
        "cli what_a_stranger_puts journal_that_others_can_write refused_before_the_first_video",
    "Webhooks that redirect, answer nonsense, or byte by byte":
        "cli deliveries_are_tried_again answer_that_makes_no_sense",
    "Recordings that were replaced or renamed": "procedure changed_features renamed_video recorded_again",
    "Requests that never end, or are large":
        "show connection_that_asks_for_nothing body_that_never_comes large_body",
    "Python files of the current folder, for jobs and workers":
        "parallel files_of_the_current_folder",
    "Settings in a stranger's procedure that name code or paths":
        "cli like_runs_no_code like_takes_over_no_paths",
    "Code that a stranger's procedure names": "procedure procedure_of_a_stranger",
    "Links out of the folder of the app, there or put there later":
        "show links_that_leave link_that_comes_after became_a_link picker_never_leaves",
    "A hundred short videos": "methods many_short_videos",
    "Sensor tables with bursts of times": "features bursts_of_times times_too_dense",
    "Damaged procedures and dangling links where the app watches":
        "show does_not_end_watching",
    "A procedure learned again elsewhere while the app shows it":
        "show learned_again_elsewhere earlier_revision",
    "SIGKILL during uploads and exports": "show killed_server_left interrupted_upload",
    "Names that are not UTF-8, long lists of videos, errors that are not JSON":
        "show not_utf8 sixteen_hundred error_is_json",
    "Jobs that are old, doubled, or resumed at once":
        "show old_job_never second_request_of_a_name resumed_at_once",
    "Hostile values in requests": "show hostile_values",
    "Hostile values in saved procedures":
        "procedure hostile_folder settings_that_make_no_sense events_that_make_no_sense",
    "Labels in minutes, or at twice the rate": "procedure labels_far_shorter",
    "Small files that claim much": "features index_that_claims_days claims_gigabytes",
    "Formulas in tables": "formats table_for_spreadsheets",
    "Pages and scripts with the name of a video": "show no_file_that_is_no_video",
    "Edits while a procedure is taught": "procedure edits_made_while_teaching",
    "Videos called #1, names that a table or a disk would merge, labels at dates":
        "formats name_comes_back what_is_not_written disk_would_overwrite what_is_not_read",
    "A clock that jumps, for jobs": "show clock_that_jumps",
    "A clock that jumps, for the history; crashes at any call of an undo":
        "procedure any_point_can_be_reached crash_at_any_point",
    "A clock that jumps, for `watch`": "cli clock_that_is_ahead",
    "A disk without capitals and links": "procedure disk_without_capitals",
    "Servers of weights that redirect, lie or do not end": "features hostile_server",
    "Programs with several threads, which would learn other bits": "procedure whatever_threads",
    "Videos of 20,000 rows": "methods any_length",
}  # fmt: skip
"""What was found, with the folder of the tests that try it again, and parts of their names."""


def try_again(folder):
    record, rows = folder / "tests.xml", {what: row.split() for what, row in FINDINGS.items()}
    chosen = " or ".join(sorted({part for _, *parts in rows.values() for part in parts}))
    places = sorted({f"tests/{place}" for place, *_ in rows.values()})
    words = ["-q", "-p", "no:cacheprovider", f"--junitxml={record}", "-k", chosen, *places]
    words += ["-m", "not ray and not browser and not data"]
    run = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True)
    tried, seen = {what: [] for what in rows}, set()
    for case in etree.parse(record).iter("testcase") if record.exists() else ():
        where, name = case.get("classname").replace(".", "/"), case.get("name")
        wrong = [each.get("message", "") for each in case if each.tag in ("failure", "error")]
        for what, (place, *parts) in rows.items():
            mine = where.startswith(f"tests/{place}/")
            if mine and any(part in name for part in parts):
                seen.add(what)  # this machine may not allow it
                if case.find("skipped") is None:
                    tried[what].append(f"{name}: {wrong[0][:200]}" if wrong else "")
    lost = f"no test ran: {run.stdout[-300:]!r}"
    return {what: cases if what in seen else [lost] for what, cases in tried.items()}


def main(rounds, names):
    """Run all attacks or those in `names`, `rounds` times; print a table, return 1 after a failure."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    chosen = [attack for attack in ATTACKS if not names or attack.__name__ in names]
    results = {attack.__doc__: attempts(attack, rounds) for attack in chosen}
    if not names or "findings" in names:
        with tempfile.TemporaryDirectory() as folder:
            results |= try_again(Path(folder))
    for what, tried in results.items():
        for message in filter(None, tried):
            print(f"FAILED {what}: {message}", file=sys.stderr, flush=True)
    print("| attack | tried | failed |\n|---|--:|--:|")
    for what, tried in results.items():
        print(f"| {what} | {len(tried):,} | {sum(map(bool, tried))} |")
    return 1 if any(map(any, results.values())) else 0


def attempts(attack, rounds):
    tried = []
    for seed in range(rounds):
        folder = Path(tempfile.mkdtemp())
        try:
            tried += attack(folder, Random(seed))
        except Exception as error:
            tried.append(f"{type(error).__name__}: {error}")
        finally:
            for path in folder.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o700)
            shutil.rmtree(folder, ignore_errors=True)
    return tried


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:]))
