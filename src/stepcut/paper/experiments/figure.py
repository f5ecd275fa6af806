"""The paper's qualitative figure: annotated steps above k-means, subset selection and ProCut."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stepcut.errors import DataError, choose
from stepcut.evaluation.clock import CLOCK, put_on_one_clock
from stepcut.evaluation.score import score
from stepcut.features.spec import FeatureSpec
from stepcut.files.cache import cache_dir
from stepcut.paper.cnc.settings import choose_preset
from stepcut.paper.experiments.cells import Cell, Work, predict
from stepcut.paper.experiments.maps import make_maps
from stepcut.paper.experiments.material import choose_features, find_tasks, make_material
from stepcut.progress import Hook, silent
from stepcut.rate import Rate
from stepcut.show import plots
from stepcut.show.canvas import save
from stepcut.timeline import Timeline

ROWS = {
    "k-means (HC)": "tc3i + kmeans",
    "subset selection (SS)": "tc3i + subset",
    "ProCut (PCM)": "tc3i + procut",
}


def draw_figure(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str],
    video: str | None = None,
    features: str | None = None,
    tasks: Sequence[str] | None = None,
    steps: int | str = 7,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    fps: Rate | None = None,
    train: Mapping[str, Any] | None = None,
    cut: Mapping[str, Any] | None = None,
    toy: Mapping[str, Any] | None = None,
    progress: Hook = silent,
    spec: FeatureSpec | None = None,
    as_published: bool = False,
    as_released: bool = False,
    device: str = "auto",
) -> str:
    """Draw the annotated and the predicted steps of one video.

    Clusters take the names of the annotated steps that they match under `strict` over all videos of
    the task. A cluster without a match keeps its number.

    Parameters
    ----------
    path
        The PNG, SVG or PDF file to write.
    data
        The folder of a data set, NAME:DIR, or "toy".
    video
        The video to draw; the first by default.
    features, tasks, steps, seed, folder, fps, train, cut, toy, progress, spec, as_published, as_released,
    device
        As for `run_experiment`.

    Returns
    -------
    str
        A description of the figure, with the F1 of every row.

    Raises
    ------
    DataError
        No video has features and an annotated timeline.

    Examples
    --------
    >>> from stepcut.formats import write_folder
    >>> files = write_folder("kitchen/sandwich", dict.fromkeys(videos, labels), "csv")
    >>> Path("kitchen/sandwich/features/toy").mkdir(parents=True)
    >>> for name, rows in videos.items():
    ...     np.save(f"kitchen/sandwich/features/toy/{name}.npy", rows)
    >>> text = draw_figure(
    ...     "cuts.svg", "kitchen", steps=3, folder="cells", train={"iterations": 3}, fps=1
    ... )
    >>> text[:35]
    'video1 of sandwich, K = 3, seed 0, '
    """
    place = (cache_dir() / "experiments" if folder is None else Path(folder)).absolute()
    _, found = find_tasks([data], tasks, False, place, toy or {}, progress)
    kind = choose_features(features, spec, fps, [found[0][1]])
    make = partial(
        make_maps, maps="keep", folder=place, progress=progress, engine=None, device=device
    )
    material = make_material(found[0][1], "", kind, fps, make)
    if material is None or not material.features:
        raise DataError(f"{found[0][1].name}: no video has features and an annotated timeline.")
    preset = choose_preset(as_published, as_released)
    where = None if device == "auto" else device
    names_there = {each: each for each in material.features}
    name = choose("video", video or next(iter(names_there)), names_there)
    count = material.steps if steps == "true" else int(steps)
    names = [f"step {number}" for number in range(count)]
    drawn = {"truth": material.truth[name]}
    scores = []
    for title, row in ROWS.items():
        cell = Cell(material.task.name, row, count, seed, material.view)
        work = Work(cell, material, place, train or {}, cut or {}, where, preset)
        segmented = {
            each: Timeline.from_labels(labels, material.rate, names, material.durations[each])
            for each, labels in predict(work).items()
        }
        pair = put_on_one_clock(segmented, material.truth, all_found=names)
        result = score(pair.pred, pair.true, "strict", names=pair.steps, rate=CLOCK, clusters=count)
        matched = {
            names[cluster]: pair.steps[step - 1] for cluster, step in result.matching.items()
        }
        drawn[title] = segmented[name].rename(matched)
        scores.append(f"{title} {result.f1:.1f}")
    save(plots.timelines(drawn), path)
    return (
        f"{name} of {material.task.name}, K = {count}, seed {seed}, features {material.described}; "
        f"strict F1 over {len(material.features)} videos: {', '.join(scores)}"
    )
