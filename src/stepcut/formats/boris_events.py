"""BORIS: tables of tabular or aggregated events, in four languages. Point events are clicks."""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from stepcut.files.names import video_name
from stepcut.formats.boris import (
    NOBODY,
    Event,
    Media,
    by_video,
    choose_subjects,
    list_events,
    one_per_video,
    pair,
)
from stepcut.formats.common import NONE, Options, build_segment, need_seconds, seconds
from stepcut.formats.tables import Row, plain, simplify, write_rows
from stepcut.timeline import Segment, Timeline

HEADER = ["Observation id", "Media file name", "Subject", "Behavior", "Behavior type", "Time"]
# Column names after `simplify`, in English, German, French and Spanish; the first match counts.
NAMES = {
    "observation": """observation_id beobachtung beobachtungs-id id_observation id_d'observation
        id_de_l'observation observacion id_de_observacion id_de_la_observacion""",
    "media": """media_file_name media_file_path media_file mediendatei name_der_mediendatei
        fichier_media nom_du_fichier_media archivo_multimedia nombre_del_archivo_multimedia""",
    "subject": "subject subjekt sujet sujeto",
    "behavior": "behavior behaviour verhalten comportement comportamiento conducta",
    "status": """status behavior_type behaviour_type verhaltenstyp statut type_de_comportement
        estado tipo_de_comportamiento tipo_de_conducta""",
    "time": "time zeit temps tiempo",
    "start": "start anfang beginn debut inicio",
    "stop": "stop stopp ende fin final",
    "offset": "time_offset zeitversatz decalage_temporel desfase_temporal",
    "source": "source quelle fuente",
    "lengths": "media_duration mediendauer duree_du_media duracion_del_medio",
}
POINT = ("POINT", "PUNKT", "PONCTUEL", "PUNTO", "PUNTUAL")


def read(rows: Sequence[Row], path: Path, options: Options = NONE) -> list[Timeline]:
    """Read tabular events (of old versions with a preamble, too) or aggregated events."""
    place = next(place for place, row in enumerate(rows) if matches([row]))
    columns = _columns(rows[place])
    modifiers = [
        i for i, cell in enumerate(rows[place].cells) if simplify(cell).startswith("modifi")
    ]
    media = next((name for name in ("media", "observation") if name in columns), "")
    named = [
        (row, row.cell(columns, "observation", path), row.cell(columns, "subject", path))
        for row in rows[place + 1 :]
    ]
    observations, people = {each[1] for each in named}, {each[2] for each in named}
    chosen, subjects = choose_subjects(observations, people, path, options)
    videos: dict[tuple[str, str], list[Segment]] = {}
    events: dict[tuple[str, Media], list[Event]] = {}
    states: dict[tuple[str, Media], list[Segment]] = {}
    for row, observation, subject in named:
        if observation not in chosen:
            continue
        time = row.time(columns, "start" if "start" in columns else "time", path)
        step = row.cell(columns, "behavior", path)
        video = row.cell(columns, media, path) if media else path.stem
        points = videos.setdefault((observation, video), [])
        played = _played(row, columns, video, path)
        if subject not in subjects:
            continue
        if row.cell(columns, "status", path).upper() in POINT:
            time -= dict(played)[video]
            points.append(build_segment(time, time, step, path, row.line))
        elif "start" in columns:
            end = row.time(columns, "stop", path)
            state = build_segment(time, end, step, path, row.line)
            states.setdefault((observation, played), []).append(state)
        else:
            how = "|".join(row.cells[i] for i in modifiers if i < len(row.cells))
            events.setdefault((observation, played), []).append(Event(time, subject, step, how))
    states |= {key: pair(each, path) for key, each in events.items()}
    for (observation, played), segments in states.items():
        for video, part in (each for segment in segments for each in by_video(segment, played)):
            videos.setdefault((observation, video), []).append(part)
    return one_per_video(
        [(name, Timeline(each, video=video)) for (name, video), each in videos.items()], path
    )


def write(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    """Write tabular events with the columns of current versions."""
    rows = [HEADER]
    for timeline in timelines:
        name = video_name(timeline.video)
        for event, status in list_events(timeline, timeline.steps):
            who = event.subject or NOBODY
            rows.append([name, timeline.video, who, event.code, status, plain(event.time)])
    write_rows(path, rows, "\t", options.spreadsheet)


def matches(rows: Sequence[Row]) -> bool:
    """Whether a table has the header of tabular or aggregated events."""
    headers = [_columns(row).keys() for row in rows[:100]]
    kinds = ({"time", "behavior", "status"}, {"observation", "start", "stop", "behavior", "status"})
    return any(kind <= names for kind in kinds for names in headers)


def _columns(row: Row) -> dict[str, int]:
    """Find the columns of a header, the first of each kind."""
    names = [simplify(cell) for cell in row.cells]
    found = {
        ours: next((names.index(name) for name in theirs.split() if name in names), -1)
        for ours, theirs in NAMES.items()
    }
    return {ours: place for ours, place in found.items() if place >= 0}


def _played(row: Row, columns: Mapping[str, int], video: str, path: Path) -> Media:
    """Return the media files of the observation of a row, with their start.

    Without a list of files in the table, return only the `video` of the row.
    """
    wanted = ("offset", "source", "lengths")
    offset, played, lengths = (row.cell(columns, name, path) for name in wanted)
    files = re.sub("^player ?#1:", "", played.split("|")[0]).split(";")
    begin = seconds(offset) or 0.0
    if video not in files:
        return ((video, begin),)
    media, stated = [], lengths.split("|")[0].split(";")
    for file, length in zip_longest(files, stated[: len(files)], fillvalue=""):
        media.append((file, begin))
        if video in dict(media) and seconds(length) is None:
            break  # the start of the next file is unknown
        begin += need_seconds(length, path, row.line)
    return tuple(media)
