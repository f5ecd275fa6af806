"""The routes of the app: the start page, the picker, learning, and every procedure under its id."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from stepcut.errors import OptionError, as_items
from stepcut.show.app.watching import Watching
from stepcut.show.app.workspace import Workspace
from stepcut.show.viewer.answers import (
    HANDLERS,
    JobRoutes,
    file_routes,
    page_routes,
    read_body,
)
from stepcut.show.viewer.routes import viewer_routes
from stepcut.show.viewer.security import Guard
from stepcut.version import __version__

MOST_PROBED = 50
"""Videos that one request may ask about."""


class HomeRoutes:
    """What the start page asks for."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def home(self, _: Request) -> Response:
        """All procedures and jobs."""
        space = self.workspace
        jobs = [
            {**job.to_json(), "procedure": self._open_as(str(job.request["about"]))}
            for job in space.jobs.all()
        ]
        return JSONResponse(
            {
                "folder": str(space.root),
                "version": __version__,
                "procedures": space.procedures(),
                "jobs": jobs,
            }
        )

    def _open_as(self, about: str) -> str | None:
        """The id of the procedure that a job is about, once it is there."""
        return next(
            (self.workspace.id_of(one) for one in self.workspace.folders() if str(one) == about),
            None,
        )

    def folder(self, request: Request) -> Response:
        """One folder for the picker."""
        return JSONResponse(self.workspace.listing(request.query_params.get("path", "")))

    async def probe(self, request: Request) -> Response:
        """Length and problems of videos."""
        names = as_items("videos", (await read_body(request)).get("videos", ()), str, "paths")
        if len(names) > MOST_PROBED:
            raise OptionError(f"{len(names)} videos were given; ask about {MOST_PROBED} at a time.")
        return JSONResponse({"videos": await run_in_threadpool(self.workspace.probe, names)})

    async def learn(self, request: Request) -> Response:
        """Learn a procedure, as a job."""
        wish = await read_body(request)
        job = await run_in_threadpool(self.workspace.learn, wish)
        return JSONResponse(job.to_json())

    def routes(self) -> list[Route]:
        """Their paths."""
        return [
            Route("/api/home", self.home),
            Route("/api/folder", self.folder),
            Route("/api/probe", self.probe, methods=["POST"]),
            Route("/api/learn", self.learn, methods=["POST"]),
        ]


class Procedures:
    """Hands each request over to the procedure that it is about."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.routers: dict[str, Router] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `/p/ID/...`."""
        name = scope["path_params"]["id"]
        viewer = await run_in_threadpool(self.workspace.viewer, name)
        if viewer is None:
            self.routers.pop(name, None)
            raise HTTPException(404, "This procedure is not there any more.")
        if name not in self.routers:
            self.routers[name] = Router(routes=viewer_routes(viewer))
        await self.routers[name](scope, receive, send)


def make_app(workspace: Workspace, token: str, host: str = "127.0.0.1") -> Guard:
    """The application of `stepcut app`, guarded."""
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
