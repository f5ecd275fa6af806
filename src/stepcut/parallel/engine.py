"""Engines do the same work for many items and survive crashes, here or on a Ray cluster."""

import atexit
import math
import os
import pickle
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from multiprocessing.spawn import get_executable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from stepcut.errors import ExtraNeeded, StepcutError, WorkerDied, choose, wrong
from stepcut.parallel import PASSIVE
from stepcut.parallel.worker import attempt, is_worker, reporting
from stepcut.plugins import install_command
from stepcut.settings import check_number

Work = Callable[[Any], Any]
# the number and the answer of every item as it arrives; to close it stops all work
Answers = Generator[tuple[int, Any]]
# called here with the number of an item and its answer, or its exception
Done = Callable[[int, Any], None]
# called here with the number of an item and how many more rows it has, or 0
Advance = Callable[[int, int], None]

TRIES = 2  # attempts before an item is blamed for the death of its worker


class Engine(ABC):
    """A place where work is done. Call `close` at the end."""

    def map(
        self,
        work: Work,
        items: Sequence[Any],
        done: Done = lambda _number, _answer: None,
        gpu: float = 0,
        advance: Advance = lambda _number, _rows: None,
    ) -> list[Any]:
        """Call `work(item)` for every item; return the answers in order, exceptions included.

        A worker that dies is replaced, and its item is tried again; after `TRIES` deaths the
        answer is `WorkerDied`. An exception in `done` or `advance` stops all work. `gpu` is the
        share of a GPU that an item needs on a cluster with some.
        """
        answers: dict[int, Any] = {}
        with closing(self._answers(work, items, gpu, advance)) as arriving:
            for number, answer in arriving:
                answers[number] = answer
                done(number, answer)
        return [answers[number] for number in range(len(items))]

    @abstractmethod
    def _answers(self, work: Work, items: Sequence[Any], gpu: float, advance: Advance) -> Answers:
        pass

    def gpu_share(self, _device: str) -> float:
        return 0.0

    def close(self) -> None:  # noqa: B027
        """Stop the workers."""


class Here(Engine):
    """This process, for work that no worker can do."""

    def _answers(self, work: Work, items: Sequence[Any], _gpu: float, advance: Advance) -> Answers:
        for number, item in enumerate(items):

            def report(kind: str, value: Any, number: int = number) -> None:
                if kind != "limit":
                    advance(number, value or 0)

            with reporting(report):
                answer = attempt(work, item)
            yield number, answer


@contextmanager
def open_engine(
    engine: str | Engine | None = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Engine | None]:
    """Open "local", "ray" or an `Engine`, which stays open; None means this process.

    `workers` are by default as many as cores and memory allow, or the cluster has.
    """
    if workers is not None:
        check_number("workers", workers, 1, whole=True)
    if engine is not None and not isinstance(engine, str):
        yield engine
    elif engine in (None, "local") and workers is None and address is None:
        yield None
    else:
        with closing(choose("engine", engine or "local", ENGINES)(workers, address)) as chosen:
            yield chosen


# ---------- cores, folders, processes


def count_cores() -> int:
    if text := os.environ.get("STEPCUT_CORES"):
        if not re.fullmatch("0*[1-9][0-9]{0,5}", text):
            what = "in the environment is not a number of cores from 1 up."
            raise wrong("STEPCUT_CORES", text, what)
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8e9


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def share_cores(cores: int) -> AbstractContextManager[None]:
    """Limit `count_cores()` and the threads of libraries that are not loaded yet to `cores`."""
    names = ("STEPCUT_CORES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return environment(**{**PASSIVE, **os.environ, **dict.fromkeys(names, str(cores))})


def import_folders() -> list[str]:
    """Return `sys.path` without the current folder, which may contain files of others."""

    def is_here(folder: str) -> bool:
        with suppress(OSError):
            return os.path.samefile(folder, os.curdir)
        return False

    own = str(Path(__file__).parents[2])  # where stepcut itself lies
    folders = [folder for folder in sys.path if os.path.isabs(folder)]
    return [folder for folder in folders if folder == own or not is_here(folder)]


def isolated(code: str, *args: str) -> list[str]:
    found = f"import sys; sys.path = {import_folders()!r}\n"
    return [os.fsdecode(get_executable()), "-I", "-c", found + code, *args]


# ---------- this machine

_PATIENCE = 5.0  # seconds in which a stopped worker removes its partial files
# Seconds between looks for hanging workers; ticks do not count while a machine is suspended.
_TICK = 0.5
CODE = "from stepcut.parallel.worker import serve\nserve()\n"


class _Process:
    def __init__(self, threads: int, conditions: tuple[object, ...]) -> None:
        self.conditions = conditions
        with share_cores(threads):
            # In a new session, since Ctrl-C must reach the parent only.
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(isolated(CODE), **pipes, start_new_session=True)
        self.pipes: Any = (self.process.stdin, self.process.stdout)
        self.ready = False
        self.limit: tuple[float, str] | None = None
        self.quiet = 0.0

    def give(self, data: bytes, messages: "Messages") -> None:
        self.limit, self.quiet = None, 0.0
        self._reader = threading.Thread(target=self._read, args=[messages], daemon=True)
        self._reader.start()
        with suppress(OSError):  # it died: the reader sees the end
            pickle.dump(data, self.pipes[0])
            self.pipes[0].flush()

    def _read(self, messages: "Messages") -> None:
        kind = ""
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while kind != "answer":
                kind, value = pickle.load(self.pipes[1])
                messages.put((self, kind, value))
        if kind != "answer":
            messages.put((self, "end", None))

    def end(self, patience: float = 0.0) -> str:
        """Wait for its end, but not for one that the system cannot end; return how it ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)
            self._reader.join(1)
            for pipe in self.pipes:
                with suppress(OSError):  # an unsent message
                    pipe.close()
        code = self.process.returncode
        names = {-number.value: number.name for number in signal.Signals}
        return f"died by {names[code]}" if code in names else f"ended with exit code {code}"


Messages = SimpleQueue[tuple[_Process, str, Any]]


def _stop(processes: Sequence[_Process]) -> None:
    for process in processes:
        process.process.terminate()
    until = time.monotonic() + _PATIENCE
    for process in processes:
        process.end(max(0.0, until - time.monotonic()))


class Local(Engine):
    """Worker processes on this machine, from the first work until `close`."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if address is not None:
            what = "belongs to a Ray cluster. Add engine='ray' (--engine ray)."
            raise wrong("address", address, what)
        # A worker needs a gigabyte for libraries, backbone, decoder and a batch of frames.
        able = min(count_cores(), int(free_memory() / 2**30), 16)
        self.workers = workers or max(1, able)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()

    def _answers(self, work: Work, items: Sequence[Any], _gpu: float, advance: Advance) -> Answers:
        most = min(self.workers, len(items))
        threads = max(1, count_cores() // max(1, most))
        waiting = deque(range(len(items)))
        tries = dict.fromkeys(waiting, 0)
        busy: dict[_Process, int] = {}
        messages: Messages = SimpleQueue()
        looked = time.monotonic()
        try:
            while waiting or busy:
                while waiting and len(busy) < most:
                    data = pickle.dumps((work, items[waiting[0]]))
                    number, process = waiting.popleft(), self._take(threads)
                    tries[number] += 1
                    busy[process] = number
                    process.give(data, messages)
                with suppress(Empty):
                    process, kind, value = messages.get(timeout=_TICK)
                    if process not in busy:
                        continue
                    process.quiet, number = 0.0, busy[process]
                    if kind == "answer":
                        del busy[process]
                        with self._lock:
                            self._idle.append(process)
                        yield number, pickle.loads(value)
                    elif kind == "end":
                        del busy[process]
                        ending = process.end(1.0)
                        if not process.ready:
                            what = f"a worker process cannot start ({ending}). Free memory, then "
                            raise StepcutError(f"{what}try again.")
                        if tries[number] < TRIES:
                            waiting.appendleft(number)
                        else:
                            yield number, WorkerDied(f"the worker process {ending}, {TRIES} times")
                    elif kind == "limit":
                        process.limit = value
                    elif kind == "ready":
                        process.ready = True
                    else:
                        advance(number, value or 0)
                if time.monotonic() - looked >= _TICK:
                    looked = time.monotonic()
                    for number in list(busy.values())[:1]:
                        advance(number, 0)
                    yield from self._end_hanging(busy)
        except BaseException:
            _stop([*busy])
            self.close()
            raise

    def _end_hanging(self, busy: dict[_Process, int]) -> Answers:
        for process, number in list(busy.items()):
            process.quiet += _TICK
            if process.limit is not None and process.quiet > process.limit[0]:
                seconds, doing = process.limit
                del busy[process]
                process.end()
                yield number, WorkerDied(f"no progress for {seconds:g} seconds while {doing}")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        _stop(idle)

    def _take(self, threads: int) -> _Process:
        folder = ""
        with suppress(OSError):  # it was removed
            folder = os.getcwd()
        conditions = threads, folder, sorted(os.environ.items()), import_folders()
        with self._lock:
            idle, self._idle = self._idle, []
        fit = []
        for process in idle:
            if process.process.poll() is None and process.conditions == conditions:
                fit.append(process)
            else:
                process.end()
        with self._lock:
            self._idle += fit[1:]
        return fit[0] if fit else _Process(threads, conditions)


_shared: dict[int, Local] = {}
_asking = threading.BoundedSemaphore(4)


def shared() -> Local:
    """Return the pool of this process, whose workers end when they have nothing to do."""
    process = os.getpid()  # a fork has no threads that read from the workers of its parent
    if process not in _shared:
        _shared[process] = Local()
        atexit.register(_shared[process].close)
    return _shared[process]


def ask(work: Work, item: Any) -> Any:
    """Return `work(item)`, done by a worker of this machine, or raise its error."""
    if is_worker():
        return work(item)
    with _asking:
        [answer] = shared().map(work, [item])
    if isinstance(answer, Exception):
        raise answer
    return answer


# ---------- a Ray cluster


class Ray(Engine):
    """The Ray cluster at `address`, or one on this machine that ends with `close`."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.address = address
        self._ray, self._began, self._files = import_ray(alone=address is None), False, ""
        if not self._ray.is_initialized():
            self._begin(workers)
        self.workers, self._limit = workers or max(1, self._count("CPU")), workers
        self.threads = max(1, count_cores() // self.workers) if address is None else 1

    def _answers(self, work: Work, items: Sequence[Any], gpu: float, advance: Advance) -> Answers:
        ray = self._ray
        # Ray restarts a task whose worker or node is lost, on another node if necessary.
        gpus, retries = gpu if self._count("GPU") else 0, TRIES - 1
        how = {"num_cpus": 1, "num_gpus": gpus, "max_retries": retries, "retry_exceptions": False}
        task = ray.remote(**how)(_do)
        waiting = deque(range(len(items)))
        flying: dict[Any, int] = {}
        try:
            while waiting or flying:
                # Twice the current capacity, and enough to make a small cluster grow.
                most = self._limit or max(64, 2 * self._count("CPU"))
                while waiting and len(flying) < most:
                    number = waiting.popleft()
                    flying[task.remote(self.threads, work, items[number])] = number
                ready, _ = ray.wait(list(flying), num_returns=1, timeout=10.0)
                for number in list(flying.values())[:1]:
                    advance(number, 0)
                for reference in ready:
                    number = flying.pop(reference)
                    yield number, self._answer(reference)
        except BaseException:
            for reference in flying:
                ray.cancel(reference, force=True)
            if flying:  # as with `Local`, nothing is written after this has ended
                ray.wait(list(flying), num_returns=len(flying), timeout=30.0)
            raise

    def gpu_share(self, device: str) -> float:
        gpus = self._count("GPU")
        if device.startswith("cuda") and not gpus:
            what = ", but this Ray cluster has no GPU. Use --device cpu or add GPUs."
            raise wrong("device", device, what, "cpu")
        if not gpus or device == "cpu":
            return 0.0
        # CPUs and GPUs shall be busy at the same time; each worker has a copy of the network.
        each = max(1, self._count("CPU") // gpus)
        return math.floor(10_000 / min(each, 16)) / 10_000

    def _count(self, kind: str) -> int:
        return int(self._ray.cluster_resources().get(kind, 0))

    def close(self) -> None:
        if self._began:
            self._ray.shutdown()
            self._began = False
        shutil.rmtree(self._files, ignore_errors=True)

    def _begin(self, workers: int | None) -> None:
        options: dict[str, Any] = {"address": self.address}
        if self.address is None:
            self._files = tempfile.mkdtemp(prefix="stepcut-ray-")
            options = {"address": "local", "num_cpus": workers or count_cores()}
            options |= {"include_dashboard": False, "_temp_dir": self._files}
        try:
            # New processes find the same modules as this one, as with `Local`.
            modules = environment(PYTHONPATH=os.pathsep.join(import_folders()), PYTHONSAFEPATH="1")
            with modules, _alone(self._ray) if self.address is None else nullcontext():
                self._ray.init(
                    **options,
                    job_config=self._ray.job_config.JobConfig(_py_driver_sys_path=_Folders()),
                    log_to_driver=False,
                    configure_logging=False,
                    logging_level="ERROR",
                )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = f": no Ray cluster answers ({reason}). Start one with: ray start --head; or run "
            raise wrong("address", self.address, f"{what}without --address.") from error
        self._began = True

    def _answer(self, reference: Any) -> Any:
        ray = self._ray
        lost = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError")
        try:
            return ray.get(reference)
        except ray.exceptions.OutOfMemoryError:
            return WorkerDied(f"the worker needed more memory than its node has, {TRIES} times")
        except tuple(getattr(ray.exceptions, name) for name in lost):
            return WorkerDied(f"the worker process died, {TRIES} times")
        except ray.exceptions.RayError as error:
            what = f"a Ray worker could not begin its work ({str(error).strip().splitlines()[-1]})"
            advice = "Install the same stepcut and packages on every node."
            raise WorkerDied(f"{what}. {advice}") from error


class _Folders(list[str]):
    """Where workers of Ray find modules: as here, and last in the current folder.

    Ray adds that folder in front, where its files hide installed modules.
    """

    def __init__(self) -> None:
        super().__init__([os.getcwd(), *reversed(import_folders())])  # Ray prepends one by one

    def extend(self, _: object) -> None:
        """Keep what Ray adds out."""


def _do(threads: int, work: Work, item: Any) -> Any:
    with share_cores(threads):
        return attempt(work, item)


@contextmanager
def _alone(ray: Any) -> Iterator[None]:
    """Make Ray start on the loopback interface only."""
    # Ray uses a public address if it expects other nodes to join.
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with environment(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0"):
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def import_ray(alone: bool = False) -> Any:
    """Import Ray without usage reports; with `alone`, it requires an authentication token."""
    if alone and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray's workers have a low priority by default; those of `Local` do not.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        what = f"engine='ray' is not installed. Run: {install_command('ray')}"
        raise ExtraNeeded(what, setting="engine", value="ray") from error
    return ray


ENGINES: dict[str, Callable[[int | None, str | None], Engine]] = {"local": Local, "ray": Ray}
