"""Our features for the peers of reports/peers.md, and what they find.

    python benchmarks/peers.py export captaincook4d:DIR ROOT [FEATURES]
    python benchmarks/peers.py score ROOT TASK PREDICTIONS

`export` prints TASK, K and D; -1 is background. PREDICTIONS has a file VIDEO_TASK* per video with an
index per line, as CTE, TOT and HVQ write. Set dataset_root, subaction and feature_dim (HVQ:
vqt_input_dim) in their scripts:

CTE   Annusha/unsup_temp_embed 2fd98b4  python data_utils/YTI_utils/yti_train.py
TOT   trquhuytin/TOT-CVPR22 428ce66     python data_utils/BF_utils/bf_train.py --epochs 1500
HVQ   FedeSpu/HVQ c511dfb               python data_utils/BF_utils/bf_train.py
ASOT  mingu6/action_seg_ot 0c4c86b, ROOT called Breakfast; save `segments` in test_step
      python src/train.py -d Breakfast -ac TASK -c K -x -1 -ua -ls D 128 40 --rho 0.25 -lat 0.16
TW-FINCH  ssarfraz/FINCH-Clustering b181669, FINCH(rows, req_clust=K, tw_finch=True)[2]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recipes import principal
from shared import arguments
from stepcut.evaluation import score
from stepcut.evaluation.compare import baseline
from stepcut.paper.experiments.material import Source
from stepcut.tables import Table


def export(data: str, place: str, features: str | None = None) -> None:
    source, root, words = Source(data, features), Path(place), ["background"]
    for material in filter(None, (source.material(*one) for one in source.found)):
        given, steps = material.read(), material.task.steps
        task = "".join(filter(str.isalnum, material.task.name))
        words += (own := [f"{task}-{number}" for number in range(len(steps))])
        for folder in ("groundTruth", "mapping", f"features/{task}"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        own, rows = np.array([*own, words[0]]), principal(list(given.values()))
        for name, each in zip(given, rows, strict=True):
            times = (np.arange(len(each)) + 0.5) / material.rate
            labels = own[material.truth[name].labels(times, steps)]
            np.savetxt(root / f"groundTruth/{name}_{task}", labels, "%s")
            np.savetxt(root / f"features/{task}/{name}_{task}.txt", each, "%.6g")
        print(f"TASK {task}, K {material.steps}, D {rows[0].shape[1]}")
    np.savetxt(root / "mapping/mapping.txt", [*enumerate(words, -1)], "%s")


def judge(place: str, task: str, predictions: str) -> None:
    root, found, true = Path(place), [], []
    numbers = dict(np.loadtxt(root / "mapping/mapping.txt", dtype=str)[:, ::-1])
    for file in sorted(root.glob(f"groundTruth/*_{task}")):
        true.append(np.array([int(numbers[word]) + 1 for word in file.read_text().split()]))
        found += (np.loadtxt(one, dtype=int) for one in Path(predictions).glob(f"{file.name}*"))
    count = len({*np.concatenate(true)} - {0})
    table = Table(["", "protocol", "F1", "IoU", "MoF"], [])
    for row, labels in (("peer", found), ("uniform", baseline("uniform", true, count))):
        for protocol in ("strict", "segmentation", "segmentation-per-video"):
            made = score(labels, true, protocol, clusters=count)
            table.rows.append([row, protocol, made.f1, made.iou, made.mof])
    print(table)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("words", nargs="+")
    work, *words = parser.parse_args().words
    {"export": export, "score": judge}[work](*words)
