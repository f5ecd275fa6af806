"""All calls: about the workspace, its jobs, and one procedure, whose videos go by key."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
from stepcut.app.export import check_request, check_target, pack, preview
from stepcut.app.jobs import FINISHED, Job
from stepcut.app.security import MEDIA, Guard
from stepcut.app.state import Viewer
from stepcut.app.watching import Watching
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, VideoError, as_items, choose
from stepcut.evaluation.budget import time_budget
from stepcut.evaluation.groups import compare_groups

# Imported here, because concurrent imports in request threads can see partial modules.
from stepcut.features.video.container import probe
from stepcut.files.names import safe_name
from stepcut.procedure.corrections.log import StaleEdit
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.history import history, take_back
from stepcut.show.clips import KINDS, proxy_of

A_WHILE = {"cache-control": "private, max-age=3600"}
NEXT = 3
"""Number of suggested videos."""
MOST_PROBED = 50
"""Maximum number of videos per request."""
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


@lru_cache(maxsize=4096)
def media_type(path: str, _: tuple[int, ...]) -> str:
    """Content type of a video, from its content; VideoError for a file that is not a video."""
    probe(path)
    with open(path, "rb") as file:
        head = file.read(16)
    return next(
        (kind for at, begin, kind in BEGINNINGS if head[at:].startswith(begin)), "video/mp4"
    )


def viewer_of(request: Request) -> Viewer:
    """The procedure of a request below /p/ID/."""
    viewer: Viewer = request.scope["viewer"]
    return viewer


class HomeRoutes:
    """Calls about the folder of the app, and the jobs in it."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.jobs = workspace, workspace.jobs

    def home(self, _: Request) -> Response:
        space = self.workspace
        opened = {str(folder): space.id_of(folder) for folder in space.folders()}
        jobs = [
            {**job.to_json(), "procedure": opened.get(str(job.request["about"]))}
            for job in self.jobs.all()
        ]
        return Json(
            {
                "folder": str(space.files.root),
                "procedures": space.procedures(),
                "jobs": jobs,
            }
        )

    def folder(self, request: Request) -> Response:
        """List one folder for the file picker."""
        return Json(self.workspace.listing(request.query_params.get("path", "")))

    async def probe(self, request: Request) -> Response:
        names = as_items("videos", (await read_body(request)).get("videos", ()), str, "paths")
        if len(names) > MOST_PROBED:
            raise OptionError(
                f"videos has {len(names)} entries; send at most {MOST_PROBED}.",
                setting="videos",
                value=len(names),
                allowed=MOST_PROBED,
            )
        return Json({"videos": await run_in_threadpool(self.workspace.probe, names)})

    async def learn(self, request: Request) -> Response:
        body = await read_body(request)
        job = await run_in_threadpool(self.workspace.learn, body)
        return Json(job.to_json())

    def all_jobs(self, _: Request) -> Response:
        """All jobs, oldest first."""
        return Json({"jobs": [job.to_json() for job in self.jobs.all()]})

    def job(self, request: Request) -> Response:
        return Json(self._job(request).to_json())

    async def change_job(self, request: Request) -> Response:
        """Cancel, resume or forget a job."""
        await read_body(request)
        verbs = {
            "cancel": self.jobs.cancel,
            "resume": self.jobs.resume,
            "forget": self.jobs.forget,
        }
        verb = verbs.get(request.path_params["verb"])
        if verb is None:
            raise HTTPException(404, "A job can be cancelled, resumed or forgotten.")
        job = await run_in_threadpool(self._job, request)
        await run_in_threadpool(verb, job)
        return Json(job.to_json())

    def _job(self, request: Request) -> Job:
        job = self.jobs.get(request.path_params["id"])
        if job is None:
            raise HTTPException(404, "No such job.")
        return job

    def routes(self) -> list[Route]:
        return [
            Route("/api/home", self.home),
            Route("/api/folder", self.folder),
            Route("/api/probe", self.probe, methods=["POST"]),
            Route("/api/learn", self.learn, methods=["POST"]),
            *self.job_routes(),
        ]

    def job_routes(self) -> list[Route]:
        return [
            Route("/api/jobs", self.all_jobs),
            Route("/api/jobs/{id}", self.job),
            Route("/api/jobs/{id}/{verb}", self.change_job, methods=["POST"]),
        ]


LONGEST_AUTHOR = 100
"""Characters of a name in the history."""


class Routes:
    """Calls about one procedure."""

    def __init__(self, workspace: Workspace, watching: Watching) -> None:
        self.jobs, self.watching = workspace.jobs, watching

    # ------------------------------------------------------------------ document

    def state(self, request: Request) -> Response:
        """Return the whole state as JSON; nothing if its stamp is the one that is `known`."""
        viewer = viewer_of(request)
        known = request.query_params.get("known") == viewer.stamp
        return Json({} if known else viewer.state())

    async def edit(self, request: Request) -> Response:
        """Apply, undo or redo one edit, or set a step's severity; answers when it is on disk."""
        body, verb = await read_body(request), request.url.path.rsplit("/", 1)[-1]
        viewer = viewer_of(request)
        edits = viewer.edits
        severity = {"do": "severity", "step": body.get("step"), "severity": body.get("severity")}
        changes: dict[str, Callable[[str, str], str]] = {
            "undo": edits.undo,
            "redo": edits.redo,
            "severity": partial(edits.do, severity),
            "edit": partial(edits.do, body.get("edit", {})),
        }
        author = text_of(body, "author", "")[:LONGEST_AUTHOR]
        try:
            words = await run_in_threadpool(changes[verb], str(body.get("revision")), author)
        except StaleEdit:
            sentence = "Another window changed the procedure, so your change was not saved."
            state = await run_in_threadpool(viewer.state)
            return Json({"error": sentence, "state": state}, 409)
        return Json({"words": words, "state": await run_in_threadpool(viewer.state)})

    def history(self, request: Request) -> Response:
        """Return all changes of the procedure, oldest first."""
        return Json({"events": [asdict(entry) for entry in history(viewer_of(request).folder)]})

    async def teach(self, request: Request) -> Response:
        """Start a job that learns from the annotations."""
        await self._check_revision(request)
        return self._start(viewer_of(request), "teach", {})

    async def suggest(self, request: Request) -> Response:
        """Start a job that suggests which videos to annotate next."""
        await read_body(request)
        viewer = viewer_of(request)
        revision = viewer.edits.revision  # the suggestion depends on the annotations
        return self._start(viewer, "suggest", {"count": NEXT, "revision": revision})

    async def back(self, request: Request) -> Response:
        """Restore the procedure as it was before it learned from annotations."""
        await self._check_revision(request)
        viewer = viewer_of(request)
        await run_in_threadpool(take_back, viewer.folder)
        await run_in_threadpool(viewer.refresh)
        checked = [video.path for video in viewer.checks.all() if Path(video.path).is_file()]
        if checked:
            self._start(viewer, "check", {"videos": checked})
        state = await run_in_threadpool(viewer.state)
        return Json({"words": "what was learned from annotations", "state": state})

    async def _check_revision(self, request: Request) -> None:
        """Refuse requests to an outdated state."""
        if (await read_body(request)).get("revision") != viewer_of(request).edits.revision:
            raise HTTPException(
                409, "Another window changed the procedure. Reload the page, then try again."
            )

    # ------------------------------------------------------------------ videos

    def video(self, request: Request) -> Response:
        """Send a video, or a range of its bytes; untrusted procedures may name any file."""
        path = self._path(request)
        state = path.stat()
        kind = media_type(str(path), (state.st_ino, state.st_size, state.st_mtime_ns))
        return FileResponse(path, media_type=kind, headers={**A_WHILE, **MEDIA})

    def about(self, request: Request) -> Response:
        """Return the frame rate of a video."""
        return Json({"rate": float(probe(self._path(request)).rate or 25)})

    def poster(self, request: Request) -> Response:
        """Send a small picture from early in the video."""
        picture = viewer_of(request).poster(request.path_params["key"], self._path(request))
        return Response(picture, media_type="image/jpeg", headers=A_WHILE)

    def signals(self, request: Request) -> Response:
        """Return the curves of a recording without a video, if its features are available."""
        curves = viewer_of(request).curves(request.path_params["key"])
        return Json(curves or {"names": [], "curves": [], "every": 1.0})

    async def copies(self, request: Request) -> Response:
        """Start a job that makes copies of videos that the browser cannot play.

        `codecs` are those it can decode, and `videos` lists keys that need a copy in any case.
        Returns the keys that need a copy and those that have one.
        """
        body = await read_body(request)
        kind = text_of(body, "kind", "mp4")
        choose("kind", kind, KINDS)
        codecs = as_items("codecs", body.get("codecs", []), str, "a list of codecs, as h264")
        forced = as_items("videos", body.get("videos", []), str, "a list of keys")
        work = partial(self._copies, viewer_of(request), kind, frozenset(codecs), forced)
        return Json(await run_in_threadpool(work))

    def _copies(
        self, viewer: Viewer, kind: str, codecs: frozenset[str], forced: list[str]
    ) -> dict[str, Any]:
        there = {key: path for key, path in viewer.paths().items() if path and Path(path).is_file()}
        needed = [key for key in forced if key in there]
        for key, path in there.items():
            try:
                if key not in needed and not viewer.is_playable(path, codecs):
                    needed.append(key)
            except (VideoError, OSError):
                continue  # no copy is possible either; the page shows the error on opening it
        ready = [key for key in needed if proxy_of(there[key], kind).exists()]
        earlier = [job for job in self.jobs.all() if job.kind == "copies"]
        failed = {
            key: reason
            for job in earlier
            for key in needed
            if (reason := (job.result or {}).get(there[key]))
            and Path(there[key]).stat().st_mtime < job.request["created"]
        }
        missing = [there[key] for key in needed if key not in ready and key not in failed]
        job = next(
            (
                job
                for job in earlier
                if job.state["state"] not in FINISHED
                and set(missing) <= set(job.request["args"]["videos"])
            ),
            None,
        )
        if missing and job is None:
            about = {"videos": missing, "kind": kind}
            job = self.jobs.start("copies", about, viewer.folder, viewer.title)
        made = job.to_json() if missing and job else None
        return {"needed": needed, "ready": ready, "failed": failed, "job": made}

    def copy(self, request: Request) -> Response:
        copy = proxy_of(self._path(request), request.path_params["kind"])
        if not copy.exists():
            raise HTTPException(404, "The copy is not ready.")
        return FileResponse(copy, headers={**A_WHILE, **MEDIA})

    # ------------------------------------------------------------------ check and compare

    async def check(self, request: Request) -> Response:
        """Start a job that checks videos, given by key or by path below the folder of the app."""
        body, viewer = await read_body(request), viewer_of(request)
        keys = as_items("keys", body.get("keys", []), str, "a list of keys")
        names = as_items("videos", body.get("videos", []), str, "a list of paths")
        paths = [str(_path_of(viewer, key)) for key in keys]
        paths += [str(viewer.files.find(name)) for name in names]
        if not paths:
            raise OptionError("no video was selected. Choose one or more.", setting="videos")
        return self._start(viewer, "check", {"videos": paths})

    async def forget(self, request: Request) -> Response:
        await read_body(request)
        viewer = viewer_of(request)
        viewer.checks.remove(request.path_params["key"])
        return Json({"state": await run_in_threadpool(viewer.state)})

    async def upload(self, request: Request) -> Response:
        """Save an uploaded video; return its path."""
        name, files = request.query_params.get("name", ""), viewer_of(request).files
        length = int(request.headers.get("content-length", "0"))
        return Json({"path": await files.receive(name, length, request.stream())})

    async def watch(self, request: Request) -> Response:
        """GET returns the watched folder; POST sets it, or stops watching with null."""
        viewer = viewer_of(request)
        if request.method == "POST":
            name = (await read_body(request)).get("folder")
            viewer.checks.watched = None if name is None else viewer.files.find(str(name), True)
        watched = None if viewer.files.closed else viewer.checks.watched
        problem = self.watching.problems.get(viewer.folder)
        return Json({"folder": watched and viewer.files.shown(watched), "problem": problem})

    async def compare(self, request: Request) -> Response:
        """Compare two groups of videos by key; return sentences, a table and the time budget."""
        body, viewer = await read_body(request), viewer_of(request)
        timelines, steps = viewer.timelines, [step.name for step in viewer.edits.document.steps]
        groups = {}
        for name in ("a", "b"):
            keys = as_items(name, body.get(name, []), str, "a list of keys")
            for key in keys:
                choose(name, key, timelines)
            groups[name.upper()] = {key: timelines[key] for key in keys}
        first, second = (list(group.values()) for group in groups.values())
        table = await run_in_threadpool(compare_groups, first, second, steps)
        budget = time_budget(groups, steps, per_video=True)
        return Json(
            {
                "words": table.caption,
                "columns": table.columns,
                "rows": table.rows,
                "budget": {"columns": budget.columns, "rows": budget.rows},
            }
        )

    # ------------------------------------------------------------------ export

    async def export(self, request: Request) -> Response:
        """Start an export job; with `preview`, list the files instead."""
        body, viewer = await read_body(request), viewer_of(request)
        check_request(body)
        name = text_of(body, "folder", f"{viewer.title}-export")
        if Path(name) != Path(safe_name(name)) or len(Path(name).parts) != 1:
            raise OptionError(
                f"folder={name[:200]!r} is not a plain name. Give a name without slashes.",
                setting="folder",
                value=name,
            )
        target = viewer.folder.resolve().parent / name
        if is_procedure(target):
            raise OptionError(
                f"folder={name!r} is a procedure. Choose another name.",
                setting="folder",
                value=name,
            )
        outline, videos = viewer.edits.outline, viewer.videos
        files = await run_in_threadpool(preview, outline, videos, body)
        check_target(target, [file["path"] for file in files])
        if body.get("preview"):
            return Json({"folder": viewer.files.shown(target), "files": files})
        wish = {key: body[key] for key in ("what", "formats", "rate") if key in body}
        of = str(outline.config.get("fingerprint", ""))
        args = {"wish": wish, "target": str(target), "videos": videos, "fingerprint": of}
        return self._start(viewer, "export", args)

    def download(self, request: Request) -> Response:
        """Send the files of an export as one file."""
        job = self.jobs.get(request.path_params["id"])
        if job is None or job.kind != "export" or job.state["state"] != "done":
            raise HTTPException(404, "No such finished export.")
        return attachment(*pack(job.result))

    # ------------------------------------------------------------------ shared

    def _start(self, viewer: Viewer, kind: str, args: dict[str, Any]) -> Response:
        own = {"folder": str(viewer.folder.resolve()), "trust": viewer.trust}
        job = self.jobs.start(kind, {**own, **args}, viewer.folder, viewer.title)
        return Json(job.to_json())

    def _path(self, request: Request) -> Path:
        return _path_of(viewer_of(request), request.path_params["key"])

    def routes(self) -> list[Route]:
        return [
            Route("/api/state", self.state),
            Route("/api/history", self.history),
            *(
                Route(f"/api/{verb}", self.edit, methods=["POST"])
                for verb in ("edit", "undo", "redo", "severity")
            ),
            Route("/api/teach", self.teach, methods=["POST"]),
            Route("/api/suggest", self.suggest, methods=["POST"]),
            Route("/api/back", self.back, methods=["POST"]),
            Route("/api/about/{key}", self.about),
            Route("/api/signals/{key}", self.signals),
            Route("/api/copies", self.copies, methods=["POST"]),
            Route("/api/check", self.check, methods=["POST"]),
            Route("/api/forget/{key}", self.forget, methods=["POST"]),
            Route("/api/upload", self.upload, methods=["POST"]),
            Route("/api/watch", self.watch, methods=["GET", "POST"]),
            Route("/api/compare", self.compare, methods=["POST"]),
            Route("/api/export", self.export, methods=["POST"]),
            Route("/api/download/{id}", self.download),
            Route("/video/{key}", self.video),
            Route("/poster/{key}", self.poster),
            Route("/copy/{key}/{kind}", self.copy),
        ]


def _path_of(viewer: Viewer, key: str) -> Path:
    path = viewer.paths().get(key)
    if path is None or not Path(path).is_file():
        raise HTTPException(404, "This video is missing.")
    return Path(path)


def procedure_routes(workspace: Workspace, watching: Watching) -> list[Route]:
    """All routes below /p/ID/: calls, jobs and the page."""
    return [
        *Routes(workspace, watching).routes(),
        *HomeRoutes(workspace).job_routes(),
        *page_routes("app", "api/state", "../../"),
    ]


def home_page(workspace: Workspace) -> list[Route]:
    """The start page; with a single procedure, the address of its page."""
    if workspace.only is None:
        return page_routes("home", "api/home")
    place = f"p/{workspace.id_of(workspace.only.folder)}/"
    return [Route("/", lambda _: RedirectResponse(place))]


class Procedures:
    """Find the procedure of each request, and read what other programs have changed in it."""

    def __init__(self, workspace: Workspace, router: Router) -> None:
        self.workspace, self.router = workspace, router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = await run_in_threadpool(self.workspace.viewer, scope["path_params"]["procedure"])
        if viewer is None:
            raise HTTPException(404, "This procedure no longer exists.")
        await self.router({**scope, "viewer": viewer}, receive, send)


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

    router = Router(routes=procedure_routes(workspace, watching))
    routes = [
        Mount("/p/{procedure}", app=Procedures(workspace, router)),
        *HomeRoutes(workspace).routes(),
        *home_page(workspace),
        *file_routes(),
    ]
    return Guard(
        Starlette(routes=routes, exception_handlers=dict(HANDLERS), lifespan=lifespan), token, host
    )
