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
from collections.abc import Callable, Iterator
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
    """Start a stepcut command with a separate cache and state folder."""
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
    """A procedure from six small feature files, with labels."""
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


ATTACKS: tuple[Callable[[Path, Random], Outcome], ...] = (not_videos, signals, kills)

APP, FOLDER = "tests/show/test_app_attacks.py::", "tests/procedure/test_folder.py::"
WATCH, SERVER = "tests/cli/test_cli_watch.py::", "tests/show/test_show_server.py::"
BAD, HOSTILE = "tests/formats/test_formats_bad_files.py::", "tests/features/test_features_hostile"
FINDINGS = {
    "Files, folders and links of others in a procedure's folder": (
        f"{FOLDER}test_what_stepcut_did_not_write_stays",
        f"{FOLDER}test_a_link_in_a_procedure_writes_nothing_elsewhere",
        f"{FOLDER}test_what_is_not_a_plain_file_is_not_read",
    ),
    "Permissions of files that are written again, and folders that others lock": (
        f"{FOLDER}test_files_have_the_rights_that_the_user_gives_and_keep_them",
        f"{FOLDER}test_a_folder_that_somebody_else_locks_is_not_waited_for_without_end",
    ),
    "Journals of `watch` that are links, forged, damaged or open to others": (
        f"{WATCH}test_what_a_stranger_puts_into_the_folder_hides_no_video",
        f"{WATCH}test_a_journal_that_others_can_write_is_refused",
        f"{WATCH}test_a_journal_that_cannot_be_written_is_reported_before_the_first_video",
    ),
    "Webhooks that redirect, answer nonsense, or byte by byte": (
        f"{WATCH}test_a_webhook_gets_the_record_or_its_trouble_is_told",
        f"{WATCH}test_an_answer_that_makes_no_sense_is_told",
        f"{WATCH}test_a_webhook_that_answers_byte_by_byte_is_given_up",
    ),
    "Recordings that were replaced or renamed": ("tests/procedure/test_content.py",),
    "Requests that never end, or are large": (
        f"{SERVER}test_a_connection_that_asks_for_nothing_is_let_go",
        f"{SERVER}test_a_body_that_never_comes_is_not_waited_for",
        f"{SERVER}test_a_large_body_is_refused_however_it_comes",
    ),
    "Python files of the current folder, for jobs and workers": (
        "tests/parallel/test_parallel_isolated.py",
    ),
    "Settings in a stranger's procedure that name code or paths": (
        "tests/cli/test_cli_learn.py::test_like_runs_no_code_of_a_procedure",
        "tests/cli/test_cli_learn.py::test_like_takes_over_no_paths",
        f"{FOLDER}test_a_procedure_of_a_stranger_runs_no_code",
    ),
    "Links out of the folder of the app, there or put there later": (
        f"{APP}test_links_that_leave_the_folder_are_refused_with_a_sentence",
        f"{APP}test_a_link_that_comes_after_the_request_is_not_followed",
        f"{APP}test_an_exported_file_that_became_a_link_is_not_sent",
        "tests/show/test_app.py::test_links_that_lead_outside_are_neither_listed_nor_used",
    ),
    "A hundred short videos": (
        "tests/methods/stepcut/test_discovery.py"
        "::test_the_width_of_many_short_videos_without_noise_is_found_despite_rounding",
    ),
    "Sensor tables with bursts of times, or a second column of times": (
        "tests/features/test_features_sensors.py::test_bursts_of_times_keep_the_length_of_the_recording",
        "tests/features/test_features_sensors.py"
        "::test_times_too_dense_for_any_sensor_are_refused_and_the_others_are_read",
        "tests/features/test_features_sensors.py::test_a_second_column_of_times_is_not_a_sensor",
    ),
    "Damaged procedures and dangling links where the app watches": (
        f"{APP}test_one_damaged_procedure_or_link_does_not_end_watching",
    ),
    "A procedure learned again elsewhere while the app shows it": (
        f"{APP}test_a_procedure_learned_again_elsewhere_is_noticed",
        f"{APP}test_an_export_of_an_earlier_revision_is_refused",
    ),
    "SIGKILL during uploads and exports": (
        f"{APP}test_a_start_removes_what_a_killed_server_left",
        "tests/show/test_app.py::test_an_interrupted_upload_leaves_nothing",
    ),
    "Names that are not UTF-8, long lists of videos, errors that are not JSON": (
        f"{APP}test_names_that_are_not_utf8_are_listed_and_used",
        f"{APP}test_requests_may_name_sixteen_hundred_videos",
        f"{APP}test_every_error_is_json",
    ),
    "Jobs that are old, doubled, or resumed at once": (
        f"{APP}test_an_old_job_never_replaces_a_newer_procedure",
        f"{APP}test_a_second_request_of_a_name_is_refused_while_the_first_runs",
        f"{APP}test_a_job_resumed_at_once_after_its_cancel_goes_on",
    ),
    "Hostile values in requests and in saved procedures": (
        f"{APP}test_hostile_values_are_refused_with_a_sentence",
        f"{SERVER}test_hostile_json_is_answered_with_a_sentence",
        f"{FOLDER}test_a_hostile_folder_is_refused_or_right",
        f"{FOLDER}test_settings_that_make_no_sense_are_damage",
        f"{FOLDER}test_events_that_make_no_sense_are_told_in_words",
    ),
    "Labels in minutes, or at twice the rate": (
        "tests/procedure/test_lengths.py::test_labels_far_shorter_than_their_videos_are_reported",
    ),
    "Small files that claim much": (
        f"{HOSTILE}.py::test_an_index_that_claims_days_is_not_believed",
        f"{HOSTILE}_files.py::test_a_bomb_is_refused_by_its_declared_size",
    ),
    "Formulas in tables": (
        "tests/formats/test_convert.py::test_a_table_for_spreadsheets_holds_no_formula",
        "tests/test_tables.py::test_csv_holds_no_formula",
        "tests/test_tables_files.py::test_excel_gets_numbers_and_no_formula",
    ),
    "Pages and scripts with the name of a video": (
        f"{SERVER}test_no_file_that_is_no_video_is_served",
    ),
    "Edits while a procedure is taught": (
        "tests/procedure/test_store.py::test_edits_made_while_teaching_are_applied_on_top",
    ),
    "Videos called #1, names that a table or a disk would merge, labels at dates": (
        "tests/formats/test_convert.py::test_a_name_comes_back_from_a_table_for_spreadsheets",
        f"{BAD}test_videos_that_a_table_would_merge_are_refused",
        f"{BAD}test_files_that_some_disk_would_overwrite_are_refused",
        f"{BAD}test_dates_and_halves_of_letters_are_no_labels",
    ),
}
"""What was found, and the tests that try it again."""


def try_again(tests, folder):
    """Run tests; yield what went wrong in each case, or nothing."""
    record = folder / "tests.xml"
    words = ["-q", "-p", "no:cacheprovider", f"--junitxml={record}", *tests]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True
    )
    cases = list(etree.parse(record).iter("testcase")) if record.exists() else []
    for case in cases:
        wrong = [each.get("message", "") for each in case if each.tag in ("failure", "error")]
        yield f"{case.get('name')}: {wrong[0][:200]}" if wrong else ""
    if not cases:
        yield f"no test ran: {run.stdout[-300:]}{run.stderr[-300:]}"


def main(rounds, names):
    """Run all attacks or those in `names`, `rounds` times; print a table, return 1 after a failure."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    chosen = [attack for attack in ATTACKS if not names or attack.__name__ in names]
    results = {attack.__doc__: attempts(attack, rounds) for attack in chosen}
    if not names or "findings" in names:
        for what, tests in FINDINGS.items():
            results[what] = attempts(lambda folder, _, tests=tests: try_again(tests, folder), 1)
    print("| attack | tried | failed |\n|---|--:|--:|")
    for what, tried in results.items():
        print(f"| {what} | {len(tried):,} | {sum(map(bool, tried))} |")
    return 1 if any(map(any, results.values())) else 0


def attempts(attack, rounds):
    """The messages of all attempts of an attack; failures are also shown at once."""
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
    for message in filter(None, tried):
        print(f"FAILED {attack.__name__}: {message}", file=sys.stderr, flush=True)
    return tried


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:]))
