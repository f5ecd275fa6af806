"""Small synthetic trees in each published layout; the repository contains no real data."""

import json

import numpy as np

from stepcut.paper.datasets import egoprocel


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def egoprocel_tree(root):
    """The published tree with one recording per task; CMU-MMAC with five views."""
    for title, info in egoprocel.TASKS.items():
        place = info.folder
        folder = root / "annotations" / place
        if place.startswith("CMU"):
            task = place.partition("/")[2]
            for camera in egoprocel.VIEWS.values():
                file = folder / f"S07_{task}_Video" / f"S07_{task}_{camera}-100.csv"
                put(file, "1,3,1 break egg\n5,6,9 serve\n")
        elif title == "Tent":
            put(folder / "01.tent.090617.gopro.egoprocel.ann.csv", "0,2,1. spread tent\n")
        else:
            file = folder / f"{title.replace(' ', '')}_1.csv"
            put(file, "0,2,1. open\n2,4,2. close\n4,5,1. open\n")
    return root


def egoprocel_json(root):
    """`egoprocel.json` with two tasks: one plain, one with three views of two recordings."""

    def frames(*steps, last):
        actions, starts, ends, reached = [], [], [], 0
        for action, start, end in [*steps, ("0", last, last)]:
            if start > reached:
                actions, starts, ends = [*actions, "0"], [*starts, reached], [*ends, start]
            if action != "0":
                actions, starts, ends = [*actions, action], [*starts, start], [*ends, end]
            reached = max(reached, end)
        return actions, starts, ends

    def task(handles, lists):
        names = ("hdl_actions", "hdl_start_times", "hdl_end_times")
        columns = map(list, zip(*lists, strict=True))
        return {"handles": handles, **dict(zip(names, columns, strict=True))}

    first = frames(("1", 10, 20), ("2", 30, 50), last=99)
    early = frames(("1", 10, 20), last=25)  # this camera stopped early
    empty = frames(last=19)  # this camera stopped immediately
    # The same steps at other times: another recording.
    second = frames(("1", 500, 520), ("2", 530, 550), last=599)
    record = {
        "pc_assembly": task(["Head_1", "Head_2"], [first, second]),
        "Eggs.cmu": task(["S07", "S08"], [first, first, early, empty, second, second]),
    }
    put(root / "egoprocel.json", json.dumps(record))
    put(root / "id2action.txt", "0 background\n1 break_eggs\n2 mix_eggs\n")
    return root


def crosstask_tree(root):
    """Two tasks, with a repeated step name, an unknown step number, and a file of an unknown task."""
    release = root / "crosstask_release"
    put(
        release / "tasks_primary.txt",
        "23521\nMake Jello Shots\nhttp://example.org\n3\npour jello powder,stir,stir\n\n"
        "16815\nJack Up a Car\nhttp://example.org\n2\nbrake on, raise jack\n\n",
    )
    for file, text in {
        "videos": "23521,a_b-1,https://example.org/1\n16815,zz,https://example.org/2\n",
        "annotations/23521_a_b-1": "1,0.5,2\n3,2,4.25\n",
        "annotations/16815_zz": "2,1,2\n7,3,4\n",
        "annotations/16815_yy": "1,1,2\n",
        "annotations/99999_zz": "1,1,2\n",
    }.items():
        put(release / f"{file}.csv", text)
    (root / "crosstask_features").mkdir()
    np.save(root / "crosstask_features" / "a_b-1.npy", np.zeros((5, 4), np.float16))
    return root


def procel_tree(root):
    """One task as MATLAB file, one as text files."""
    from scipy.io import savemat

    def cell(values):
        array = np.empty((len(values), 1), dtype=object)
        for place, value in enumerate(values):
            array[place, 0] = value
        return array

    one = cell([np.array([[1.0, 2.0], [5.0, 6.0]]), np.zeros((0, 2))])
    times = cell([one, cell([np.zeros((0, 0)), np.array([[3.0, 4.5]])])])
    coffee = root / "ProceL_dataset" / "make_coffee"
    coffee.mkdir(parents=True)
    made = {"grammar": cell(["grind coffee", "pour water"]), "key_steps_time": times}
    savemat(coffee / "data.mat", made)
    put(coffee / "readme.txt", "1\tcoffee_0001\thttp://a.org\n2\tcoffee_0002\thttp://b.org\n")
    tire = root / "ProceL_dataset" / "change_tire"
    put(tire / "mapping.txt", "1 brake_on\n2 raise_jack\n")
    put(tire / "annotations" / "tire_0001.csv", "1,0.00,2.00\n2,3.00,4.50\n")
    return root


def captaincook4d_tree(root):
    """One recipe with two recordings: one correct, one with a missing and a wrong step."""
    told = [(61, "Grind -Grind the beans", 1.0, 3.0), (62, "pour-pour water", 2.5, 9.0)]
    keys = ("step_id", "description", "start_time", "end_time")
    done = [{**dict(zip(keys, one, strict=True)), "has_errors": False} for one in told]
    left_out = [{**one, "has_errors": True} for one in done]
    left_out[0] |= {"start_time": -1.0, "end_time": -1.0}
    common = {"activity_id": 5, "activity_name": "Coffee", "person_id": 2, "environment": 3}
    made = {"5_1": done, "5_2": left_out}
    record = {name: {"recording_id": name, **common, "steps": made[name]} for name in made}
    put(root / "annotations" / "complete_step_annotations.json", json.dumps(record))
    errors = [
        {"recording_id": "5_1", "is_error": False, "step_annotations": done},
        {"recording_id": "5_2", "is_error": True, "step_annotations": [
            {**left_out[0], "errors": [{"tag": "Missing Step", "description": "skipped"}]},
            {**left_out[1], "errors": [{"tag": "Technique Error", "description": "spilt"}]}]},
    ]  # fmt: skip
    put(root / "annotations" / "error_annotations.json", json.dumps(errors))
    names = ["START", "pour-pour water", "Grind -Grind the beans", "drink-drink it", "END"]
    steps = {str(number): name for number, name in enumerate(names)}
    graph = {"steps": steps, "edges": [[0, 2], [2, 1], [1, 3], [3, 4]]}
    put(root / "task_graphs" / "coffee.json", json.dumps(graph))
    put(root / "index.csv", "recording_id,seconds\n5_1,10\n5_2,12\n")
    (root / "features" / "omnivore").mkdir(parents=True)
    np.save(root / "features" / "omnivore" / "5_1.npy", np.ones((10, 4), np.float16))
    return root
