"""Stop a process at each system call that changes the disk, one run per call."""

import os
import sys
from itertools import count

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
KILLED = 9


def crashes(prepare, work, step=1):
    """Run `prepare`, then `work` in a child that ends before its n-th change of the disk, for every
    `step`-th n; yield n after each crash, and 0 when the work was done. A write is torn midway."""
    for number in count(1, step):
        prepare()
        child = os.fork()
        if child == 0:
            _stop_before(number)
            try:
                work()
            except BaseException as error:
                os.write(2, f"crash point {number}: {error!r}\n".encode())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, KILLED), f"crash point {number}: exit code {code}"
        yield number if code else 0
        if not code:
            return


def _stop_before(number):
    left = [number]

    def change():
        left[0] -= 1
        return left[0] == 0

    def watch(event, args):
        writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
        if (event in CHANGES or writes) and change():
            os._exit(KILLED)

    write, sync = os.write, os.fsync

    def torn_write(handle, data):
        if change():
            write(handle, bytes(data)[: len(data) // 2])
            os._exit(KILLED)
        return write(handle, data)

    def no_sync(handle):
        if change():
            os._exit(KILLED)
        sync(handle)

    os.write, os.fsync = torn_write, no_sync
    sys.addaudithook(watch)
