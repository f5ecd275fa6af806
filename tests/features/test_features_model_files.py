"""Any network a user has: model files with single frames and clips, hubs, classes of one's own."""

import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from errors_kit import raises
from features_films import make_film
from model_kit import mean_colour
from onnx import TensorProto, helper
from safetensors.numpy import save_file

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import ExtraNeeded, OptionError
from stepcut.features.backbones import load_backbone
from stepcut.features.extract import extract, load_features
from stepcut.features.spec import FeatureSpec, find_files

PLAIN = {"mean": 0, "scale": 1}


def pictures(*shape):
    return np.broadcast_to(np.array([51, 102, 255], np.uint8), (*shape, 3)).copy()


class Corners:
    name, dim, size, fingerprint = "corners", 12, 32, "corners 1"

    def extract(self, frames):
        return frames[:, ::31, ::31].reshape(len(frames), 12).astype(np.float16)


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    for number in range(3):
        make_film(folder / f"v{number}.mp4", frames=40, rate=10)
    return folder


FRAMES = [("n", 3, 32, 32), (2, 3, 32, 32), ("n", 32, 32, 3), ("n", 3, "h", "w")]
CLIPS = [("n", 4, 3, 32, 32), ("n", 3, 4, 32, 32), ("n", 3, "t", 32, 32)]


@pytest.mark.parametrize("shape", [*FRAMES, *CLIPS])
def test_frames_and_clips_arrive_in_every_layout(shape, tmp_path):
    file, clip = mean_colour(tmp_path / "m.onnx", shape), (4,) if shape in CLIPS else ()
    how = {"size": 32, **({"clip_frames": 4} if clip else {})}
    backbone = load_backbone(str(file), "cpu", **how, **PLAIN)
    assert (backbone.size, backbone.dim) == (32, 3)
    # A file made for two at a time gets three pairs.
    rows = backbone.extract(pictures(5, *clip, 32, 32))
    assert np.allclose(rows, [[0.2, 0.4, 1.0]] * 5, atol=1e-3)


def test_what_the_file_says_is_used_and_what_is_given_wins(tmp_path, caplog):
    said = {"mean": "0.2,0.4,0.5", "scale": "0.5", "colour": "bgr", "output": "double"}
    said = {f"stepcut.{name}": value for name, value in said.items()}
    file = mean_colour(tmp_path / "m.onnx", metadata=said, outputs=("colour", "double"))
    rows = load_backbone(str(file), "cpu").extract(pictures(1, 32, 32))
    assert np.allclose(rows, 2 * (np.array([1.0, 0.4, 0.2]) - [0.2, 0.4, 0.5]) / 0.5, atol=2e-3)
    given = load_backbone(str(file), "cpu", colour="rgb", output="colour", mean=(0, 0, 0), scale=1)
    assert np.allclose(given.extract(pictures(1, 32, 32)), [0.2, 0.4, 1.0], atol=1e-3)
    assert caplog.text == ""
    plain = load_backbone(str(mean_colour(tmp_path / "plain.onnx")), "cpu")
    assert "plain.onnx does not state its normalisation" in caplog.text
    wanted = (np.array([0.2, 0.4, 1]) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert np.allclose(plain.extract(pictures(1, 32, 32)), wanted, atol=3e-3)


def save_sum(path, inputs):
    shape, both = ["n", 3, 32, 32], len(inputs) == 2
    named = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs]
    how = {} if both else {"keepdims": 0}
    node = helper.make_node("Add" if both else "ReduceSum", inputs, ["z"], **how)
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, shape if both else [])
    graph = helper.make_graph([node], "sum", named, [output])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def test_files_that_are_no_backbone(tmp_path):
    with raises(OptionError, "absent.onnx"):
        load_backbone(str(tmp_path / "absent.onnx"))
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with raises(OptionError, "bad.onnx", "cannot read"):
        load_backbone(str(tmp_path / "bad.onnx"), "cpu")
    two = mean_colour(tmp_path / "two.onnx", outputs=("colour", "double"))
    with raises(OptionError, "--output-name", "colour", "double"):
        load_backbone(str(two), "cpu", **PLAIN)
    for inputs, says in (("xy", "2 inputs"), ("x", "shape ()")):
        save_sum(tmp_path / "m.onnx", list(inputs))
        with raises(OptionError, says):
            load_backbone(str(tmp_path / "m.onnx"), "cpu", **PLAIN)
    for name in ("m.xml", "m.tflite"):
        with raises(OptionError, ".onnx", setting="backbone", value=name, allowed=".onnx"):
            load_backbone(name, "cpu")
    with raises(OptionError, "--device cpu", setting="device", value="cuda"):
        load_backbone(str(mean_colour(tmp_path / "c.onnx")), "cuda", **PLAIN)


def test_a_model_of_bytes(tmp_path):
    metadata = {"stepcut.colour": "bgr"}
    file = mean_colour(tmp_path / "m.onnx", kind=TensorProto.UINT8, metadata=metadata)
    rows = load_backbone(str(file), "cpu").extract(pictures(1, 32, 32))
    assert np.array_equal(rows, [[255, 102, 51]])


@pytest.mark.slow
def test_a_row_of_a_clip_model_is_the_mean_of_the_frames_around_it(films, tmp_path):
    image = mean_colour(tmp_path / "image.onnx")
    clip = mean_colour(tmp_path / "clip.onnx", ("n", 5, 3, 32, 32))
    one, _ = extract(films, FeatureSpec(str(image), 10, **PLAIN), cache=tmp_path)
    spec = FeatureSpec(str(clip), Fraction(2), clip_fps=Fraction(10), **PLAIN)
    many, _ = extract(films, spec, cache=tmp_path)
    for single, clips in zip(one, many, strict=True):
        padded = np.pad(single.rows.astype(np.float32), ((2, 2), (0, 0)), "edge")
        wanted = [padded[at : at + 5].mean(axis=0) for at in range(0, len(single.rows), 5)]
        assert np.allclose(clips.rows, wanted, atol=2e-3)
    assert (many[0].spec.clip_frames, many[0].rate) == (5, 2)


def test_a_model_file_from_the_command_line_to_a_check(films, tmp_path):
    file, place = str(mean_colour(tmp_path / "model.onnx")), str(tmp_path / "p.proc")
    quiet = ["--quiet", "--device", "cpu"]
    words = ["--backbone", file, "--mean", "0,0,0", "--scale", "1", "--cache", str(tmp_path / "c")]
    assert main(["features", str(films), "-o", str(tmp_path / "feats"), *words, *quiet]) == 0
    made = load_features(tmp_path / "feats")
    assert made[0].rows.shape == (8, 3)
    full = {"size": 32, "mean": (0, 0, 0), "scale": (1, 1, 1), "colour": "rgb", "output": "colour"}
    assert made[0].spec == FeatureSpec(file, **full)
    words += ["--set", "restarts=2"]
    assert main(["learn", str(films), "-k", "2", "-o", place, *words, *quiet]) == 0
    assert main(["check", place, str(films / "v0.mp4"), *quiet]) in (0, 1, 4)


@pytest.mark.slow
def test_a_procedure_finds_its_model_file_where_it_lies_now(films, tmp_path, monkeypatch, run):
    (tmp_path / "old").mkdir()
    file = mean_colour(tmp_path / "old" / "model.onnx")
    place, sent, here = tmp_path / "sent" / "p.proc", tmp_path / "sent", tmp_path / "here"
    how = {"cache": tmp_path / "cache", "device": "cpu", "restarts": 2}
    sc.learn(films, 2, backbone=FeatureSpec(str(file), **PLAIN), output=place, **how)
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "empty"))
    words = ["check", str(place), str(films / "v0.mp4"), "--quiet", "--device", "cpu"]
    here.mkdir()
    for now, folder in ((sent, tmp_path), (here, here)):  # beside it, and in the working folder
        file = file.rename(now / "model.onnx")
        monkeypatch.chdir(folder)
        run(*words, code=(0, 1, 4))
    sc.load(place).save(sent / "q.proc")  # and remembers it
    assert sc.load(sent / "q.proc").config.backbone["name"] == str(file)
    monkeypatch.chdir(tmp_path)
    assert "model.onnx': no such file" in (said := run(*words, code=2).err)
    assert "beside the folder of the procedure" in said
    mean_colour(tmp_path / "model.onnx", ("n", 32, 32, 3))
    assert "differs from the original" in run(*words, code=2).err
    moved = find_files({"name": "C:\\nets\\model.onnx"}, [tmp_path])
    assert moved["name"] == str(tmp_path / "model.onnx")


@pytest.mark.parametrize(("shape", "given", "says"), [
    (("n", 3, 32, 32), {"size": 64}, "32 x 32"),
    (("n", 3, 32, 64), {}, "64 x 32"),
    (("n", 3, 32, 32), {"clip_frames": 4}, "clip_frames=4"),
    (("n", 4, 3, 32, 32), {"clip_frames": 8}, "4 frames"),
    (("n", 3, "t", 32, 32), {}, "--clip-frames"),
    (("n", 3, 32, 32), {"output": "colours"}, "'colour'"),
])  # fmt: skip
def test_what_does_not_fit_is_told(shape, given, says, tmp_path):
    with raises(OptionError, says):
        load_backbone(str(mean_colour(tmp_path / "m.onnx", shape)), "cpu", **{**PLAIN, **given})


@pytest.mark.slow
def test_a_class_of_ones_own_by_its_place(films, tmp_path):
    name = f"{__name__}:Corners"
    own = sc.learn(films, 2, backbone=Corners(), cache=tmp_path, restarts=2)
    assert (load_backbone(name).name, own.spec) == ("corners", FeatureSpec(name, Fraction(2)))
    own.save(tmp_path / "p.proc")
    with raises(OptionError, "--trust"):
        sc.load(tmp_path / "p.proc").check(films / "v0.mp4")
    words = ["check", str(tmp_path / "p.proc"), str(films / "v0.mp4"), "--quiet"]
    assert main(words) == 2
    assert main([*words, "--trust"]) in (0, 1, 4)


def test_a_feature_file_cannot_have_code_imported(films, tmp_path):
    sys.modules.pop("antigravity", None)
    for number in range(2):
        rows = np.repeat(np.eye(2, 4, dtype=np.float16), 9, axis=0)
        said = {"rate": "1", "duration": "18", "spec": '{"name": "antigravity:fly", "fps": "1"}'}
        save_file({"rows": rows}, tmp_path / f"{number}.safetensors", said)
    procedure = sc.learn(tmp_path, 2, restarts=2)
    with raises(OptionError, "--trust"):
        procedure.check(films / "v0.mp4")
    assert "antigravity" not in sys.modules


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.visual = SimpleNamespace(image_size=(32, 32), image_mean=[0] * 3, image_std=[1] * 3)

    def forward(self, x):
        return x.mean(dim=(2, 3)) * self.weight

    encode_image = forward


@pytest.fixture
def hubs(monkeypatch):
    asked = []

    def create(name, pretrained, **_):
        asked.append((name, pretrained))
        return Tiny()

    said = {"input_size": (3, 32, 32), "mean": (0, 0, 0), "std": (1, 1, 1)}
    data = SimpleNamespace(resolve_model_data_config=lambda _: said)
    for name in ("timm", "open_clip"):
        stand_in = SimpleNamespace(create_model=create, data=data)
        monkeypatch.setitem(sys.modules, name, stand_in)
    return asked


@pytest.mark.parametrize("hub", ["timm", "open_clip"])
def test_hubs_fetch_on_the_users_word_alone(hub, hubs, tmp_path):
    net, own, other = f"{hub}:net/tag", tmp_path / "w.safetensors", tmp_path / "other.safetensors"
    with raises(OptionError, "--weights fetch"):
        load_backbone(net)
    with raises(OptionError, "without weights"):
        load_backbone(FeatureSpec(net, weights="fetch", trusted=False))
    assert hubs == []
    rows = load_backbone(net, "cpu", weights="fetch").extract(pictures(2, 32, 32))
    assert np.allclose(rows, [[0.2, 0.4, 1.0]] * 2, atol=1e-3)
    assert hubs.pop() == (("net/tag", True) if hub == "timm" else ("net", "tag"))
    save_file({"weight": np.array([1, 2, 3], np.float32)}, own)
    rows = load_backbone(net, "cpu", weights=own).extract(pictures(1, 32, 32))
    assert np.allclose(rows, [[0.2, 0.8, 3.0]], atol=2e-3)
    assert hubs.pop()[1] in (False, None)
    with raises(OptionError, "hf-hub:a/b"):  # where such a name is asked for its settings
        load_backbone(f"{hub}:hf-hub:a/b", "cpu", weights=own)
    assert hubs == []
    load_backbone(f"{hub}:hf-hub:a/b", "cpu", weights="fetch")
    assert hubs.pop()[0].startswith("hf-hub:a")
    save_file({"other": np.zeros(2, np.float32)}, other)
    with raises(OptionError, "1 parameters"):
        load_backbone(net, "cpu", weights=other)


@pytest.mark.usefixtures("hubs")
def test_the_order_of_colours_is_obeyed_for_networks_of_hubs():
    settings = {"weights": "fetch", "mean": (0, 0, 0.1), "scale": (1, 1, 2)}
    one, other = (load_backbone("timm:net", "cpu", colour=c, **settings) for c in ("rgb", "bgr"))
    assert np.allclose(one.extract(pictures(1, 32, 32)), [[0.2, 0.4, 0.45]], atol=1e-3)
    # Means are in its order, too.
    assert np.allclose(other.extract(pictures(1, 32, 32)), [[1.0, 0.4, 0.05]], atol=1e-3)
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == load_backbone("timm:net", "cpu", **settings).fingerprint


def test_a_network_that_a_hub_has_not_is_told(monkeypatch):
    for error in (RuntimeError("Unknown model (net)"), ConnectionError("no route\nat all")):

        def create(*_, error=error, **__):
            raise error

        monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create))
        with raises(OptionError, "'timm:net'", str(error).splitlines()[0]):
            load_backbone("timm:net", "cpu", weights="fetch")
    packages = {"timm": "timm", "transformers": "transformers", "open_clip": "open-clip-torch"}
    for (module, package), hub in zip(packages.items(), ("timm", "hf", "open_clip"), strict=True):
        monkeypatch.setitem(sys.modules, module, None)
        with raises(ExtraNeeded, f"pip install {package}"):
            load_backbone(f"{hub}:net", "cpu", weights="fetch")
