"""Videos, features and procedures on shared storage: memory, local files, and an S3 server (marked ray)."""

import json
import os
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from parallel_kit import Logged, seen
from store_kit import change_config

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import FeatureError, OptionError, ProcedureError, VideoError
from stepcut.features.extract import export, extract, load_features
from stepcut.features.features import Features, save_rows
from stepcut.features.find import find_videos
from stepcut.files import (
    Address,
    as_path,
    copies,
    files_below,
    local,
    put,
    read_json,
    whole_file,
    write_json,
)
from stepcut.toy import toy_features

QUICK = {"steps": 3, "restarts": 2}


@pytest.fixture
def memory():
    import fsspec

    yield Address("memory://shop")
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(scope="module")
def s3():
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ACCESS_KEY_ID", "testing")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="shop")
    s3fs.S3FileSystem.clear_instance_cache()
    yield Address("s3://shop")
    s3fs.S3FileSystem.clear_instance_cache()
    patch.undo()
    server.stop()


def put_films(films, address):
    for film in ("v0.mp4", "v1.mp4"):
        put(films / film, address / "films" / film)


def features_and_procedure(films, address, folder):
    put_films(films, address)
    put(films / "v0.mp4", address / "films" / "notes.txt")
    log = folder / "log"
    videos, there = [films / "v0.mp4", films / "v1.mp4"], str(address / "cache")
    plain, _ = extract(videos, Logged(folder / "plain"), fps=5, cache=folder / "cache")
    found, failures = extract(str(address / "films"), Logged(log), fps=5, cache=there)
    expected = [(name, str(address / "films" / f"{name}.mp4")) for name in ("v0", "v1")]
    assert (failures, [(f.name, f.path) for f in found]) == ([], expected)
    kept = {file.name for file in files_below(address / "cache" / "features")}
    # Named by content, not by place.
    assert kept == {file.name for file in (folder / "cache" / "features").iterdir()}
    before = seen(log)
    shutil.rmtree(copies())  # another machine
    again, _ = extract(str(address / "films" / "*.mp4"), Logged(log), fps=5, cache=there)
    assert seen(log) == before
    for a, b, c in zip(plain, found, again, strict=True):
        assert np.array_equal(a.rows, b.rows)
        assert np.array_equal(a.rows, c.rows)

    saved = str(address / "a.proc")
    for place in (address / "features", folder / "features"):
        random = np.random.default_rng(0)
        for number in range(2):
            rows = np.repeat(np.eye(3, 8), 10, axis=0) + 0.1 * random.normal(size=(30, 8))
            export(Features(rows.astype(np.float16), Fraction(1), 30.0, f"v{number}"), place)
    procedure = sc.learn(str(address / "features"), output=saved, **QUICK)
    assert sc.load(saved) == procedure == sc.learn(folder / "features", **QUICK)
    assert sc.load(saved).segment(str(address / "features" / "v0.safetensors")).segments
    procedure.rename({0: "pour"}).save(saved)
    assert sc.load(saved).steps[0] == "pour"


def test_in_memory(films, memory, tmp_path):
    features_and_procedure(films, memory, tmp_path)


@pytest.mark.ray
def test_on_s3(films, s3, tmp_path):
    features_and_procedure(films, s3, tmp_path)


@pytest.mark.ray
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_on_s3_by_workers_of_ray(films, s3, tmp_path):
    for film in ("v0.mp4", "v1.mp4"):
        put(films / film, s3 / "tasks" / "walk" / film)
    quiet = ["--device", "cpu", "--quiet"]
    words = [*quiet, "--engine", "ray", "--workers", "2", "--cache", str(s3 / "kept")]
    assert main(["features", str(s3 / "tasks" / "walk"), "-o", str(s3 / "out"), *words]) == 0
    assert main(["features", str(films / "v0.mp4"), "-o", str(tmp_path), *quiet]) == 0
    (plain,) = load_features(tmp_path)
    found = {one.name: one for one in load_features(str(s3 / "out"))}
    assert found.keys() == {"v0", "v1"}
    assert np.array_equal(plain.rows, found["v0"].rows)
    quick = ["-o", str(s3 / "walk.proc"), "-k", "2", "--set", "restarts=2"]
    assert main(["learn", str(s3 / "tasks" / "walk"), *quick, *words]) == 0
    assert len(sc.load(str(s3 / "walk.proc")).timelines) == 2


def test_file_addresses_are_paths(films, tmp_path):
    out = tmp_path / "out"
    words = ["features", f"file://{films}/v0.mp4", "-o", f"file://{out}", "--cache"]
    words += [f"file://{tmp_path}/cache"]
    assert main([*words, "--device", "cpu", "--quiet"]) == 0
    assert [f.name for f in load_features(out)] == ["v0"]
    assert as_path("file:///a/b") == Path("/a/b")
    assert as_path("file:///a/my%20b") == as_path("file://localhost/a/my%20b") == Path("/a/my b")
    assert as_path("/a/b://c") == Path("/a/b://c")
    assert as_path(Path("x")) == Path("x")
    assert local(films / "v0.mp4") == films / "v0.mp4"


def test_an_address_in_a_file_is_not_asked(memory, tmp_path, monkeypatch):
    rows = np.repeat(np.eye(3, 8, dtype=np.float16), 10, axis=0)
    for name in ("v0", "v1"):
        export(Features(rows, Fraction(1), 30.0, name, f"ftp://a/{name}.mp4"), memory / "features")
    sc.learn(str(memory / "features"), output=tmp_path / "a.proc", **QUICK)
    with pytest.raises(OptionError, match="--trust"):
        sc.load(tmp_path / "a.proc").suggest()
    assert len(sc.load(tmp_path / "a.proc", trust=True).suggest(1)) == 1
    assert len(sc.load(tmp_path / "a.proc").suggest_why(1, str(memory / "features"))) == 1

    def ask(_):
        raise EOFError

    monkeypatch.setattr(Address, "fs", property(ask))
    for said in ({"name": "resnet50", "weights": "ftp://a/w.pth"}, {"name": "ftp://a/net.onnx"}):
        save_rows(tmp_path / "v.safetensors", rows, {"rate": "1", "spec": json.dumps(said)})
        with pytest.raises(FeatureError, match="is an address"):
            load_features(tmp_path / "v.safetensors")
        change_config(tmp_path / "a.proc", backbone=said)
        with pytest.raises(ProcedureError, match="is an address"):
            sc.load(tmp_path / "a.proc")
    films = {name: f"ftp://a/{name}.mp4" for name in ("v", "w")}
    for name, film in films.items():
        save_rows(tmp_path / f"{name}.safetensors", rows, {"rate": "1", "path": film})
    assert sc.learn(tmp_path.glob("*.safetensors"), **QUICK).videos == films
    with pytest.raises(OptionError, match="ftp://a"):
        as_path("ftp://a/films")


def test_a_file_appears_whole_or_not_at_all(memory):
    target = memory / "deep" / "a.json"
    for there in (False, True):
        with pytest.raises(RuntimeError), whole_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError
        assert target.exists() == there
        write_json(target, {"ä": 1})
        assert read_json(target) == {"ä": 1}


def test_a_store_without_whole_puts_gets_a_temporary_name(memory, monkeypatch):
    import fsspec

    monkeypatch.setattr("stepcut.files._PUT_IS_WHOLE", frozenset())
    names = []
    kind = type(fsspec.filesystem("memory"))
    put = kind.put_file

    def watch(self, source, target, *args, **more):
        names.append(target)
        return put(self, source, target, *args, **more)

    monkeypatch.setattr(kind, "put_file", watch)
    write_json(memory / "a.json", [1])
    assert names[0].endswith(".part")
    assert read_json(memory / "a.json") == [1]
    assert [file.name for file in files_below(memory)] == ["a.json"]


def test_half_a_procedure_is_none_and_a_lost_connection_is_told(memory, tmp_path, monkeypatch):
    (tmp_path / "steps.json").write_text("[]")
    put(tmp_path / "steps.json", memory / "a.proc" / "steps.json")  # an interrupted save
    with raises(ProcedureError, "not a procedure"):
        sc.load("memory://shop/a.proc")
    with pytest.raises(ProcedureError, match="does not exist"):
        sc.load("memory://shop/b.proc")
    export(Features(np.eye(3, 8, dtype=np.float16), Fraction(1), 3.0, "v"), memory)

    def broken(_):
        raise EOFError

    monkeypatch.setattr("stepcut.features.features.local", broken)
    with pytest.raises(FeatureError, match=r"v\.safetensors"):
        load_features(str(memory / "v.safetensors"))


def test_a_procedure_at_an_address_is_taught_there_and_corrected_here(memory, tmp_path, run):
    for number, rows in enumerate(toy_features(videos=3, seed=1, dim=8)[0]):
        np.save(tmp_path / f"{number}.npy", rows)
    there = f"{memory}/taught.proc"
    quick = ["-k", "3", "--set", "restarts=2", "--quiet"]
    assert "stepcut view" not in run("learn", tmp_path, "-o", there, *quick).out
    run("convert", there, tmp_path / "labels.csv", "--quiet")
    run("check", there, tmp_path / "0.npy", "--quiet", code=(0, 1))
    run("evaluate", there, "--truth", tmp_path / "labels.csv")
    said = run("teach", there, tmp_path / "labels.csv", "--quiet").out
    assert not {"--back", "view"} & set(said.split())
    assert set(sc.load(there).annotations.annotated) == {"0", "1", "2"}
    for words in (["view", there, "--no-browser"], ["teach", there, "--back"]):
        assert f"{there}: viewing and correcting need a local folder" in run(*words, code=2).err
    (memory / "taught.proc" / "CURRENT").write_text("[")
    with raises(ProcedureError, str(there), "damaged"):
        sc.load(there)


def test_names_with_brackets_and_changed_files(memory, films, tmp_path):
    put(films / "v0.mp4", memory / "films" / "take [2].mp4")
    put(films / "v0.mp4", memory / "films" / "take 2.mp4")
    for asked, found in {"take [2].mp4": "take [2].mp4", "take [12].*": "take 2.mp4"}.items():
        assert [path.name for path in find_videos(str(memory / "films" / asked))] == [found]
    file = tmp_path / "x"
    for content in (b"one", b"three"):
        file.write_bytes(content)
        put(file, memory / "x")
        assert local(memory / "x").read_bytes() == content


def test_old_copies_make_room(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("stepcut.files._MOST", 25)
    (tmp_path / "x").write_bytes(b"0123456789")
    kept = []
    for name in "abc":
        put(tmp_path / "x", memory / name)
        kept.append(local(memory / name))
        os.utime(kept[-1], (len(kept), len(kept)))
    assert [copy.exists() for copy in kept] == [False, True, True]


def test_damaged_features_at_an_address_are_computed_again(films, memory, tmp_path):
    log = tmp_path / "log"

    def rows():
        [found], _ = extract(films / "v0.mp4", Logged(log), 5, str(memory / "cache"))
        return np.array(found.rows)

    whole, once = rows(), seen(log)
    [stored] = files_below(memory / "cache" / "features")
    content = stored.read_bytes()
    damage = (b"xx", content[:-2], content[:9] + b"{" + content[10:])
    for times, damaged in enumerate(damage, start=2):
        stored.write_bytes(damaged)
        assert np.array_equal(rows(), whole)
        assert seen(log) == times * once
    assert stored.read_bytes() == content


def test_bad_addresses(memory, films, tmp_path):
    with raises(VideoError, "check the address"):
        extract("memory://shop/nowhere", Logged(tmp_path))
    with pytest.raises(OptionError, match="nosuch"):
        extract("nosuch://shop/nowhere", Logged(tmp_path))
    with raises(FeatureError, "check the address"):
        load_features("memory://shop/a.npy", rate=1)
    (memory / "damaged.npy").write_bytes(b"xx")
    with raises(FeatureError, "memory://shop/damaged.npy"):
        load_features("memory://shop/damaged.npy", rate=1)
    put(films / "v0.mp4", memory / "films" / "x.txt")
    with raises(VideoError, "1 x .txt"):
        extract("memory://shop/films", Logged(tmp_path))
    (tmp_path / "bad.mp4").write_bytes(b"not a video")
    put(tmp_path / "bad.mp4", memory / "films" / "bad.mp4")
    _, failures = extract("memory://shop/films", Logged(tmp_path), cache=tmp_path / "cache")
    assert str(failures[0]).startswith("memory://shop/films/bad.mp4: not a readable video")
