"""A run says once that other processes use its cores, and only if that costs much."""

from collections.abc import Iterator

from heedful.base.cores import CoreClock
from heedful.runs.progress import ContentionNotice


def readings(*pairs: tuple[float, float]) -> Iterator[CoreClock]:
    return iter([CoreClock(waited, at) for waited, at in pairs])


def test_waiting_for_a_core_is_told_once() -> None:
    told: list[str] = []
    clock = readings((1, 0), (4, 5), (9, 10), (90, 20), (900, 30))
    notice = ContentionNotice(told.append, threads=2, read=lambda: next(clock))
    for _ in range(4):
        notice.look()
    assert told == [
        "Other processes use this machine's cores: training waited for one 40% of the last 10 seconds. It continues "
        "with what is left."
    ]


def test_a_quiet_machine_and_one_that_keeps_no_count_are_silent() -> None:
    told: list[str] = []
    clock = readings((1, 0), (3, 10), (5, 20))
    quiet = ContentionNotice(told.append, threads=2, read=lambda: next(clock))
    uncounted = ContentionNotice(told.append, threads=2, read=lambda: None)
    for _ in range(2):
        quiet.look()
        uncounted.look()
    assert told == []
