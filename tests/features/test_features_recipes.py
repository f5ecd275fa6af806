"""The recipes of docs/features.md, run as they stand there, on random weights of the right shapes."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from stepcut.features.backbones import load_backbone

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers")

DOC = Path(__file__).parents[2] / "docs" / "features.md"
SMALL = {"num_hidden_layers": 2, "hidden_size": 96,
         "num_attention_heads": 3, "intermediate_size": 192}  # fmt: skip
MODELS = {
    "Dinov2Model": ("Dinov2Config", {"patch_size": 14, "image_size": 224}),
    "CLIPVisionModel": ("CLIPVisionConfig", {"patch_size": 32, "image_size": 224}),
    "SiglipVisionModel": ("SiglipVisionConfig", {"patch_size": 16, "image_size": 224}),
    "VideoMAEModel": ("VideoMAEConfig", {"image_size": 224, "num_frames": 16, "tubelet_size": 2}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, (config, settings) in MODELS.items():
            torch.manual_seed(0)
            kind = getattr(transformers, name)
            model = kind(getattr(transformers, config)(**SMALL, **settings))
            patch.setattr(kind, "from_pretrained", lambda _, model=model: model)
        text = DOC.read_text(encoding="utf-8")
        code = text.split("```python\nimport onnx, torch")[1].split("```")[0]
        names = {}
        exec("import onnx, torch" + code, names)
    return folder, names


@pytest.mark.parametrize("name", ["dino", "clip", "siglip"])
def test_an_image_model(made, name):
    backbone = load_backbone(str(made[0] / f"{name}.onnx"), "cpu")
    frames = np.random.default_rng(0).integers(0, 255, (5, 224, 224, 3), dtype=np.uint8)
    rows = backbone.extract(frames)
    assert rows.shape == (5, 96)
    mean, scale = (np.array(backbone.spec.to_json()[key], np.float32) for key in ("mean", "scale"))
    x = ((frames / np.float32(255) - mean) / scale).transpose(0, 3, 1, 2)
    [other] = onnxruntime.InferenceSession(made[0] / f"{name}.onnx").run(None, {"x": x})
    assert np.allclose(rows, other, atol=0.02)
    assert not np.allclose(rows[0], rows[1], atol=1e-3)


def test_a_clip_model_and_a_folder_of_transformers(made, tmp_path):
    folder, _ = made
    backbone = load_backbone(str(folder / "videomae.onnx"), "cpu")
    assert (backbone.clip_frames, backbone.clip_fps) == (16, 8)
    clips = np.random.default_rng(0).integers(0, 255, (3, 16, 224, 224, 3), dtype=np.uint8)
    assert backbone.extract(clips).shape == (3, 96)
    config = transformers.Dinov2Config(**SMALL, patch_size=14, image_size=56)
    transformers.Dinov2Model(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}'
    )
    backbone = load_backbone(f"hf:{tmp_path}", "cpu")
    assert backbone.size == 56
    assert backbone.extract(np.zeros((2, 56, 56, 3), np.uint8)).shape == (2, 96)
