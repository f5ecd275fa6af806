"""Built-in networks on each runtime, and random weights of a ResNet-50 with as many stages as needed."""

import numpy as np
from safetensors.numpy import save_file

from stepcut.features.backbones import BACKBONES
from stepcut.features.backbones.networks import BLOCKS
from stepcut.features.backbones.runtime import Place
from stepcut.features.spec import as_spec


def random_resnet(stages=3, seed=0):
    rng = np.random.default_rng(seed)
    w = {}

    def conv(name, norm, out, inside, k):
        scale = (2 / (inside * k * k)) ** 0.5
        w[f"{name}.weight"] = rng.normal(0, scale, (out, inside, k, k)).astype(np.float32)
        for part, low, high in (
            ("weight", 0.5, 1.0),
            ("running_var", 0.8, 1.2),
            ("bias", -0.1, 0.1),
            ("running_mean", -0.1, 0.1),
        ):
            w[f"{norm}.{part}"] = rng.uniform(low, high, out).astype(np.float32)

    conv("conv1", "bn1", 64, 3, 7)
    inside = 64
    for stage in list(BLOCKS)[:stages]:
        for number in range(BLOCKS[stage]):
            b, width, out = f"layer{stage - 1}.{number}", 16 * 2**stage, 64 * 2**stage
            conv(f"{b}.conv1", f"{b}.bn1", width, inside, 1)
            conv(f"{b}.conv2", f"{b}.bn2", width, width, 3)
            conv(f"{b}.conv3", f"{b}.bn3", out, width, 1)
            if number == 0:
                conv(f"{b}.downsample.0", f"{b}.downsample.1", out, inside, 1)
            inside = out
    return w


def resnet_file(path, stages=3):
    save_file(random_resnet(stages), path)
    return path


def load_on(runtime, name="efficientnet-lite0", **settings):
    return BACKBONES[name](as_spec(name, **settings), Place("cpu", runtime))
