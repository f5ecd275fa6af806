"""Given features: files of vectors or maps with one row per time step, checked before anything is learned from them."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError
from stepcut.features.contract import Features, check_alike, check_rows
from stepcut.features.find import FEATURE_SUFFIXES, Source, find_features, name_videos, unique_names
from stepcut.features.spec import FeatureSpec
from stepcut.features.store import read_rows
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.copies import local
from stepcut.rate import Rate, as_rate

_BOMB = 100
"""How much larger than its file an .npz may be; what videos give compresses by a few times."""


def load_features(paths: Source, rate: Rate | None = None) -> list[Features]:
    """Read given features, one row per time step; all must have the same dimension.

    paths  `.npy`, `.npz` or `.safetensors` files, or folders of them
    rate   rows per second, for files that do not say it themselves as those of `stepcut features` do
    """
    files = find_features(paths)
    given = None if rate is None else as_rate(rate, "rate")
    paths = name_videos(files)
    loaded = [_load_one(file, name, given) for file, name in zip(files, paths, strict=True)]
    check_alike(loaded)
    names = unique_names([[one.name for one in loaded], paths])
    return [replace(one, name=name) for one, name in zip(loaded, names, strict=True)]


def spec_of(file: AnyPath) -> FeatureSpec | None:
    """How the features of a file were made; None where it does not say."""
    path = as_path(file)
    return FeatureSpec.from_metadata(_read(local(path))[1]) if path.suffix == ".safetensors" else None


def _load_one(file: Path | Address, name: str, given: Fraction | None) -> Features:
    try:
        rows, metadata = _read(local(file))
    except FileNotFoundError as error:
        raise FeatureError(f"{file}: there is nothing at this address. Check it, and that you may read it.") from error
    check_rows(rows, str(file))
    try:
        rate = as_rate(metadata["rate"], "rate") if "rate" in metadata else given
        duration = float(metadata.get("duration", len(rows) / (rate or 1)))
        spec = FeatureSpec.from_metadata(metadata)
        corrupt = int(metadata.get("corrupt", 0))
        if not 0 <= duration < 1e9 or corrupt < 0 or any("\0" in value for value in metadata.values()):
            raise ValueError(f"duration {duration}, {corrupt} damaged frames")
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FeatureError(
            f"{file}: what it says of itself makes no sense ({type(error).__name__}: {error}). Export it again."
        ) from error
    if rate is None:
        raise OptionError(
            f"{file}: how many rows make a second? The file does not say (rate=None). Give rate, such as 1."
        )
    return Features(rows, rate, duration, metadata.get("name", name), metadata.get("path"), corrupt, spec)


def _read(file: Path) -> tuple[NDArray[Any], dict[str, str]]:
    if not file.is_file():
        raise FeatureError(f"{file}: not a file. Give {', '.join(FEATURE_SUFFIXES)} files.")
    if file.suffix == ".safetensors":
        return read_rows(file)
    if file.suffix not in FEATURE_SUFFIXES:
        raise FeatureError(f"{file}: the suffix {file.suffix!r} is unknown; give {', '.join(FEATURE_SUFFIXES)} files.")
    try:
        _check_size(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of odd headers before it refuses them
            with open(file, "rb") as opened:
                if opened.read(2) == b"PK":  # ours to close, whatever the archive turns out to be
                    opened.seek(0)
                    with np.load(opened, allow_pickle=False) as arrays:
                        return _only_array(file, arrays), {}
            loaded = np.load(file, mmap_mode="r", allow_pickle=False)
    except FeatureError:
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise FeatureError(
            f"{file}: not readable as an array (empty, damaged, or full of Python objects). Save it with numpy.save."
        ) from error
    return loaded, {}


def _check_size(file: Path) -> None:
    """Refuse an .npz that says it is far larger than its file before any of it is unpacked."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        told, size = sum(info.file_size for info in archive.infolist()), file.stat().st_size
    if told > _BOMB * size and told > 2**26:
        raise FeatureError(
            f"{file}: {size:,} bytes would unpack to {told:,}; at most {_BOMB} times as many are allowed. "
            "If it is what you want, save it with numpy.save."
        )


def _only_array(file: Path, arrays: Any) -> NDArray[Any]:
    names = list(arrays)
    for name in ("features", "rows", *(names if len(names) == 1 else ())):
        if name in names:
            rows = arrays[name]
            if isinstance(rows, np.ndarray):
                return rows
    raise FeatureError(
        f"{file}: holds the arrays {', '.join(names) or 'none'}; one is needed, or one named 'features'. Save it alone."
    )
