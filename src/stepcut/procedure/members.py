"""Which videos belong to a learned state: add videos as its model segments them, remove videos."""

import copy
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b

import msgspec

from stepcut.errors import OptionError, StepcutError
from stepcut.features.features import Features
from stepcut.features.find import find_inputs
from stepcut.files import whole_path
from stepcut.files.names import Fragment
from stepcut.methods.inputs import Labels
from stepcut.methods.method import Method
from stepcut.procedure.fitting import timeline_of
from stepcut.procedure.learned import Config, Digest, Learned, digest_of, has_content, rows_digest
from stepcut.progress import warn_once

FEWEST = 2


def new_videos(
    learned: Learned, left: Collection[str], found: Sequence[Features]
) -> list[Features]:
    """Without those that are `left` of `learned`; refuse another video of the same name."""
    contents = {one.rows: name for name, one in learned.digests.items() if name in left}
    new = []
    for one in found:
        content = rows_digest(one.rows)
        if one.name in left:
            if has_content(one, learned.digests.get(one.name, Digest())) is False:
                raise OptionError(
                    f"{one.name}: another video of the procedure already has this name. Rename "
                    "the file, or use: stepcut replace",
                    setting="source",
                    video=one.name,
                )
        elif content in contents:
            warn_once(f"{one.name}: a copy of {contents[content]}, so it is not added.")
        else:
            contents[content] = one.name
            new.append(one)
    if found and not new:
        raise OptionError(
            f"nothing to add: the procedure has the given videos ({len(found)}) already.",
            setting="source",
        )
    if len(left) + len(new) < FEWEST:
        raise OptionError(
            f"a procedure compares videos, so {FEWEST} or more must stay. To exchange one, use: "
            "stepcut replace",
            setting="videos",
        )
    return new


def with_videos(learned: Learned, added: Sequence[Features]) -> Learned:
    """The present model segments the new videos; they are no reference for `check`."""
    if not added or learned.method is None:
        return learned
    readings = [learned.method.read(one.rows) for one in added]
    shown = {
        one.name: timeline_of(one, read.labels, read.probabilities, learned.steps)
        for one, read in zip(added, readings, strict=True)
    }
    paths = {one.name: one.path and whole_path(one.path) for one in added}
    places = learned.config.source or [path for path in learned.videos.values() if path]
    there: set[str] = set()
    with suppress(StepcutError):  # moved
        there = {whole_path(str(file)) for file in find_inputs(places).files}
    there |= {*places}
    sources = [Fragment.of(name).at(path) for name, path in paths.items() if path]
    new = [source for source in sources if source not in there]
    if not any(learned.videos.values()):  # learned from features
        paths = dict.fromkeys(paths)
    digests = {one.name: digest_of(one) for one in added}
    labels = [*range(len(learned.samples)), *(read.labels for read in readings)]
    return replace(
        learned,
        method=_of_videos(learned.method, labels),
        config=_changed(learned.config, [*places, *new] if places else None, str(digests)),
        timelines=learned.timelines | shown,
        samples=learned.samples | {one.name: len(one.rows) for one in added},
        videos=learned.videos | paths,
        digests=learned.digests | digests,
    )


def without_videos(learned: Learned, gone: Collection[str]) -> Learned:
    """The model stays; what people said of the videos stays in the log of the folder."""
    if not gone or learned.method is None:
        return learned
    stay = [name for name in learned.samples if name not in gone]
    places, said = learned.config.source, learned.annotations
    left = {learned.videos[name] for name in gone}
    with suppress(StepcutError):  # moved
        inputs = find_inputs(places or [])
        pairs = zip(inputs.names, inputs.files, strict=True)
        left |= {whole_path(str(file)) for name, file in pairs if name in gone}
    normal = learned.expectations
    return replace(
        learned,
        method=_of_videos(learned.method, [list(learned.samples).index(name) for name in stay]),
        config=_changed(
            learned.config,
            places and [place for place in places if whole_path(place) not in left],
            str(sorted(gone)),
        ),
        annotations=msgspec.structs.replace(
            said,
            videos={name: one for name, one in said.videos.items() if name not in gone},
            accepted=tuple(one for one in said.accepted if one.video not in gone),
        ),
        timelines={name: learned.timelines[name] for name in stay},
        samples={name: learned.samples[name] for name in stay},
        videos={name: learned.videos[name] for name in stay},
        digests={name: one for name, one in learned.digests.items() if name not in gone},
        # Another video may get the name.
        expectations=normal
        and replace(
            normal,
            videos=tuple(f"{one} (removed)" if one in gone else one for one in normal.videos),
        ),
    )


def _of_videos(method: Method, wanted: Iterable[int | Labels]) -> Method:
    """A copy with the labels of other videos: those at a place, or new ones."""
    made, wanted = copy.copy(method), list(wanted)
    for key in {"labels_", "discovered_"} & vars(made).keys():
        vars(made)[key] = [vars(made)[key][one] if isinstance(one, int) else one for one in wanted]
    return made


def _changed(config: Config, source: list[str] | None, content: str) -> Config:
    print_of = blake2b(f"{config.fingerprint} {content}".encode(), digest_size=16).hexdigest()
    return msgspec.structs.replace(config, source=source or None, fingerprint=print_of)
