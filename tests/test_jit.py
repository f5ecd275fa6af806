"""Compiled loops."""

from stepcut.compute import compiled_later


def test_a_loop_that_cannot_be_kept_on_disk_runs_all_the_same():
    """As on a read-only system without a home: here, because the loop is in no file."""
    scope: dict[str, object] = {}
    exec("def double(x):\n    return 2 * x", scope)
    double = scope["double"]
    assert callable(double)
    assert compiled_later(double)(3) == 6
