"""Routes of the app: start page, file picker, learning, and every procedure under its id."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from stepcut.app.answers import HANDLERS, JobRoutes, file_routes, page_routes, read_body
from stepcut.app.routes import viewer_routes
from stepcut.app.security import Guard
from stepcut.app.watching import Watching
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, as_items

MOST_PROBED = 50
"""Maximum number of videos per request."""


class HomeRoutes:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def home(self, _: Request) -> Response:
        space = self.workspace
        jobs = [
            {**job.to_json(), "procedure": self._open_as(str(job.request["about"]))}
            for job in space.jobs.all()
        ]
        return JSONResponse(
            {
                "folder": str(space.root),
                "procedures": space.procedures(),
                "jobs": jobs,
            }
        )

    def _open_as(self, about: str) -> str | None:
        """Id of the procedure that a job creates, once it exists."""
        return next(
            (self.workspace.id_of(one) for one in self.workspace.folders() if str(one) == about),
            None,
        )

    def folder(self, request: Request) -> Response:
        """List one folder for the file picker."""
        return JSONResponse(self.workspace.listing(request.query_params.get("path", "")))

    async def probe(self, request: Request) -> Response:
        names = as_items("videos", (await read_body(request)).get("videos", ()), str, "paths")
        if len(names) > MOST_PROBED:
            raise OptionError(
                f"videos has {len(names)} entries; send at most {MOST_PROBED}.",
                setting="videos",
                value=len(names),
                allowed=MOST_PROBED,
            )
        return JSONResponse({"videos": await run_in_threadpool(self.workspace.probe, names)})

    async def learn(self, request: Request) -> Response:
        body = await read_body(request)
        job = await run_in_threadpool(self.workspace.learn, body)
        return JSONResponse(job.to_json())

    def routes(self) -> list[Route]:
        return [
            Route("/api/home", self.home),
            Route("/api/folder", self.folder),
            Route("/api/probe", self.probe, methods=["POST"]),
            Route("/api/learn", self.learn, methods=["POST"]),
        ]


class Procedures:
    """Dispatch each request to its procedure."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.routers: dict[str, Router] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/p/ID/...`."""
        name = scope["path_params"]["id"]
        viewer = await run_in_threadpool(self.workspace.viewer, name)
        if viewer is None:
            self.routers.pop(name, None)
            raise HTTPException(404, "This procedure no longer exists.")
        if name not in self.routers:
            self.routers[name] = Router(routes=viewer_routes(viewer))
        await self.routers[name](scope, receive, send)


def make_app(workspace: Workspace, token: str, host: str = "127.0.0.1") -> Guard:
    """Return the guarded application of `stepcut app`."""
    watching = Watching(workspace)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        workspace.jobs.open()
        watching.open()
        yield
        await run_in_threadpool(watching.close)
        await run_in_threadpool(workspace.jobs.close)

    routes = [
        *HomeRoutes(workspace).routes(),
        *JobRoutes(workspace.jobs).routes(),
        Mount("/p/{id}", app=Procedures(workspace)),
        *page_routes("home", "api/home"),
        *file_routes(),
    ]
    return Guard(
        Starlette(routes=routes, exception_handlers=dict(HANDLERS), lifespan=lifespan), token, host
    )
