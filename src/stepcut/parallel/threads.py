"""Work in threads of this process, whose workers tell of their progress on the way."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stepcut.parallel.contract import Answer, Done, Item, count_cores


class Stopped(Exception):
    """Raised inside the work when somebody asked for it to stop."""


def map_threads(
    work: Callable[[Item, Callable[[int], None]], Answer],
    items: Sequence[Item],
    done: Done[Answer],
    told: Callable[[int, int], None],
    workers: int | None = None,
) -> list[Answer | Exception]:
    """`work(item, tell)` for every item; the answers in the order of the items, an exception where an item raised it.

    work     calls `tell(count)` on the way, which ends it when the others were stopped
    items    what to work on
    done     is called here, in the caller's thread, with the number of an item and its answer; what it raises stops all
    told     is called here with the number of an item and the count that its worker told
    workers  how many items at once; as many as cores unless given
    """
    events: queue.SimpleQueue[tuple[int, int | None, Any]] = queue.SimpleQueue()
    stop = threading.Event()
    answers: list[Any] = [None] * len(items)

    def run(number: int) -> None:
        def tell(count: int) -> None:
            if stop.is_set():
                raise Stopped
            events.put((number, count, None))

        try:
            tell(0)
            answer: Any = work(items[number], tell)
        except BaseException as error:  # whatever it is, the caller's thread decides
            answer = error
        events.put((number, None, answer))

    with ThreadPoolExecutor(workers or count_cores(), thread_name_prefix="stepcut-work") as pool:
        try:
            for number in range(len(items)):
                pool.submit(run, number)
            running = len(items)
            while running:
                number, count, answer = events.get()
                if count is not None:
                    told(number, count)
                    continue
                running -= 1
                if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                    raise answer
                answers[number] = answer
                done(number, answer)
        finally:
            stop.set()
    return answers
