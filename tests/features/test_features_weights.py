"""Files of weights: what torch wrote is read exactly, and nothing else is obeyed."""

import io
import pickle
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from errors_kit import raises
from safetensors.torch import save_file

from stepcut.errors import ExtraNeeded, OptionError
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.weights import package_weights, read_weights, weights_file


def tensors():
    plain = torch.arange(12.0)
    return {
        "plain": plain,
        "turned": plain.view(3, 4).t(),
        "part": plain[3:7],
        "half": torch.randn(2, 3).half(),
        "brain": torch.randn(5).bfloat16(),
        "whole": torch.tensor([[1, -2]]),
        "one": torch.tensor(7.5),
        "none": torch.zeros(0, 3),
        "yes": torch.tensor([True, False]),
        "learned": torch.nn.Parameter(torch.ones(2)),
    }


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrap", [None, "state_dict", "model"])
def test_what_torch_wrote_is_read_exactly(zipped, wrap, tmp_path):
    state: Any = OrderedDict(tensors())
    saved = (
        state if wrap is None else {wrap: state, "epoch": 3, "loss": [0.5, (1, "a", None, True)]}
    )
    torch.save(saved, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
    read, _ = read_weights(tmp_path / "w.pth")
    assert read.keys() == state.keys()
    for name, tensor in state.items():
        wanted = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        assert read[name].dtype == wanted.dtype
        assert np.array_equal(read[name], wanted), name


def test_the_weights_of_the_default_backbone_load_no_torch(tmp_path):
    # Read where ml_dtypes is loaded.
    save_file({"w": torch.ones(2).bfloat16()}, tmp_path / "brain.safetensors")
    code = "import sys; from stepcut.features.backbones.weights import package_weights\n"
    code += "from stepcut.features.backbones.weights import read_weights\n"
    code += "print(len(package_weights()), 'torch' in sys.modules, flush=True)\n"
    code += "read_weights('brain.safetensors')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.split()[:2] == ["296", "False"]
    assert "OptionError: weights='brain.safetensors'" in done.stderr
    assert "bfloat16" in done.stderr.splitlines()[-1]
    ours, theirs = package_weights(), torch.load(weights_file(), weights_only=True)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_damaged_weights(tmp_path, monkeypatch):
    (tmp_path / "bad.safetensors").write_bytes(b"not safetensors at all")
    with raises(OptionError, "bad.safetensors", "damaged"):
        read_weights(tmp_path / "bad.safetensors")
    (tmp_path / "w.h5").touch()
    with raises(OptionError, "'.h5'"):
        read_weights(tmp_path / "w.h5")
    torch.save({"w": torch.zeros(1).expand(10**9)}, tmp_path / "w.pth")
    with raises(OptionError, "w is larger than the file"):
        read_weights(tmp_path / "w.pth")
    monkeypatch.setitem(sys.modules, "torch", None)
    with raises(ExtraNeeded, "pip install"):
        read_weights(tmp_path / "w.pth")


def test_a_changed_file_of_the_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Call(eval, "open('ran', 'w')")))
    monkeypatch.setattr(
        "stepcut.features.backbones.weights.weights_file", lambda: tmp_path / "w.pth"
    )
    monkeypatch.chdir(tmp_path)
    with raises(OptionError, "published"):
        package_weights()
    assert not (tmp_path / "ran").exists()


def test_weights_of_ones_own_for_the_default_backbone_are_told_apart(tmp_path):
    with raises(OptionError, "none.pth"):
        load_backbone("efficientnet-lite0", "cpu", weights=tmp_path / "none.pth")
    (tmp_path / "own.pth").write_bytes(weights_file().read_bytes())
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


HOSTILE = {
    "a call": saved({"w": Call(eval, "open('ran', 'w')")}),
    "a class of torch": saved({"w": Call(torch.nn.Linear, 2, 2)}),
    "no weights": saved([1, 2, 3]),
    "a plain pickle": pickle.dumps({"w": 1}),
    "a plain pickle that calls": pickle.dumps(Call(eval, "open('ran', 'w')")),
    "an empty zip": b"PK\x05\x06" + bytes(18),
    "nothing": b"",
    "noise": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").write_bytes(HOSTILE[name])
    with raises(OptionError, "plain weights"):
        read_weights(tmp_path / "w.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["w.pth"]
