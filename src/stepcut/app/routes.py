"""All calls: about the workspace and its jobs, and about one procedure, whose videos go by key.

A call is a function of the workspace or the procedure, and of the values in the request: those of
the JSON body, the query and the path. What it returns is sent as JSON, unless it is a response.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from stepcut.app.answers import (
    HANDLERS,
    Json,
    attachment,
    file_routes,
    page_routes,
    read_body,
    text_of,
)
from stepcut.app.export import check_target, pack, preview, read_wish
from stepcut.app.jobs import Job
from stepcut.app.security import MEDIA, Guard
from stepcut.app.state import Viewer
from stepcut.app.watching import Watching
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, VideoError, as_items, choose
from stepcut.evaluation.budget import time_budget
from stepcut.evaluation.compare import compare_groups

# Imported here, because concurrent imports in request threads can see partial modules.
from stepcut.features.video.container import probe
from stepcut.files.names import safe_name
from stepcut.procedure.corrections import StaleEdit
from stepcut.procedure.edits import history, take_back
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.learning import described_settings
from stepcut.show.clips import KINDS, proxy_of

Values = dict[str, Any]
A_WHILE = {"cache-control": "private, max-age=3600"}
NEXT = 3
"""Number of suggested videos."""
MOST_PROBED = 50
"""Maximum number of videos per request."""
LONGEST_AUTHOR = 100
"""Characters of a name in the history."""
BEGINNINGS = (
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),  # also .mkv, which browsers play under this name
    (0, b"OggS", "video/ogg"),
    (8, b"AVI ", "video/x-msvideo"),
    (0, b"FLV", "video/x-flv"),
    (0, b"\x30\x26\xb2\x75", "video/x-ms-wmv"),
    (0, b"\x00\x00\x01\xba", "video/mpeg"),
    (0, b"\x47", "video/mp2t"),
)
"""Content type by the bytes at an offset; all others are sent as video/mp4."""


def names_in(values: Values, key: str) -> list[str]:
    """The list of strings under a key, which may be missing."""
    return as_items(key, values.get(key, []), str, f"a list of {key}")


# ---------------------------------------------------------------------- the folder of the app


def home(space: Workspace, _: Values) -> Values:
    opened = {str(folder): space.id_of(folder) for folder in space.folders()}
    jobs = [
        {**job.to_json(), "procedure": opened.get(job.request["about"])} for job in space.jobs.all()
    ]
    return {"folder": str(space.files.root), "procedures": space.procedures(), "jobs": jobs}


def all_settings(space: Workspace, _: Values) -> Values:
    """Describe every setting: what it is for, its default and its limits."""
    del space
    groups = described_settings().items()
    return {group: [one.to_json() for one in settings.values()] for group, settings in groups}


def mend(space: Workspace, values: Values) -> Values:
    """Restore a damaged procedure."""
    space.restore(text_of(values, "id", ""))
    return home(space, values)


def probe_videos(space: Workspace, values: Values) -> Values:
    videos = names_in(values, "videos")
    if len(videos) > MOST_PROBED:
        raise OptionError(
            f"videos has {len(videos)} entries; send at most {MOST_PROBED}.",
            setting="videos",
            value=len(videos),
            allowed=MOST_PROBED,
        )
    return {"videos": space.probe(videos)}


# ---------------------------------------------------------------------- jobs


def job_of(place: Workspace | Viewer, values: Values) -> Job:
    job = place.jobs.get(values["id"])
    if job is None:
        raise HTTPException(404, "No such job.")
    return job


def change_job(place: Workspace | Viewer, values: Values) -> Values:
    """Cancel, resume or forget a job."""
    if values["verb"] not in ("cancel", "resume", "forget"):
        raise HTTPException(404, "A job can be cancelled, resumed or forgotten.")
    job = job_of(place, values)
    getattr(place.jobs, values["verb"])(job)
    return job.to_json()


def start(viewer: Viewer, kind: str, **args: Any) -> Values:
    """Start a job about a procedure."""
    own = {"folder": str(viewer.folder.resolve()), "trust": viewer.trust}
    return viewer.jobs.start(kind, {**own, **args}, viewer.folder, viewer.title).to_json()


# ---------------------------------------------------------------------- annotations and teaching


def state(viewer: Viewer, values: Values) -> Values:
    """Everything that the page shows; nothing if its stamp is the one that is `known`."""
    return {} if values.get("known") == viewer.stamp else viewer.state()


def change(verb: str, viewer: Viewer, values: Values) -> Values | Response:
    """Apply, undo or redo one edit, or set a step's severity; answers when it is on disk."""
    edits, wish = viewer.edits, values.get("edit", {})
    if verb == "severity":
        wish = {"do": verb, "step": values.get("step"), "severity": values.get("severity")}
    work = {"undo": edits.undo, "redo": edits.redo}.get(verb, partial(edits.do, wish))
    author = text_of(values, "author", "")[:LONGEST_AUTHOR]
    try:
        words = work(str(values.get("revision")), author)
    except StaleEdit:
        sentence = "Another window changed the procedure, so your change was not saved."
        return Json({"error": sentence, "state": viewer.state()}, 409)
    return {"words": words, "state": viewer.state()}


def set_rule(viewer: Viewer, values: Values) -> Values:
    """Add a rule, or remove it."""
    viewer.edits.set_rule(text_of(values, "rule", ""), bool(values.get("holds", True)))
    return viewer.rules()


def check_revision(viewer: Viewer, values: Values) -> None:
    """Refuse requests to an outdated state."""
    if values.get("revision") != viewer.edits.revision:
        raise HTTPException(
            409, "Another window changed the procedure. Reload the page, then try again."
        )


def teach(viewer: Viewer, values: Values) -> Values:
    check_revision(viewer, values)
    return start(viewer, "teach")


def back(viewer: Viewer, values: Values) -> Values:
    """Restore the procedure as it was before it learned from annotations."""
    check_revision(viewer, values)
    take_back(viewer.folder)
    viewer.refresh()
    if checked := [video.path for video in viewer.checks.all() if Path(video.path).is_file()]:
        start(viewer, "check", videos=checked)
    return {"words": "what was learned from annotations", "state": viewer.state()}


# ---------------------------------------------------------------------- videos


def path_of(viewer: Viewer, key: str) -> Path:
    path = viewer.paths().get(key)
    if path is None or not Path(path).is_file():
        raise HTTPException(404, "This video is missing.")
    return Path(path)


@lru_cache(maxsize=4096)
def media_type(path: str, _: tuple[int, ...]) -> str:
    """Content type of a video, from its content; VideoError for a file that is not a video."""
    probe(path)
    with open(path, "rb") as file:
        head = file.read(16)
    return next(
        (kind for at, begin, kind in BEGINNINGS if head[at:].startswith(begin)), "video/mp4"
    )


def video(viewer: Viewer, values: Values) -> Response:
    """Send a video, or a range of its bytes; untrusted procedures may name any file."""
    path = path_of(viewer, values["key"])
    now = path.stat()
    kind = media_type(str(path), (now.st_ino, now.st_size, now.st_mtime_ns))
    return FileResponse(path, media_type=kind, headers={**A_WHILE, **MEDIA})


def poster(viewer: Viewer, values: Values) -> Response:
    """Send a small picture from early in the video."""
    picture = viewer.poster(values["key"], path_of(viewer, values["key"]))
    return Response(picture, media_type="image/jpeg", headers=A_WHILE)


def copies(viewer: Viewer, values: Values) -> Values:
    """Start a job that makes copies of videos that the browser cannot play.

    `codecs` are those it can decode, and `videos` lists keys that need a copy in any case.
    Returns the keys that need a copy, those that have one, and those that cannot be copied.
    """
    kind, codecs = text_of(values, "kind", "mp4"), frozenset(names_in(values, "codecs"))
    choose("kind", kind, KINDS)
    there = {key: path for key, path in viewer.paths().items() if path and Path(path).is_file()}
    needed = [key for key in names_in(values, "videos") if key in there]
    for key, path in there.items():
        with suppress(VideoError, OSError):  # no copy is possible; opening it shows the error
            if key not in needed and not viewer.is_playable(path, codecs):
                needed.append(key)
    ready = [key for key in needed if proxy_of(there[key], kind).exists()]
    earlier = [job for job in viewer.jobs.all() if job.kind == "copies"]
    failed = {
        key: reason
        for job in earlier
        for key in needed
        if (reason := (job.result or {}).get(there[key]))
        and Path(there[key]).stat().st_mtime < job.request["created"]
    }
    missing = [there[key] for key in needed if key not in ready and key not in failed]
    running = (
        job
        for job in earlier
        if not job.is_finished and {*missing} <= {*job.request["args"]["videos"]}
    )
    job = None
    if missing:
        wish = {"videos": missing, "kind": kind}
        job = next(running, None) or viewer.jobs.start("copies", wish, viewer.folder, viewer.title)
    return {"needed": needed, "ready": ready, "failed": failed, "job": job and job.to_json()}


def copy(viewer: Viewer, values: Values) -> Response:
    copy = proxy_of(path_of(viewer, values["key"]), values["kind"])
    if not copy.exists():
        raise HTTPException(404, "The copy is not ready.")
    return FileResponse(copy, headers={**A_WHILE, **MEDIA})


# ---------------------------------------------------------------------- check, compare, export


def check(viewer: Viewer, values: Values) -> Values:
    """Start a job that checks videos, given by key or by path below the folder of the app."""
    paths = [path_of(viewer, key) for key in names_in(values, "keys")]
    paths += [viewer.files.find(name) for name in names_in(values, "videos")]
    if not paths:
        raise OptionError("no video was selected. Choose one or more.", setting="videos")
    return start(viewer, "check", videos=list(map(str, paths)))


def forget(viewer: Viewer, values: Values) -> Values:
    viewer.checks.remove(values["key"])
    return {"state": viewer.state()}


async def upload(request: Request) -> Response:
    """Save an uploaded video; return its path."""
    name, files = request.query_params.get("name", ""), request.scope["subject"].files
    length = int(request.headers.get("content-length", "0"))
    return Json({"path": await files.receive(name, length, request.stream())})


def watched(watching: Watching, viewer: Viewer, _: Values) -> Values:
    folder = None if viewer.files.closed else viewer.checks.watched
    problem = watching.problems.get(viewer.folder) or None
    return {"folder": folder and viewer.files.shown(folder), "problem": problem}


def watch(watching: Watching, viewer: Viewer, values: Values) -> Values:
    """Watch a folder, or stop watching with null."""
    name = values.get("folder")
    viewer.checks.watched = None if name is None else viewer.files.find(str(name), folder=True)
    return watched(watching, viewer, values)


def compare(viewer: Viewer, values: Values) -> Values:
    """Compare two groups of videos by key; return sentences, a table and the time budget."""
    timelines, steps = viewer.timelines, [step.name for step in viewer.edits.document.steps]
    groups = {
        name.upper(): {key: choose(name, key, timelines) for key in names_in(values, name)}
        for name in ("a", "b")
    }
    first, second = (list(group.values()) for group in groups.values())
    table = compare_groups(first, second, steps)
    budget = time_budget(groups, steps, per_video=True)
    return {
        "words": table.caption,
        "columns": table.columns,
        "rows": table.rows,
        "budget": {"columns": budget.columns, "rows": budget.rows},
    }


def export(viewer: Viewer, values: Values) -> Values:
    """Start an export job; with `preview`, list the files instead."""
    wish = read_wish(values)
    name = text_of(values, "folder", f"{viewer.title}-export")
    target, why = viewer.folder.resolve().parent / name, ""
    if Path(name) != Path(safe_name(name)) or len(Path(name).parts) != 1:
        why = "is not a plain name. Give a name without slashes."
    elif is_procedure(target):
        why = "is a procedure. Choose another name."
    if why:
        raise OptionError(f"folder={name[:200]!r} {why}", setting="folder", value=name)
    outline, videos = viewer.edits.outline, viewer.videos
    files = preview(outline, videos, wish)
    check_target(target, [file["path"] for file in files])
    if values.get("preview"):
        return {"folder": viewer.files.shown(target), "files": files}
    of = outline.config.fingerprint
    args = {"wish": wish._asdict(), "target": str(target), "videos": videos, "fingerprint": of}
    return start(viewer, "export", **args)


def download(viewer: Viewer, values: Values) -> Response:
    """Send the files of an export as one file."""
    job = viewer.jobs.get(values["id"])
    if job is None or job.kind != "export" or job.state["state"] != "done":
        raise HTTPException(404, "No such finished export.")
    return attachment(*pack(job.result))


# ---------------------------------------------------------------------- routes


def call(path: str, work: Callable[[Any, Values], Any], method: str = "GET") -> Route:
    """The route of one call."""

    async def answer(request: Request) -> Response:
        body = await read_body(request) if method == "POST" else request.query_params
        found = await run_in_threadpool(
            work, request.scope["subject"], {**body, **request.path_params}
        )
        return found if isinstance(found, Response) else Json(found)

    return Route(path, answer, methods=[method])


def post(path: str, work: Callable[[Any, Values], Any]) -> Route:
    return call(path, work, "POST")


JOBS = [
    call("/api/jobs", lambda place, _: {"jobs": [job.to_json() for job in place.jobs.all()]}),
    call("/api/jobs/{id}", lambda place, values: job_of(place, values).to_json()),
    post("/api/jobs/{id}/{verb}", change_job),
]
HOME = [
    call("/api/home", home),
    call("/api/settings", all_settings),
    call("/api/folder", lambda space, values: space.listing(values.get("path", ""))),
    post("/api/probe", probe_videos),
    post("/api/restore", mend),
    post("/api/learn", lambda space, values: space.learn(values).to_json()),
    *JOBS,
]


def procedure_routes(watching: Watching) -> list[Route]:
    """All calls below /p/ID/, and the page."""
    return [
        call("/api/state", state),
        call(
            "/api/history",
            lambda viewer, _: {"events": [asdict(entry) for entry in history(viewer.folder)]},
        ),
        *(
            post(f"/api/{verb}", partial(change, verb))
            for verb in ("edit", "undo", "redo", "severity")
        ),
        call("/api/rules", lambda viewer, _: viewer.rules()),
        post("/api/rules", set_rule),
        post("/api/teach", teach),
        # The suggestion depends on the annotations.
        post(
            "/api/suggest",
            lambda viewer, _: start(viewer, "suggest", count=NEXT, revision=viewer.edits.revision),
        ),
        post("/api/back", back),
        call(
            "/api/about/{key}",
            lambda viewer, values: {
                "rate": float(probe(path_of(viewer, values["key"])).rate or 25)
            },
        ),
        call("/api/signals/{key}", lambda viewer, values: viewer.curves(values["key"])),
        post("/api/copies", copies),
        post("/api/check", check),
        post("/api/forget/{key}", forget),
        Route("/api/upload", upload, methods=["POST"]),
        call("/api/watch", partial(watched, watching)),
        post("/api/watch", partial(watch, watching)),
        post("/api/compare", compare),
        post("/api/export", export),
        call("/api/download/{id}", download),
        call("/video/{key}", video),
        call("/poster/{key}", poster),
        call("/copy/{key}/{kind}", copy),
        *JOBS,
        *page_routes("app", "api/state", "../../"),
    ]


class Subjects:
    """Find the subject of each request: the workspace, or a procedure as it is on disk now."""

    def __init__(self, workspace: Workspace, router: Router) -> None:
        self.workspace, self.router = workspace, router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subject: Workspace | Viewer | None = self.workspace
        if name := scope["path_params"].get("procedure"):
            subject = await run_in_threadpool(self.workspace.viewer, name)
        if subject is None:
            raise HTTPException(404, "This procedure no longer exists.")
        await self.router({**scope, "subject": subject}, receive, send)


def make_app(workspace: Workspace, token: str, host: str = "127.0.0.1") -> Guard:
    """The guarded application: `stepcut app`, or `stepcut view` with one procedure open."""
    watching = Watching(workspace)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        workspace.open()
        watching.open()
        yield
        await run_in_threadpool(watching.close)
        await run_in_threadpool(workspace.jobs.close)

    if workspace.only is None:
        page = page_routes("home", "api/home")
    else:  # the address of the page of the only procedure
        place = f"p/{workspace.id_of(workspace.only.folder)}/"
        page = [Route("/", lambda _: RedirectResponse(place))]
    procedure = Subjects(workspace, Router(routes=procedure_routes(watching)))
    around = Subjects(workspace, Router(routes=[*HOME, *page, *file_routes()]))
    routes = [Mount("/p/{procedure}", app=procedure), Mount("/", app=around)]
    return Guard(
        Starlette(routes=routes, exception_handlers=dict(HANDLERS), lifespan=lifespan), token, host
    )
