"""The calls and pages: functions of the workspace or procedure and of the request."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from stepcut.app.jobs import Job
from stepcut.app.security import MEDIA, Guard
from stepcut.app.state import OtherTimelines, Viewer
from stepcut.app.tasks import check_target, pack, preview, read_wish
from stepcut.app.watching import Watching
from stepcut.app.workspace import Workspace
from stepcut.errors import (
    OptionError,
    OutputError,
    StepcutError,
    VideoError,
    as_items,
    choose,
    in_words,
    printable,
    wrong,
)
from stepcut.evaluation.compare import compare_groups
from stepcut.evaluation.times import WHOLE, Times

# Imported here, because concurrent imports in request threads can see partial modules.
from stepcut.features.video.container import probe
from stepcut.files.names import Fragment, safe_name
from stepcut.formats import read_folder
from stepcut.procedure.corrections import StaleEdit
from stepcut.procedure.edits import go_back, history, take_back
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.learning import described_settings
from stepcut.procedure.verbs import step_in
from stepcut.show.clips import HEIGHT, KINDS, proxy_of

Values = dict[str, Any]
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
A_WHILE = {"cache-control": "private, max-age=3600"}
BEHIND = "Another window changed the procedure"
NEXT = 3
MOST_PROBED = 50
LONGEST_AUTHOR = 100
BEGINNINGS = (
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),  # also .mkv, which browsers play under this name
    (0, b"OggS", "video/ogg"),
    (8, b"AVI ", "video/x-msvideo"),
    (0, b"FLV", "video/x-flv"),
    (0, b"\x30\x26\xb2\x75", "video/x-ms-wmv"),
    (0, b"\x00\x00\x01\xba", "video/mpeg"),
    (0, b"\x47", "video/mp2t"),
)


# ---------- pages and their files


@cache
def static_files() -> dict[str, bytes]:
    files = (resources.files("stepcut.app") / "static").iterdir()
    return {file.name: file.read_bytes() for file in files if Path(file.name).suffix in TYPES}


@cache
def static_address() -> str:
    """It changes with the content, so browsers can cache the files."""
    return f"files/{sha256(b''.join(static_files().values())).hexdigest()[:12]}"


def imports(script: str) -> set[str]:
    found, left = {script}, [script]
    while left:
        text = static_files()[left.pop()].decode()
        fresh = set(re.findall(r'from "\./(\w+\.js)"', text)) - found
        found |= fresh
        left += fresh
    return found


def page_route(name: str, data: str, up: str = "") -> Route:
    files, address = static_files(), up + static_address()
    kinds = {".css": "stylesheet", ".js": "modulepreload"}
    wanted = {*imports(f"{name}.js"), *(file for file in files if file.endswith(".css"))}
    # style.css is first, so that the other style sheets can override it
    ordered = sorted(wanted, key=lambda file: (file != "style.css", file))
    links = [f'<link rel="{kinds[Path(file).suffix]}" href="{address}/{file}">' for file in ordered]
    parts = {"links": "\n".join(links), "data": data, "script": f"{name}.js", "files": address}
    text = files["frame.html"].decode().replace("{body}", files[f"{name}.html"].decode().strip())
    for key, value in parts.items():
        text = text.replace(f"{{{key}}}", value)

    async def page(_: Request) -> Response:
        return Response(text, media_type="text/html", headers={"cache-control": "no-cache"})

    return Route("/", page)


async def static_file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in static_files():
        raise HTTPException(404, "No such file.")
    return Response(static_files()[name], media_type=TYPES[Path(name).suffix], headers=FOREVER)


# ---------- bodies and answers


class Json(Response):
    """JSON in which bytes of file names that are not UTF-8 are escaped."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return msgspec.json.encode(content)
        except UnicodeEncodeError:
            return msgspec.json.encode(_readable(msgspec.to_builtins(content)))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    return [_readable(one) for one in value] if isinstance(value, list | tuple) else value


async def read_body(request: Request) -> Values:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise OptionError(f"the request is {body!r}; send a JSON object.", value=body)
    return body


def text_of(values: Values, key: str, default: str | None = None) -> str:
    value = values.get(key, default)
    if not isinstance(value, str):
        raise wrong(key, value, "is not a string.")
    return value


def names_in(values: Values, key: str) -> list[str]:
    return as_items(key, values.get(key, []), str, f"a list of {key}")


async def error_response(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return Json({"error": error.detail}, error.status_code, error.headers)
    status = 507 if isinstance(error, OutputError) else 422
    words = " ".join(in_words(error).split())
    if not isinstance(error, StepcutError):
        status, words = 500, f"This is a bug in stepcut; please report it ({words})."
    return Json({"error": words}, status)


HANDLERS: dict[Any, Any] = dict.fromkeys((HTTPException, StepcutError, Exception), error_response)


# ---------- the folder of the app


def home(space: Workspace, _: Values) -> Values:
    opened = {str(folder): space.id_of(folder) for folder in space.folders()}
    jobs = [
        {**job.to_json(), "procedure": opened.get(job.request["about"])} for job in space.jobs.all()
    ]
    return {"folder": str(space.files.root), "procedures": space.procedures(), "jobs": jobs}


def all_settings(_: Workspace, __: Values) -> Values:
    groups = described_settings().items()
    return {group: [one.to_json() for one in settings.values()] for group, settings in groups}


def mend(space: Workspace, values: Values) -> Values:
    space.restore(text_of(values, "id", ""))
    return home(space, values)


def probe_videos(space: Workspace, values: Values) -> Values:
    videos = names_in(values, "videos")
    if len(videos) > MOST_PROBED:
        raise OptionError(f"videos has {len(videos)} entries; send at most {MOST_PROBED}.")
    return {"videos": space.probe(videos)}


# ---------- jobs


def job_of(place: Workspace | Viewer, values: Values) -> Job:
    job = place.jobs.get(values["id"])
    if job is None:
        raise HTTPException(404, "No such job.")
    return job


def change_job(place: Workspace | Viewer, values: Values) -> Values:
    if values["verb"] not in ("cancel", "resume", "forget"):
        raise HTTPException(404, "A job can be cancelled, resumed or forgotten.")
    job = job_of(place, values)
    getattr(place.jobs, values["verb"])(job)
    return job.to_json()


def start(viewer: Viewer, kind: str, **args: Any) -> Values:
    own = {"folder": str(viewer.folder.resolve()), "trust": viewer.trust}
    return viewer.jobs.start(kind, {**own, **args}, viewer.folder, viewer.title).to_json()


# ---------- annotations and teaching


def state(viewer: Viewer, values: Values) -> Values:
    return {} if values.get("known") == viewer.stamp else viewer.state()


def change(verb: str, viewer: Viewer, values: Values) -> Values | Response:
    edits, wish = viewer.edits, values.get("edit", {})
    if verb == "severity":
        wish = {"do": verb, "step": values.get("step"), "severity": values.get("severity")}
    work = {"undo": edits.undo, "redo": edits.redo}.get(verb, partial(edits.do, wish))
    author = text_of(values, "author", "")[:LONGEST_AUTHOR]
    try:
        words = work(str(values.get("revision")), author)
    except StaleEdit:
        sentence = f"{BEHIND}, so your change was not saved."
        return Json({"error": sentence, "state": viewer.state()}, 409)
    return {"words": words, "state": viewer.state()}


def show_beside(viewer: Viewer, values: Values) -> Values:
    """Show the labels of another person beside ours, or none."""
    beside = None
    if (name := values.get("labels")) is not None:
        found = read_folder(viewer.files.find_labels(str(name)))
        beside = OtherTimelines.of(Path(str(name)).name or "labels", found, viewer.videos)
    viewer.beside = beside
    return {"state": viewer.state()}


def set_rule(viewer: Viewer, values: Values) -> Values:
    viewer.edits.set_rule(text_of(values, "rule", ""), bool(values.get("holds", True)))
    return viewer.rules()


def check_revision(viewer: Viewer, values: Values) -> None:
    if values.get("revision") != viewer.edits.revision:
        raise HTTPException(409, f"{BEHIND}. Reload the page, then try again.")


def teach(viewer: Viewer, values: Values) -> Values:
    check_revision(viewer, values)
    now = [job for job in viewer.jobs.all() if job.kind == "teach" and not job.is_finished]
    for job in now:
        if job.request["about"] == str(viewer.folder.resolve()):
            return {**job.to_json(), "running": True}
    keep = [name for name in names_in(values, "keep") if name in viewer.edits.document.segments]
    return start(viewer, "teach", keep=keep)


def adopt(viewer: Viewer, values: Values) -> Values:
    """Add checked videos (`keys`), or files of the folder (`videos`)."""
    check_revision(viewer, values)
    return start(viewer, "adopt", videos=chosen_videos(viewer, values))


def back(viewer: Viewer, values: Values) -> Values:
    check_revision(viewer, values)
    to, before = values.get("to"), viewer.fingerprint
    if to is None:
        take_back(viewer.folder)
    elif isinstance(to, int):
        go_back(viewer.folder, to)
    else:
        raise wrong("to", to, "is not the id of a change; see api/history.")
    viewer.refresh()
    checked = [video.source for video in viewer.checks.all() if Path(video.path).is_file()]
    if checked and viewer.fingerprint != before:
        start(viewer, "check", videos=checked)
    words = "what was learned from annotations" if to is None else f"all after change {to}"
    return {"words": words, "state": viewer.state()}


# ---------- videos


def path_of(viewer: Viewer, key: str) -> Path:
    path = viewer.paths().get(key)
    if path is None or not Path(path).is_file():
        raise HTTPException(404, "This video is missing.")
    return Path(path)


def source_of(viewer: Viewer, key: str) -> str:
    """The path, with the part of the file that is the recording."""
    checked = {video.key: video.name for video in viewer.checks.all()}
    learned = {key: name for key, (name, _) in viewer.recordings().items()}
    return Fragment.of({**learned, **checked}.get(key, "")).at(str(path_of(viewer, key)))


@lru_cache(maxsize=4096)
def media_type(path: str, _: tuple[int, ...]) -> str:
    probe(path)
    with open(path, "rb") as file:
        head = file.read(16)
    return next(
        (kind for at, begin, kind in BEGINNINGS if head[at:].startswith(begin)), "video/mp4"
    )


def video(viewer: Viewer, values: Values) -> Response:
    path = path_of(viewer, values["key"])
    now = path.stat()
    kind = media_type(str(path), (now.st_ino, now.st_size, now.st_mtime_ns))
    return FileResponse(path, media_type=kind, headers={**A_WHILE, **MEDIA})


def poster(viewer: Viewer, values: Values) -> Response:
    picture = viewer.poster(values["key"], path_of(viewer, values["key"]))
    return Response(picture, media_type="image/jpeg", headers=A_WHILE)


def about(viewer: Viewer, values: Values) -> Values:
    info = probe(path_of(viewer, values["key"]))
    return {"rate": float(info.rate or 25), "coarse": info.height > HEIGHT}


def copies(viewer: Viewer, values: Values) -> Values:
    """Make copies of videos that need one: those in `videos`, and those not in `codecs`.

    The one on `stage` comes first, and its beginning before the whole.
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
        and Path(there[key]).stat().st_ctime < job.request["created"]  # a camera sets mtime
    }
    missing = [there[key] for key in needed if key not in ready and key not in failed]
    stage = there.get(text_of(values, "stage", ""))
    missing = sorted(dict.fromkeys(missing), key=lambda path: path != stage)
    begun = [key for key in needed if proxy_of(there[key], kind, beginning=True).exists()]
    job = None
    if missing:
        now = [job for job in earlier if not job.is_finished]
        busy = [job for job in now if {*missing} <= {*job.request["args"]["videos"]}]
        wish = {"videos": missing, "kind": kind}
        job = [*busy, None][0] or viewer.jobs.start("copies", wish, viewer.folder, viewer.title)
    told = {"needed": needed, "ready": ready, "begun": begun, "failed": failed}
    return {**told, "job": job and job.to_json()}


def copy(viewer: Viewer, values: Values) -> Response:
    begins = "beginning" in values
    copy = proxy_of(path_of(viewer, values["key"]), values["kind"], begins)
    if not copy.exists():
        raise HTTPException(404, "The copy is not ready.")
    return FileResponse(copy, headers={**A_WHILE, **MEDIA})


# ---------- check, compare, export


def check(viewer: Viewer, values: Values) -> Values:
    return start(viewer, "check", videos=chosen_videos(viewer, values))


def chosen_videos(viewer: Viewer, values: Values) -> list[str]:
    paths = [source_of(viewer, key) for key in names_in(values, "keys")]
    paths += [str(viewer.files.find(name)) for name in names_in(values, "videos")]
    if not paths:
        raise OptionError("no video was selected. Choose one or more.", setting="videos")
    return paths


def forget(viewer: Viewer, values: Values) -> Values:
    viewer.checks.remove(values["key"])
    return {"state": viewer.state()}


async def upload(request: Request) -> Response:
    name, files = request.query_params.get("name", ""), request.scope["subject"].files
    length = int(request.headers.get("content-length", "0"))
    return Json({"path": await files.receive(name, length, request.stream())})


def watched(watching: Watching, viewer: Viewer, _: Values) -> Values:
    folder = None if viewer.files.closed else viewer.checks.watched
    problem = watching.problems.get(viewer.folder) or None
    return {"folder": folder and viewer.files.shown(folder), "problem": problem}


def watch(watching: Watching, viewer: Viewer, values: Values) -> Values:
    name = values.get("folder")
    viewer.checks.watched = None if name is None else viewer.files.find(str(name), folder=True)
    return watched(watching, viewer, values)


def compare(viewer: Viewer, values: Values) -> Values:
    timelines, steps = viewer.timelines, [step.name for step in viewer.edits.document.steps]
    groups = {
        name.upper(): {key: choose(name, key, timelines) for key in names_in(values, name)}
        for name in ("a", "b")
    }
    first, second = (list(group.values()) for group in groups.values())
    table = compare_groups(first, second, steps)
    times = Times(groups, steps).per_recording
    return {
        "words": table.caption,
        "columns": table.columns,
        "rows": table.rows,
        "times": {"columns": times.columns, "rows": times.rows},
    }


def times(viewer: Viewer, values: Values) -> Values:
    document, wish = viewer.edits.document, values.get("takt") or None
    with suppress(ValueError):
        wish = wish and float(wish.replace(",", "."))
    steps, said = [step.name for step in document.steps], document.said
    number = values.get("step", "")
    chosen = document.step(int(number)) if number.isdecimal() else None
    found = Times(
        {"": viewer.edits.outline.timelines},
        steps,
        said.classes,
        by=values.get("by", "recording"),
        takt=wish,
        step=chosen.name if chosen else WHOLE,
        paths=viewer.videos,
    )
    limits = viewer.edits.limits
    about = [
        {
            "number": step.number,
            "name": step.name,
            "kind": said.classes.get(step.name),
            "limit": limits.get(step.name, ""),
            "note": said.notes.get(step.name, ""),
        }
        for step in document.steps
    ]
    return {**found.to_json(), "steps": about}


def set_limit(viewer: Viewer, values: Values) -> Values:
    step = step_in(viewer.edits.document, values, "step")
    viewer.edits.set_limit(step.name, text_of(values, "limit"))
    return {"limits": viewer.edits.limits}


def export(viewer: Viewer, values: Values) -> Values:
    wish = read_wish(values)
    name = text_of(values, "folder", f"{viewer.title}-export")
    target = viewer.folder.resolve().parent / name
    if Path(name) != Path(safe_name(name)) or len(Path(name).parts) != 1:
        raise wrong("folder", name[:200], "is not a plain name. Give a name without slashes.")
    if is_procedure(target):
        raise wrong("folder", name[:200], "is a procedure. Choose another name.")
    outline, videos = viewer.edits.outline, viewer.videos
    files = preview(outline, videos, wish)
    check_target(target, [file["path"] for file in files])
    if values.get("preview"):
        return {"folder": viewer.files.shown(target), "files": files}
    of = outline.config.fingerprint
    args = {"wish": wish._asdict(), "target": str(target), "videos": videos, "fingerprint": of}
    return start(viewer, "export", **args)


def download(viewer: Viewer, values: Values) -> Response:
    job = viewer.jobs.get(values["id"])
    if job is None or job.kind != "export" or job.state["state"] != "done":
        raise HTTPException(404, "No such finished export.")
    name, data = pack(job.result)
    headers = {"content-disposition": f"attachment; filename*=utf-8''{quote(name)}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


# ---------- routes


def call(path: str, work: Callable[[Any, Values], Any], method: str = "GET") -> Route:

    async def answer(request: Request) -> Response:
        body = await read_body(request) if method == "POST" else request.query_params
        values = {**body, **request.path_params}
        found = await run_in_threadpool(work, request.scope["subject"], values)
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
    post("/api/cycles", lambda space, values: space.cycles(values).to_json()),
    *JOBS,
]


def procedure_routes(watching: Watching) -> list[Route]:
    return [
        call("/api/state", state),
        call("/api/history", lambda at, _: {"events": list(map(asdict, history(at.folder)))}),
        *(
            post(f"/api/{verb}", partial(change, verb))
            for verb in ("edit", "undo", "redo", "severity")
        ),
        call("/api/rules", lambda viewer, _: viewer.rules()),
        post("/api/rules", set_rule),
        post("/api/beside", show_beside),
        post("/api/teach", teach),
        post("/api/adopt", adopt),
        # The suggestion depends on the annotations.
        post(
            "/api/suggest",
            lambda at, _: start(at, "suggest", count=NEXT, revision=at.edits.revision),
        ),
        post("/api/back", back),
        call("/api/about/{key}", about),
        call("/api/signals/{key}", lambda viewer, values: viewer.curves(values["key"])),
        post("/api/copies", copies),
        post("/api/check", check),
        post("/api/forget/{key}", forget),
        Route("/api/upload", upload, methods=["POST"]),
        call("/api/watch", partial(watched, watching)),
        post("/api/watch", partial(watch, watching)),
        post("/api/compare", compare),
        call("/api/times", times),
        post("/api/limit", set_limit),
        post("/api/export", export),
        call("/api/download/{id}", download),
        call("/video/{key}", video),
        call("/poster/{key}", poster),
        call("/copy/{key}/{kind}", copy),
        *JOBS,
        page_route("app", "api/state", "../../"),
    ]


class Subjects:
    def __init__(self, workspace: Workspace, router: Router) -> None:
        self.workspace, self.router = workspace, router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subject: Workspace | Viewer | None = self.workspace
        if name := scope["path_params"].get("procedure"):
            subject = await run_in_threadpool(self.workspace.viewer, name)
        if subject is None:
            raise HTTPException(404, "This procedure no longer exists.")
        await self.router({**scope, "subject": subject}, receive, send)


def make_app(space: Workspace, token: str, host: str = "127.0.0.1") -> Guard:
    watching = Watching(space)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        space.open()
        watching.open()
        yield
        await run_in_threadpool(watching.close)
        await run_in_threadpool(space.jobs.close)

    page = page_route("home", "api/home")
    if space.only is not None:
        only = f"p/{space.id_of(space.only.folder)}/"
        page = Route("/", lambda _: RedirectResponse(only))
    around = [*HOME, page, Route(f"/{static_address()}/{{file}}", static_file)]
    routes = [
        Mount("/p/{procedure}", app=Subjects(space, Router(routes=procedure_routes(watching)))),
        Mount("/", app=Subjects(space, Router(routes=around))),
    ]
    app = Starlette(routes=routes, exception_handlers=dict(HANDLERS), lifespan=lifespan)
    return Guard(app, token, host)
