"""Attacks through the command line, as a user or an attacker may try them: `make attack ROUNDS=n`.

Each attack yields one message per attempt: what went wrong, or nothing. The table is in
docs/reliability.md.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
from features_films import hostile_texts, make_film

import stepcut as sc
from stepcut.procedure.folder import OURS
from stepcut.toy import toy_features

PATIENCE = 120
"""Time limit of one command in seconds: imports, and about forty files."""
Outcome = Iterator[str]
QUICK = ("--set", "restarts=2")


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


def own_files(folder, random):
    """Files, folders, links and unusual permissions in a procedure's folder"""
    place = learned(folder)
    for number in range(4):
        (place / f"file{number}").write_bytes(random.randbytes(9))
        (place / f"file{number}").chmod(random.choice((0o600, 0o444, 0o000, 0o755)))
        (place / f"folder{number}" / "inside").mkdir(parents=True)
        (place / f"folder{number}").chmod(random.choice((0o700, 0o500, 0o000)))
        (place / f"link{number}").symlink_to(random.choice(("file0", "/nowhere", "link0", "..")))
    os.mkfifo(place / "pipe")
    place.chmod(0o700)

    def states():
        found = {path.name: path.lstat() for path in place.iterdir() if path.name not in OURS}
        return {name: (state.st_mode, state.st_ino) for name, state in found.items()} | {
            ".": (place.stat().st_mode, 0)
        }

    before = states()
    commands = (
        ("teach", place, "labels"),
        ("teach", place, "--back"),
        ("learn", "features", "-k", 3, "-o", place, *QUICK),
    )
    for words in commands:
        code, said = run(folder, *words)
        after = states()
        for name, state in before.items():
            yield "" if not code and after.get(name) == state else f"{words[0]}: {name}: {said}"


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


def journals(folder, random):
    """Journals of `watch` that are links, forged, damaged or open to others"""
    place, mine = learned(folder), folder / ".bashrc"
    arriving = folder / "arriving"
    arriving.mkdir()
    (arriving / "flawed.mp4").write_bytes(b"not a video")
    state = (arriving / "flawed.mp4").stat()
    stamp = [str(arriving / "flawed.mp4"), state.st_size, state.st_mtime_ns]
    forged = json.dumps({"stamp": stamp, "video": "flawed", "verdict": "fine"})
    for name in (".stepcut-watch.jsonl", "watch.jsonl", "config.json", "steps.json"):
        (arriving / name).write_text(forged + "\n")
    words = ("watch", arriving, "-p", place, "--once", "--settle", 0)
    code, said = run(folder, *words)
    yield "" if code == 2 and '"verdict": "error"' in said else f"forged: {code} {said}"
    code, said = run(folder, *words)
    yield "" if code == 2 else f"a second time: {code} {said}"
    for kind in ("link", "hard link", "folder", "pipe", "open to others", "dangling"):
        journal = arriving / "done.jsonl"
        mine.write_text("# mine\n")
        if kind == "link":
            journal.symlink_to(mine)
        elif kind == "hard link":
            os.link(mine, journal)
        elif kind == "folder":
            journal.mkdir()
        elif kind == "pipe":
            os.mkfifo(journal)
        elif kind == "dangling":
            journal.symlink_to(folder / "new")
        else:
            journal.write_text(forged + "\n")
            journal.chmod(0o666)
        code, said = run(folder, *words, "--journal", journal)
        kept = mine.read_text() == "# mine\n" and not (folder / "new").exists()
        yield "" if code == 5 and kept else f"{kind}: {code} {said}"
        journal.rmdir() if kind == "folder" else journal.unlink()
    for number in range(4):
        journal = folder / f"{number}.jsonl"
        journal.write_bytes(random.randbytes(400) + b'\n{"stamp": [1, 2, 3]}\n[]\n7\n"x"\n{"st')
        journal.chmod(0o600)
        code, said = run(folder, *words, "--journal", journal)
        yield "" if code == 2 and '"verdict": "error"' in said else f"damaged: {code} {said}"


def links(folder, random):
    """Links in a stranger's procedure, where stepcut writes"""
    place = learned(folder)
    for name in ("edits.json", "severity.json", "labels.json", "annotations.json"):
        for target in ("nowhere", "mine"):
            (folder / "mine").write_text("{}")
            (place / name).unlink(missing_ok=True)
            (place / name).symlink_to(folder / target)
            run(folder, "teach", place, "labels")
            run(folder, "teach", place, "--mistakes", random.choice("012345"))
            fine = (folder / "mine").read_text() == "{}" and not (folder / "nowhere").exists()
            yield "" if fine else f"{name} to {target}"
            (place / name).unlink(missing_ok=True)


def permissions(folder, random):
    """Permissions of folders and files that are written again"""
    place = learned(folder)
    for mode in (0o700, 0o750, 0o755):
        place.chmod(mode)
        file = random.choice((0o600, 0o640))
        (place / "timelines.json").chmod(file)
        (folder / "out.csv").touch()
        (folder / "out.csv").chmod(file)
        run(folder, "teach", place, "labels")
        run(folder, "segment", place, "features/0.npy", "-o", "out.csv")
        for path, kept in (
            (place, mode),
            (place / "timelines.json", file),
            (folder / "out.csv", file),
        ):
            seen = path.stat().st_mode & 0o777
            yield "" if seen == kept else f"{path.name}: {seen:o}, not {kept:o}"
    seen = (folder / "cache").stat().st_mode & 0o777 if (folder / "cache").exists() else 0o700
    yield "" if seen == 0o700 else f"cache: {seen:o}"


def recorded_again(folder, random):
    """A recording replaced by another of equal name and length, before `teach`"""
    place = learned(folder)
    for number in range(3):
        file = folder / "features" / f"{number}.npy"
        rows = np.load(file)
        state = file.stat()
        np.save(file, rows[random.sample(range(len(rows)), len(rows))])
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
        code, said = run(folder, "teach", place, "labels")
        told = code == 2 and f"{number}: the content has changed" in said
        yield "" if told else f"{number}: {code} {said[-300:]}"
        np.save(file, rows)


def renamed(folder, random):
    """A labelled recording that was renamed"""
    place = learned(folder)
    run(folder, "teach", place, "labels")
    number = random.randrange(6)
    (folder / "features" / f"{number}.npy").rename(folder / "features" / "other.npy")
    code, said = run(folder, "teach", place)
    yield "" if code == 2 and f"other has the content of {number}" in said else f"{code}: {said}"


def browsers(folder, _):
    """The command line of the browser that `view` opens"""
    place, shown = learned(folder), folder / "shown"
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {shown}.part; mv {shown}.part {shown}\n')
    browser.chmod(0o755)
    begun = start(folder, "view", place, BROWSER=str(browser))
    deadline = time.monotonic() + PATIENCE
    while not shown.exists() and time.monotonic() < deadline and begun.poll() is None:
        time.sleep(0.1)
    page = Path(unquote(urlsplit(shown.read_text().strip()).path)) if shown.exists() else Path("/")
    secret = page.is_file() and page.stat().st_mode & 0o077 == 0
    leads = page.is_file() and "http://127.0.0.1:" in page.read_text()
    begun.send_signal(signal.SIGINT)
    _, error = begun.communicate(timeout=20)
    yield "" if secret and leads and "http" not in page.name else f"{page}: {error}"
    yield "" if not page.exists() else "the file that leads to the page is left behind"


class _Elsewhere(BaseHTTPRequestHandler):
    """A web server that redirects every POST, and counts requests."""

    asked: ClassVar[list[str]] = []

    def do_POST(self):
        self.asked.append("POST")
        self.send_response(302)
        self.send_header("location", "/other")
        self.end_headers()

    def do_GET(self):
        self.asked.append("GET")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def webhooks(folder, _):
    """A webhook that redirects, and one where nobody answers; both with a secret in the address"""
    place, arriving = learned(folder), folder / "arriving"
    arriving.mkdir()
    (arriving / "x.mp4").write_bytes(b"not a video")
    _Elsewhere.asked.clear()
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for port, what in ((server.server_port, "redirect"), (9, "nobody")):
            words = ("watch", arriving, "-p", place, "--once", "--settle", 0)
            hook = f"http://127.0.0.1:{port}/hook?token=SECRET"
            code, said = run(folder, *words, "--webhook", hook, STEPCUT_STATE=str(folder / what))
            journal = "".join(file.read_text() for file in (folder / what).rglob("*.jsonl"))
            fine = code == 5 and "SECRET" not in said + journal and '"undelivered"' in journal
            yield "" if fine and "GET" not in _Elsewhere.asked else f"{what}: {code} {said}"
        server.shutdown()


def bodies(folder, _):
    """Requests to the viewer whose body never comes, or comes byte by byte"""
    running = sc.view(learned(folder), browser=False, block=False)
    parts = urlsplit(running.address)
    doors = []
    for number in range(100):
        door = socket.create_connection((parts.hostname or "", parts.port or 0))
        head = f"POST {parts.path}api/undo HTTP/1.1\r\nhost: {parts.netloc}\r\n"
        door.sendall(f"{head}content-type: application/json\r\ncontent-length: 60\r\n\r\n".encode())
        if number % 2:
            door.sendall(b"{")
        doors.append(door)
    for door in doors:
        door.settimeout(20)
        try:
            answer = door.recv(100)
        except TimeoutError:
            answer = b""
        yield "" if b" 408 " in answer or b" 403 " in answer else f"{answer!r}"
        door.close()
    running.close()


def holders(folder, _):
    """A folder that another program keeps locked"""
    import fcntl

    place = learned(folder)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    code, said = run(folder, "teach", place, "--mistakes", 0)
    os.close(handle)
    fine = code == 2 and "waiting for" in said and "has locked this folder" in said
    yield "" if fine else f"{code}: {said}"


ATTACKS: tuple[Callable[[Path, Random], Outcome], ...] = (
    own_files, not_videos, signals, kills, journals, links, permissions, recorded_again,
    renamed, browsers, webhooks, bodies, holders,
)  # fmt: skip


def main(rounds, names):
    """Run all attacks or those in `names`, `rounds` times; print a table, return 1 after a failure."""
    lines, failed = [], 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    for attack in ATTACKS:
        if names and attack.__name__ not in names:
            continue
        tried: list[str] = []
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
        wrong = [one for one in tried if one]
        for one in wrong:
            print(f"FAILED {attack.__name__}: {one}", file=sys.stderr, flush=True)
        lines.append(f"| {attack.__doc__} | {len(tried):,} | {len(wrong)} |")
        print(lines[-1], flush=True)
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:]))
