"""Where networks run: OpenVINO on CPUs, where it is three times as fast, torch on GPUs."""

import ctypes
import importlib.util
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import ExtraNeeded, unknown, wrong
from stepcut.features.spec import FeatureSpec
from stepcut.parallel.engine import count_cores
from stepcut.plugins import install_command, pip_install

Frames = NDArray[np.uint8]
Rows = NDArray[Any]
Run = Callable[[Frames], Rows]

_TOGETHER = 4  # frames per request: keeps a core busy, and shares a batch among cores
CUDA_BATCH = 128  # frames per batch on a GPU


@runtime_checkable
class Backbone(Protocol):
    """The contract of a backbone: four attributes and one method.

    Optional attributes: `batch` (frames per call, 32 by default), `clip_frames` and `clip_fps`.
    With these, it gets clips of `clip_frames` frames, 1 / `clip_fps` seconds apart and centred on
    the time of the row.
    """

    name: str
    size: int  # side of the square input frames in pixels
    fingerprint: str  # changes whenever the features change; part of the name of cached features

    @property
    def dim(self) -> int:
        """# length of a vector, or channels of a map"""

    def extract(self, frames: Frames) -> Rows:
        """Compute rows (n, dim) or (n, dim, h, w) from uint8 RGB frames.

        `frames` are (n, size, size, 3), or clips (n, clip_frames, size, size, 3).
        """


class Place(NamedTuple):
    device: str
    runtime: str

    @property
    def precision(self) -> str:
        what = _precision() if self.runtime == "openvino" else self.device.split(":")[0]
        return f"{self.runtime}-{what}"


@dataclass(eq=False, repr=False)
class Network:
    """A backbone that stepcut runs. It is built at its first use, so cached features need none."""

    spec: FeatureSpec
    name: str
    stated_dim: int  # 0 if no file states it: then it is measured on a black frame
    size: int
    fingerprint: str
    build: Callable[[], Run]
    place: Place

    def __post_init__(self) -> None:
        self.device = self.place.device
        self.clip_frames, self.clip_fps = self.spec.clip_frames or 1, self.spec.clip_fps
        self.batch = max(1, (128 if self.device.startswith("cuda") else 16) // self.clip_frames)
        clip = (self.clip_frames,) if self.clip_frames > 1 else ()
        self.shape = (*clip, self.size, self.size, 3)

    def __repr__(self) -> str:
        frames = " x ".join(map(str, self.shape[:-1]))
        where = f"{self.place.runtime} on {self.device}"
        return f"<Backbone {self.name}, {self.dim} numbers from {frames}, {where}>"

    @cached_property
    def dim(self) -> int:
        measured = self.stated_dim or self.extract(np.zeros((1, *self.shape), np.uint8)).shape[1]
        return int(measured)

    @cached_property
    def _run(self) -> Run:
        return self.build()

    def extract(self, frames: Frames) -> Rows:
        if frames.shape[1:] != self.shape or frames.dtype != np.uint8:
            what = f"does not fit {self.name}. Use uint8 (n, {', '.join(map(str, self.shape))})."
            raise wrong("frames", f"{frames.dtype} {frames.shape}", what, self.shape)
        return self._run(frames)


# ---------- where it runs


def choose_device(device: str = "auto") -> str:
    """Return the `device`; "auto" is CUDA if available. torch is imported only with a driver."""
    if str(device).split(":")[0] not in ("auto", "cpu", "cuda"):
        raise unknown("device", device, ["auto", "cpu", "cuda"])
    if device == "cpu" or (device == "auto" and not (_installed("torch") and _has_driver())):
        return "cpu"
    if not _installed("torch"):
        what = f"needs torch. Run: {install_command('cnc')}; or use device='cpu'."
        raise ExtraNeeded(f"device={device!r} {what}", setting="device", value=device)
    import torch

    cuda = torch.cuda.is_available()
    if device == "auto":
        return "cuda" if cuda else "cpu"
    if not cuda:
        what = f": torch {torch.__version__} finds no CUDA GPU. Use device='cpu'."
        raise wrong("device", device, what)
    return device


def choose_place(kind: str, device: str = "auto", gpus_elsewhere: bool = False) -> Place:
    """Return where a network of a `kind` runs: "own", "file" or "hub"."""
    if kind == "file":
        if str(device).startswith("cuda"):
            what = ": ONNX files run on the CPU. Use --device cpu, or for a GPU a network of a hub "
            raise wrong("device", device, f"{what}(hf:, timm:, open_clip:) or your own.", "cpu")
        device = "cpu" if device == "auto" else device
    elif gpus_elsewhere and device != "cpu":
        return Place("cuda", "torch")
    where = choose_device(device)
    if kind != "hub" and where == "cpu" and _installed("openvino"):
        return Place(where, "openvino")
    if kind != "file" and _installed("torch"):
        return Place(where, "torch")
    package = "torch" if kind == "hub" else "openvino"
    advice = install_command("cnc") if package == "torch" else pip_install(package)
    what = f"a backbone on {where} needs {package}, which is not installed"
    raise ExtraNeeded(f"{what}. Run: {advice}")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _has_driver() -> bool:
    try:
        return bool(ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"))
    except OSError:
        return False


# ---------- OpenVINO


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry client, which writes an identity to disk."""
    modules: dict[str, Any] = sys.modules
    hidden = "openvino" not in modules and "openvino_telemetry" not in modules
    if hidden:
        modules["openvino_telemetry"] = None  # OpenVINO replaces a missing client by a stub
    try:
        import openvino
    finally:
        if hidden:
            del modules["openvino_telemetry"]
    return openvino


def _precision() -> str:
    """Return the precision of this CPU's features.

    Never bfloat16, which OpenVINO prefers on x86 with AMX: twice as fast, but its features differ
    too much (cosine .996 on noise, .9999 in half precision) to share procedures between machines.
    """
    return "f16" if platform.machine().lower() in ("aarch64", "arm64") else "f32"


def run_openvino(inputs: Any, output: Any) -> Run:
    openvino, cores = import_openvino(), count_cores()
    model = openvino.Model([output], [inputs], "stepcut")
    options = {
        "NUM_STREAMS": cores,
        "INFERENCE_NUM_THREADS": cores,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": _precision(),
    }
    batch = model.input(0).partial_shape[0]
    fixed = None if batch.is_dynamic else int(batch.get_length())
    queue = openvino.AsyncInferQueue(openvino.Core().compile_model(model, "CPU", options), cores)

    def keep(request: Any, place: tuple[dict[int, NDArray[np.float16]], int]) -> None:
        rows, at = place
        with np.errstate(over="ignore"):  # an overflow is reported when the rows are written
            rows[at] = request.get_output_tensor(0).data.astype(np.float16)

    queue.set_callback(keep)

    def run(frames: Frames) -> Rows:
        count = len(frames)
        together = fixed or min(_TOGETHER, -(-count // cores)) or 1
        if fixed and count % together:  # exported with a fixed batch
            rest = together - count % together
            frames = np.concatenate([frames, np.zeros((rest, *frames.shape[1:]), np.uint8)])
        rows: dict[int, NDArray[np.float16]] = {}
        for at in range(0, len(frames), together):
            queue.start_async([np.ascontiguousarray(frames[at : at + together])], (rows, at))
        queue.wait_all()
        return np.concatenate([rows[at] for at in sorted(rows)])[:count]

    return run


def openvino_functions() -> SimpleNamespace:
    """Return the torch functions that built-in networks use, as operations of OpenVINO."""
    ops = import_openvino().opset8

    def numbers(*values: int) -> Any:
        return ops.constant(np.array(values, np.int64))

    def conv2d(x: Any, weight: Any, bias: Any, stride: int, padding: int, groups: int = 1) -> Any:
        convolve = ops.group_convolution if groups > 1 else ops.convolution
        kernel = weight.reshape(groups, -1, *weight.shape[1:]) if groups > 1 else weight
        y = convolve(x, ops.constant(kernel), [stride] * 2, [padding] * 2, [padding] * 2, [1, 1])
        return ops.add(y, ops.constant(bias.reshape(1, -1, 1, 1)))

    def pad(x: Any, zeros: tuple[int, int, int, int]) -> Any:
        left, right, above, below = zeros
        return ops.pad(x, [0, 0, above, left], [0, 0, below, right], "constant")

    def max_pool2d(x: Any, size: int, stride: int, padding: int) -> Any:
        both = [padding] * 2
        return ops.max_pool(x, [stride] * 2, [1, 1], both, both, [size] * 2).output(0)

    return SimpleNamespace(
        conv2d=conv2d,
        pad=pad,
        relu=ops.relu,
        clamp=ops.clamp,
        max_pool2d=max_pool2d,
        mean=lambda x, axes: ops.reduce_mean(x, numbers(*axes), False),
        adaptive_avg_pool2d=lambda x, side: ops.adaptive_avg_pool(x, numbers(side, side)),
        flatten=lambda x, start: ops.reshape(x, numbers(*[0] * start, -1), True),
        add=ops.add,  # x + y fails in the first versions of 2025
        mul=lambda x, factor: ops.multiply(x, ops.constant(np.float32(factor))),
        cat=ops.concat,
    )


def frames_to(
    shape: Sequence[int], axes: Sequence[int], mean: object, scale: object, bgr: bool, kind: Any
) -> tuple[Any, Any]:
    """Build (frame / 255 - mean) / scale of uint8 frames, with its `axes` in this order."""
    openvino = import_openvino()
    ops = openvino.opset8
    frames = x = ops.parameter(list(shape), openvino.Type.u8, name="frames")
    if bgr:
        channels = ops.constant(np.array([2, 1, 0], np.int64))
        x = ops.gather(x, channels, ops.constant(np.int64(len(shape) - 1)))
    if kind != openvino.Type.u8:
        factor = (1 / (255 * np.array(scale))).astype(np.float32)
        x = ops.subtract(ops.convert(x, "f32"), ops.constant(255 * np.array(mean, np.float32)))
        x = ops.convert(ops.multiply(x, ops.constant(factor)), kind)
    return frames, ops.transpose(x, ops.constant(np.array(axes, np.int64)))


# ---------- torch


@cache
def torch_functions() -> SimpleNamespace:
    import torch
    import torch.nn.functional as F

    more = {"pad": F.pad, "adaptive_avg_pool2d": F.adaptive_avg_pool2d}
    return SimpleNamespace(**{**vars(torch), **more})


def torch_dtype(device: str) -> Any:
    import torch

    return torch.float16 if device.startswith("cuda") else torch.float32


def as_tensors(
    convs: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]], device: str
) -> dict[str, tuple[Any, Any]]:
    import torch

    def tensor(array: NDArray[np.float32]) -> Any:
        return torch.from_numpy(array).to(device, torch_dtype(device))

    return {
        name: (tensor(weight).to(memory_format=torch.channels_last), tensor(bias))
        for name, (weight, bias) in convs.items()
    }


def run_torch(
    forward: Callable[[Any], Any], mean: Sequence[float], scale: Sequence[float], device: str
) -> Run:
    import torch

    dtype = torch_dtype(device)
    means, scales = (torch.tensor([255 * n for n in x], device=device) for x in (mean, scale))

    def run(frames: Frames) -> Rows:
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(frames)).to(device)
            # (n, H, W, 3) viewed as (n, 3, H, W) is already "channels last", without a copy.
            x = ((x - means) / scales).to(dtype).movedim(-1, -3)
            y = forward(x)
            y = y.mean(dim=1) if y.ndim == 3 else y.mean(dim=(2, 3, 4)) if y.ndim == 5 else y
            rows: Rows = y.to(torch.float16).cpu().numpy()
        return rows

    if not device.startswith("cuda"):
        return run
    # cuDNN plans every convolution for seconds, per thread and per batch size. So on a GPU one
    # thread does all the work, in batches of one size.
    thread = ThreadPoolExecutor(1, "stepcut-cuda")

    def run_on_gpu(frames: Frames) -> Rows:
        count = max(1, CUDA_BATCH // (frames.shape[1] if frames.ndim == 5 else 1))
        full = np.zeros((-(-len(frames) // count) * count, *frames.shape[1:]), np.uint8)
        full[: len(frames)] = frames  # the last batch is padded with black frames
        parts = np.split(full, len(full) // count)
        return np.concatenate(list(thread.map(run, parts)))[: len(frames)]

    return run_on_gpu
