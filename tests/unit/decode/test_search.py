"""Many sentences: order, batches, limits, devices and types."""

from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch
from tests.shared.searching import search_texts
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.decode import waves
from heedful.decode.frontiers import beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.query import text_queries
from heedful.decode.scorer import Ensemble
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.protocols import source_limit
from heedful.nn.kernels import without_kernels

SOURCES = [[5, 6, 7, 8], [9], [4, 4, 4, 4, 4, 4, 4], [], [8, 9], [9]]


def model_of(**options: Any) -> EncoderDecoder:
    config = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "dropout": 0.5} | options
    return build_model(TransformerModel(**config), 20, 20).eval()


def test_results_are_in_the_order_of_the_sources() -> None:
    model, settings = model_of(), SearchSettings(beam=2, max_extra=3)
    together = search_texts(model, SOURCES, settings, batch_tokens=12)
    assert [len(nbest) for nbest in together] == [1] * len(SOURCES)
    assert together[1] == together[5]
    assert [nbest[0].tokens for nbest in together] == [
        search_texts(model, [source], settings, 4096)[0][0].tokens for source in SOURCES
    ]


def test_a_batch_holds_source_tokens_times_beams_up_to_the_budget() -> None:
    model, sizes = model_of(), []
    real = waves.WaveOfQueries

    def spy(*call: Any) -> Any:
        sizes.append([len(sentence.source) for sentence in call[1]])
        return real(*call)

    with mock.patch.object(waves, "WaveOfQueries", spy), without_kernels():
        search_texts(model, SOURCES, SearchSettings(beam=2, max_extra=2), batch_tokens=16)
    # With `</s>`: 1 + 2 + 2 + 3 tokens times two beams are 16; 5 fit alone; 8 times two are the budget.
    assert sorted(sorted(some) for some in sizes) == [[1, 2, 2, 3], [5], [8]]


def test_progress_counts_every_sentence() -> None:
    ready: list[int] = []
    search_texts(model_of(), SOURCES, SearchSettings(beam=1, max_extra=2), 8, ready.append)
    assert sum(ready) == len(SOURCES)
    assert len(ready) > 1


def test_no_sources_give_no_results() -> None:
    assert search_texts(model_of(), [], SearchSettings(), 4096) == []


def test_samples_count_in_the_budget_as_beams_do() -> None:
    rows: list[int] = []
    settings = SearchSettings(beam=1, max_extra=2, sampling=Sampling(samples=4))
    begin = IndependentRows.begin

    def spy(*call: Any, **options: Any) -> Any:
        rows.append(len(call[0]))
        return begin(*call, **options)

    with mock.patch.object(IndependentRows, "begin", spy):
        found = search_texts(model_of(), [[5]] * 6, settings, 16)
    assert rows == [2, 2, 2]
    assert [len(drawn) for drawn in found] == [4] * 6


@pytest.mark.parametrize("beam", [1, 3])
def test_targets_end_where_the_decoder_has_no_more_positions(beam: int) -> None:
    model = model_of(positions="learned", max_positions=8)
    with torch.no_grad():
        model.decoder.output.weight[2] = 0  # hardly ever ends
    (best,) = search_texts(model, [[5, 6, 7, 8, 9]], SearchSettings(beam=beam, max_extra=50), 4096)[0]
    assert (best.length, best.complete) == (8, False)


@pytest.mark.parametrize("beam", [1, 2])
def test_the_maximum_length_is_the_pieces_of_the_source_and_max_extra(beam: int) -> None:
    model = model_of(tie="none", norm="pre")  # ends with a norm, so that its states have one length
    with torch.no_grad():
        model.decoder.output.weight.zero_()
        final = model.get_parameter("decoder.final.bias")
        final.fill_(1.0)
        model.decoder.output.weight[2].fill_(-9.0)  # `</s>` is the last thing it would say
    found = search_texts(model, [[5, 6], [7]], SearchSettings(beam=beam, max_extra=3), 4096)
    assert [(best.length, best.complete) for (best,) in found] == [(5, False), (4, False)]


def test_limits_of_positions() -> None:
    for options, limits in (
        ({}, (None, None)),
        ({"positions": "learned", "max_positions": 33}, (33, 33)),
        ({"alignment": "location", "max_places": 20}, (20, 20)),
        ({"alignment": "location", "max_places": 20, "positions": "learned", "max_positions": 9}, (9, 9)),
    ):
        model = model_of(**options)
        assert (source_limit(model), model.decoder.longest) == limits
    config = RecurrentModel(family="recurrent", width=8, alignment="location", max_places=20)
    model = build_model(config, 9, 9)
    assert (source_limit(model), model.decoder.longest) == (20, None)


@pytest.mark.parametrize("beam", [1, 3])
def test_bfloat16_models_give_float32_scores(beam: int) -> None:
    exact, rough = model_of(), model_of()
    rough.load_state_dict(exact.state_dict())
    set_precision(rough, torch.bfloat16)
    settings = SearchSettings(beam=beam, max_extra=3)
    for mine, wanted in zip(
        search_texts(rough, SOURCES, settings, 4096), search_texts(exact, SOURCES, settings, 4096), strict=True
    ):
        assert mine[0].score == pytest.approx(wanted[0].score, abs=0.3)
        assert mine[0].score != float(torch.tensor(mine[0].score).bfloat16())


def test_a_search_in_the_middle_of_training_leaves_nothing_behind() -> None:
    """Positions that were first needed by a search serve training too, although a search records no gradients."""
    model = model_of(dropout=0.0)
    search_texts(model, [[5] * 600], SearchSettings(beam=1, max_extra=1), 4096)
    source = Packed.of([[5] * 700])
    model(source, source).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


# --- one question a step ----------------------------------------------------------------------------------------------


class Questions(TorchDispatchMode):
    """Counts what makes a host wait for its device: numbers taken from tensors, and sizes that depend on values."""

    waiting = (
        "item",
        "_local_scalar_dense",
        "is_nonzero",
        "equal",
        "nonzero",
        "masked_select",
        "repeat_interleave.Tensor",
    )

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.asked = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.").removesuffix(".default")
        places = args[1] if name.startswith("index") and isinstance(args[1], (list, tuple)) else ()
        masked = any(place is not None and place.dtype == torch.bool for place in places)
        self.asked += name in self.waiting or masked
        return func(*args, **(kwargs or {}))


SETTINGS = [
    SearchSettings(beam=3, max_extra=5),
    SearchSettings(beam=1, max_extra=5),
    SearchSettings(beam=3, nbest=3, max_extra=5, coverage=0.3, no_repeat=2, min_length=2, aligned=True, never=(7,)),
    SearchSettings(
        beam=1, max_extra=5, sampling=Sampling(0.8, top_k=9, top_p=0.9, samples=3), coverage=0.3, no_repeat=1
    ),
]
NAMES = ["beam", "greedy", "beam with every option", "sampling with options"]


def as_on_a_gpu() -> Any:
    """Let a search ask nothing that a host would have to wait for."""
    return mock.patch.object(beam, "is_known_to_be_none", return_value=False)


@pytest.mark.parametrize("settings", SETTINGS, ids=NAMES)
def test_the_device_is_asked_one_question_a_step_and_for_what_is_done(settings: SearchSettings) -> None:
    """What is done is asked for at once, however many sentences it is."""
    model = Ensemble([model_of(), model_of()])
    sentences = text_queries(SOURCES, settings.max_extra, [[4], [], [5, 6], [], [], []])
    real_list, real_step = torch.Tensor.tolist, model.step
    lists: list[int] = []
    steps: list[tuple[int, int, int]] = []

    def listing(tensor: torch.Tensor) -> Any:
        lists.append(tensor.numel())
        return real_list(tensor)

    def stepping(*call: Any) -> Any:
        steps.append((len(lists), questions.asked, len(call[0])))
        return real_step(*call)

    with (
        as_on_a_gpu(),
        mock.patch.object(torch.Tensor, "tolist", listing),
        mock.patch.object(model, "step", stepping),
        Questions() as questions,
    ):
        search(model, sentences, settings, 4096)
    assert len(steps) > 4
    assert len({asked for _, asked, _ in steps}) == 1
    lists_of_steps = [(after[0] - before[0], after[2] < before[2]) for before, after in pairwise(steps)]
    assert {count for count, some_left in lists_of_steps if not some_left} == {1}  # who is done?
    assert len({count for count, some_left in lists_of_steps if some_left}) == 1


@pytest.mark.parametrize("settings", SETTINGS[::2], ids=NAMES[::2])
def test_what_a_cpu_leaves_out_of_most_steps_changes_nothing(settings: SearchSettings) -> None:
    torch.manual_seed(3)
    model = model_of()
    prefixes = [[4], [], [5, 6], [], [], []]
    shorter = search(model, text_queries(SOURCES, settings.max_extra, prefixes), settings, 4096)
    with as_on_a_gpu():
        whole = search(model, text_queries(SOURCES, settings.max_extra, prefixes), settings, 4096)
    assert shorter == whole
