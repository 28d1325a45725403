"""Jobs: what they ask for at once, what they leave when they are cancelled, and how several share an engine."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.serve.questions import SPACED, TEXT, load
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.tasks.shared.answering.jobs import Job, PassJob
from heedful.tasks.shared.answering.streaming import Batcher
from heedful.tasks.translate.service import TranslateService


def doubled(items: Sequence[int], first: int) -> list[int]:
    """An answer with one pass, which refuses a number."""
    if 13 in items:
        raise UserError(f"inputs, line {first + items.index(13)} is 13: choose another.")
    return [2 * item for item in items]


def recorded(batches: list[list[int]]) -> Batcher[int, int]:
    """A batcher whose batches are written down."""

    def answer(items: Sequence[int], first: int) -> list[int]:
        batches.append([*items])
        return doubled(items, first)

    return Batcher(answer, 100)


def finish(jobs: Sequence[Job], tick: Any, room: int = 8) -> None:
    left = list(jobs)
    for _ in range(1000):
        left = [job for job in left if not job.advance(room)]
        if not left:
            return
        tick()
    raise AssertionError("they never end")


def result(found: int) -> dict[str, Any]:
    return {"number": found}


def test_jobs_of_one_pass_are_answered_in_one_batch_each_in_its_order() -> None:
    batches: list[list[int]] = []
    batcher = recorded(batches)
    jobs = [PassJob(batcher, items, result) for items in ([1, 2], [3], [4, 5])]
    assert [job.size for job in jobs] == [2, 1, 2]
    finish(jobs, batcher.tick)
    assert [[one["number"] for one in job.results] for job in jobs] == [[2, 4], [6], [8, 10]]
    assert [job.found for job in jobs] == [[2, 4], [6], [8, 10]]
    assert batches == [[1, 2, 3, 4, 5]]


def test_what_one_input_has_refuses_its_job_alone_and_is_told_by_its_place() -> None:
    batcher = Batcher[int, int](doubled, 100)
    good, bad, other = (PassJob(batcher, items, result) for items in ([1, 2], [3, 13], [4]))
    assert not any(job.advance(8) for job in (good, bad, other))
    batcher.tick()
    assert good.advance(8)
    assert other.advance(8)
    with refuses("input 2 is 13: choose another."):
        bad.advance(8)


def test_a_job_that_is_cancelled_is_not_answered() -> None:
    batches: list[list[int]] = []
    batcher = recorded(batches)
    gone, stays, early = (PassJob(batcher, items, result) for items in ([1, 2], [3], [4]))
    early.cancel()  # before it has asked for anything
    gone.advance(8)
    stays.advance(8)
    gone.cancel()
    finish([stays], batcher.tick)
    assert batches == [[3]]
    assert batcher.idle


# --- jobs that search -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(one_thread: None) -> TranslateService:
    return TranslateService(load("transformer"))


def job_of(service: TranslateService, text: str, **options: Any) -> Any:
    return service.job([{"text": text}], {"max_extra": 3, "beam": 1, **options})


@pytest.mark.parametrize("room", [0, 1, 2, 100])
def test_a_job_has_no_more_under_way_than_there_is_room_for(service: TranslateService, room: int) -> None:
    job = job_of(service, TEXT * 3)
    most = 0
    while not job.advance(room):
        most = max(most, len(job._live))
        service.tick()
    assert most == min(max(1, room), 9)
    assert service.idle
    known = {
        sentence: service.model.translate_detailed(sentence, max_extra=3, beam=1)[0].text if sentence else ""
        for _, sentence in SPACED
    }
    assert job.results[0]["text"] == "".join(before + known[sentence] for before, sentence in SPACED * 3)


def test_a_cancelled_job_leaves_an_idle_engine_and_its_neighbour_alone(service: TranslateService) -> None:
    job, other, alone = (job_of(service, TEXT) for _ in range(3))
    finish([alone], service.tick)
    job.advance(8)
    other.advance(8)
    service.tick()
    job.cancel()
    finish([other], service.tick)
    assert other.results[0]["text"] == alone.results[0]["text"]
    service.tick()
    assert service.idle
    job_of(service, TEXT).cancel()  # before it has asked for anything
    assert service.idle


def test_a_blank_text_asks_the_engine_for_nothing(service: TranslateService) -> None:
    job = job_of(service, " \n", details=True)
    assert job.advance(8)
    assert service.idle
    job.details()
    assert job.results[0] == {
        "text": " \n", "score": 0.0, "complete": True,
        "sentences": [{
            "source_words": [{"before": " \n", "text": ""}],
            "words": [{"before": " \n", "text": "", "probability": 1.0, "runners_up": []}],
            "links": [],
        }],
    }  # fmt: skip


def test_samples_with_required_words_are_those_of_a_call(service: TranslateService) -> None:
    options: dict[str, Any] = {"max_extra": 20, "mbr": 2, "require": ["el perro"]}
    job = job_of(service, SPACED[0][1], **options)
    finish([job], service.tick)
    (called,) = service.model.translate_detailed(SPACED[0][1], **options)
    assert job.results[0]["text"] == called.text
    assert "el perro" in called.text
    assert service.idle


def test_requests_with_equal_options_share_a_batcher_and_others_do_not_stay(one_thread: None) -> None:
    from heedful.tasks.fill.service import FillService

    service = FillService(load("bert"))
    for top in [*range(1, 40), 3, 3]:
        job = service.job([{"text": "a [MASK]"}], {"top": top})
        finish([job], service.tick)
        assert len(job.results[0]["masks"][0]) == top
    job = service.job([{"text": "a [MASK]"}], {})
    assert len(service._batchers) <= 40
    finish([job], service.tick)
    service.tick()
    assert len(service._batchers) <= 17


@pytest.mark.parametrize("options", [{"top": 0}, {"top": 101}, {"top": "3"}])
def test_a_service_checks_options_by_itself(one_thread: None, options: dict[str, Any]) -> None:
    from heedful.tasks.fill.service import FillService

    with pytest.raises(UserError, match="`top`"):
        FillService(load("bert")).job([{"text": "[MASK]"}], options)
