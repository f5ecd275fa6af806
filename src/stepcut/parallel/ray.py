"""Work on a Ray cluster: every item is a task in a worker of Ray."""

import math
import os
import secrets
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from stepcut.errors import ExtraNeeded, WorkerDied, wrong
from stepcut.parallel.engine import (
    TRIES,
    Advance,
    Engine,
    count_cores,
    environment,
    import_folders,
    share_cores,
)
from stepcut.parallel.worker import attempt
from stepcut.plugins import install_command

_LAST_WORDS = 30.0
"""Seconds in which a cancelled task must end."""
MOST_ON_A_GPU = 16
"""Workers that share a GPU: each has its own copy of the network there."""


class Ray(Engine):
    """The Ray cluster at `address`, or one on this machine that ends with `close`.

    `workers` limits the parallel tasks; see `open_engine`.
    """

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.address = address
        self._ray, self._began = import_ray(alone=address is None), False
        self._files = ""
        if not self._ray.is_initialized():
            self._begin(workers)
        cluster = int(self._ray.cluster_resources().get("CPU", 0))
        self.workers = workers or max(1, cluster)
        self._limit = workers
        self.threads = max(1, count_cores() // self.workers) if address is None else 1

    def _answers(
        self, work: Callable[[Any], Any], items: Sequence[Any], gpu: float, advance: Advance
    ) -> Generator[tuple[int, Any]]:
        ray = self._ray
        gpus = gpu if self._gpus() else 0
        # Ray restarts a task whose worker or node is lost, on another node if necessary.
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=TRIES - 1, retry_exceptions=False)(
            _do
        )
        waiting = deque(range(len(items)))
        flying: dict[Any, int] = {}
        try:
            while waiting or flying:
                # Twice the current capacity, and enough to make a small cluster grow.
                most = self._limit or max(64, 2 * int(ray.cluster_resources().get("CPU", 1)))
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
            # As with `Local`, nothing is written after this has ended.
            if flying:
                ray.wait(list(flying), num_returns=len(flying), timeout=_LAST_WORDS)
            raise

    def gpu_share(self, device: str) -> float:
        """See `Engine.gpu_share`: CPUs and GPUs of the cluster shall be busy at the same time."""
        gpus = self._gpus()
        if device.startswith("cuda") and not gpus:
            what = ", but this Ray cluster has no GPU. Use --device cpu or add GPUs."
            raise wrong("device", device, what, "cpu")
        if not gpus or device == "cpu":
            return 0.0
        each = max(1, int(self._ray.cluster_resources().get("CPU", 1)) // gpus)
        return math.floor(10_000 / min(each, MOST_ON_A_GPU)) / 10_000

    def _gpus(self) -> int:
        return int(self._ray.cluster_resources().get("GPU", 0))

    def close(self) -> None:
        """See `Engine.close`: a cluster that existed before keeps running."""
        if self._began:
            self._ray.shutdown()
            self._began = False
        shutil.rmtree(self._files, ignore_errors=True)

    def _begin(self, workers: int | None) -> None:
        options: dict[str, Any] = {"address": self.address}
        if self.address is None:
            self._files = tempfile.mkdtemp(prefix="stepcut-ray-")
            options = {
                "address": "local",
                "num_cpus": workers or count_cores(),
                "include_dashboard": False,
                "_temp_dir": self._files,
            }
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
        try:
            return ray.get(reference)
        except ray.exceptions.OutOfMemoryError:
            return WorkerDied(f"the worker needed more memory than its node has, {TRIES} times")
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
        ):
            return WorkerDied(f"the worker process died, {TRIES} times")
        except ray.exceptions.RayError as error:
            what = f"a Ray worker could not begin its work ({str(error).strip().splitlines()[-1]})"
            raise WorkerDied(
                f"{what}. Install the same stepcut and packages on every node."
            ) from error


class _Folders(list[str]):
    """Where workers of Ray find modules: as here, and last in the current folder, for custom parts.

    Ray adds that folder in front of all others, where its files hide installed modules.
    """

    def __init__(self) -> None:
        super().__init__([os.getcwd(), *reversed(import_folders())])  # Ray prepends one by one

    def extend(self, _: object) -> None:
        """Keep what Ray adds out."""


def _do(threads: int, work: Callable[[Any], Any], item: Any) -> Any:
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
    """Import Ray without usage reports; with `alone`, it requires an authentication token.

    Ray reads the authentication mode at import, so an earlier import takes precedence.
    """
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
        raise ExtraNeeded(
            f"engine='ray' is not installed. Run: {install_command('ray')}",
            setting="engine",
            value="ray",
        ) from error
    return ray
