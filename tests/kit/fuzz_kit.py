"""Mutated files for every reader: `make fuzz SECONDS=n`; seeded and bounded in the test suite.

A reader must return a correct result or raise a StepcutError, within a minute.
"""

import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

import numpy as np

from stepcut.errors import StepcutError
from stepcut.formats import FORMATS, read_folder, write
from stepcut.timeline import Segment, Timeline

PATIENCE = 60  # seconds for one file
LARGEST = 10_000_000  # bytes of a file that is kept after a failure
EXTREMES = [b"", b"9" * 400, *b"-1 0 1e308 -1e308 NaN Infinity 2147483648 null \x00".split()]
SCRAPS = [b"\xed\xa0\x80", b"[" * 2000, b"{" * 2000, b"\n", b"\t"]
SCRAPS += b'\x00 \xff\xfe \xc3 " < &x; ,'.split()
PARTS = [(0, 2.5, "pour tea", 0.5), (2, 4, "stir"), (4, 4, "tap"), (5, 8, "1 pour tea")]
TIMELINE = Timeline([Segment(*part) for part in PARTS], 9.0, ["wash"], video="tea.mp4")


def mutate(data, random):
    for _ in range(random.randint(1, 4)):
        here, there = sorted(random.randrange(len(data) + 1) for _ in range(2))
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data[:100_000]))
        kind = random.randrange(7)
        if kind == 0 and data:
            place = random.randrange(len(data))
            data = (
                data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
            )
        elif kind == 1:
            data = data[:here] + data[there:]
        elif kind == 2:
            data = data[:there] + data[here : min(there, here + 10_000)] + data[there:]
        elif kind == 3:
            data = data[:here]
        elif kind == 4 and numbers:
            number = random.choice(numbers)
            data = data[: number.start()] + random.choice(EXTREMES) + data[number.end() :]
        else:
            data = data[:here] + random.choice(SCRAPS) + data[here:]
    return data


class Target:
    def __init__(self, original, read, part=""):
        self.original, self.read, self.part = original, read, part

    def attempt(self, seed, folder):
        place = folder / self.original.name
        if self.original.is_dir():
            shutil.copytree(self.original, place, dirs_exist_ok=True)
        victim = place / self.part if self.part else place
        source = self.original / self.part if self.part else self.original
        self.spoil(victim, source.read_bytes(), Random(seed))
        signal.alarm(PATIENCE)
        try:
            self.read(place)
        except StepcutError as error:
            return "" if str(error).strip() else "an error without a message"
        except BaseException:
            return traceback.format_exc(limit=-3)
        finally:
            signal.alarm(0)
        return ""

    def spoil(self, victim, data, random):
        victim.write_bytes(mutate(data, random))


class Stranger(Target):
    """A target that becomes a link, a pipe, a folder, a sparse file, or has unusual permissions."""

    def spoil(self, victim, data, random):
        victim.unlink(missing_ok=True)
        outside = outside_of(victim)
        outside.write_bytes(OUTSIDE)
        kind = random.randrange(5)
        if kind == 0:
            targets = (outside, "/dev/zero", "/dev/full", victim.name, "/nowhere", "..", "missing")
            victim.symlink_to(random.choice(targets))
        elif kind == 1:
            os.mkfifo(victim)
        elif kind == 2:
            victim.mkdir(random.choice((0o700, 0o000)))
        elif kind == 3:
            victim.write_bytes(data)
            os.truncate(victim, 1 << random.randrange(33, 42))
        else:
            victim.write_bytes(data)
            victim.chmod(random.randrange(0o1000))


OUTSIDE = b"somebody else's"


def outside_of(path):
    procedures = (up for up in (path, *path.parents) if up.suffix == ".proc")
    return next(procedures, path.parent).with_name("outside")


def label_targets(folder):
    found = {}
    for name, form in FORMATS.items():
        if form.read is not None:
            place = folder / name / f"x{form.suffix}"
            plain = Timeline([Segment(0, 1, "pour"), Segment(1, 2, "stir")])
            write(place, plain if name == "egoprocel" else TIMELINE, name, rate=5)
            found[f"labels:{name}"] = Target(
                place, lambda path, name=name: read_folder(path, name, rate=5)
            )
            found[f"labels:{name}, found out"] = Target(place, lambda p: read_folder(p, rate=5))
    return found


def other_targets(folder):
    from features_films import hostile_texts, make_film
    from safetensors.numpy import save_file

    from stepcut.app.watching import Journal
    from stepcut.features.features import load_features
    from stepcut.features.video.container import probe
    from stepcut.features.video.sample import sample_frames
    from stepcut.procedure.edits import Edits
    from stepcut.procedure.learning import learn, load

    def correct(place):
        outside = outside_of(place)
        try:
            Edits(place).do({"do": "rename", "step": 0, "name": "pour"})
            str(load(place))
        finally:
            assert outside.read_bytes() == OUTSIDE, "a file elsewhere was changed"

    def find_done(place):
        with Journal(place) as journal:
            assert not any(len(stamp) not in (3, 4) for stamp in journal.done)
            journal.write({"stamp": ["new.mp4", 1, 2], "verdict": "fine"})
        with Journal(place) as journal:
            assert journal.done["new.mp4", 1, 2] == "fine"

    rows = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", rows)
    np.savez(folder / "x.npz", rows)
    save_file({"features": rows}, folder / "x.safetensors", {"rate": "2"})
    files = [folder / f"x.{suffix}" for suffix in ("npy", "npz", "safetensors")]
    found = {f"features:{f.suffix[1:]}": Target(f, lambda p: load_features([p], 2)) for f in files}
    codecs = {"avi": "mpeg4", "webm": "libvpx", "mkv": "libx264", "mp4": "libx264"}
    for name, codec in codecs.items():
        film = make_film(folder / f"x.{name}", frames=30, codec=codec)
        found[f"video:{name}"] = Target(film, lambda path: list(sample_frames(path, 4, (32, 32))))
    for name in hostile_texts(folder / "texts"):
        found[f"playlist:{name}"] = Target(
            folder / "texts", lambda path, name=name: probe(path / name), name
        )
    lines = "".join(f'{{"stamp": ["{n}.mp4", {n}, {n}], "verdict": "fine"}}\n' for n in range(9))
    (folder / "journal.jsonl").write_text(lines)
    found["journal"] = Target(folder / "journal.jsonl", find_done)
    proc = folder / "x.proc"
    learn([np.random.default_rng(n).normal(size=(30, 6)) for n in range(3)], steps=2, output=proc)
    for file in sorted(each for each in proc.rglob("*") if each.is_file()):
        part = str(file.relative_to(proc))
        found[f"procedure:{part}"] = Target(proc, lambda path: str(load(path)), part)
        found[f"links:{part}"] = Stranger(proc, correct, part)
    for name in ("edits.json", "severity.json"):
        (folder / name / "x.proc").mkdir(parents=True)
        spare = shutil.copytree(proc, folder / name / "x.proc", dirs_exist_ok=True)
        (spare / name).write_text("{}")
        found[f"links:{name}"] = Stranger(spare, correct, name)
    video = folder / "one" / "x.mp4"
    video.parent.mkdir()
    shutil.copy(film, video)
    found["links:video"] = Stranger(video.parent, lambda path: probe(path / "x.mp4"), "x.mp4")
    journals = folder / "journals"
    journals.mkdir()
    shutil.copy(folder / "journal.jsonl", journals)
    found["links:journal"] = Stranger(
        journals, lambda path: find_done(path / "journal.jsonl"), "journal.jsonl"
    )
    return found


def main(seconds, seed=None):
    """Mutate for so many seconds; 1 after a failure, with the files in fuzz-failures/."""
    signal.signal(signal.SIGALRM, _too_long)
    kept, failures, seed = Path("fuzz-failures"), 0, int(time.time()) if seed is None else seed
    with tempfile.TemporaryDirectory() as place:
        targets = {**label_targets(Path(place) / "labels"), **other_targets(Path(place) / "others")}
        counts, end = dict.fromkeys(targets, 0), time.monotonic() + seconds
        while time.monotonic() < end:
            for name, target in targets.items():
                seed += 1
                with tempfile.TemporaryDirectory() as folder:
                    wrong = target.attempt(seed, Path(folder))
                    if wrong:
                        failures += 1
                        keep(Path(folder), kept / f"{seed}")
                        print(
                            f"FAILED {name}, seed {seed}, kept in {kept / str(seed)}\n{wrong}",
                            flush=True,
                        )
                counts[name] += 1
                if time.monotonic() > end:
                    break
    print(
        f"{sum(counts.values())} files for {len(targets)} readers in {seconds:g} s: {failures} failed"
    )
    return 1 if failures else 0


def keep(folder, target):
    """Copy a failing case: links as links; of pipes, devices and large files only the description."""

    def copy(source, copied):
        state = os.lstat(source)
        if stat.S_ISREG(state.st_mode) and state.st_size <= LARGEST:
            shutil.copy2(source, copied, follow_symlinks=False)
        else:
            kind = stat.filemode(state.st_mode)
            Path(f"{copied}.txt").write_text(f"{kind}, {state.st_size:,} bytes, not copied\n")

    try:
        shutil.copytree(folder, target, symlinks=True, copy_function=copy, dirs_exist_ok=True)
    except shutil.Error as error:  # a folder that may not be listed
        print(f"not all of {target} could be kept: {error}", flush=True)


def _too_long(*_):
    raise TimeoutError(f"not done after {PATIENCE} s")


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
