"""Laws of decoding, for every family that keeps the decoder protocol."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.api.model import Model
from heedful.config.schema import TransformerModel
from heedful.data.tokenizer import BEGIN, END
from heedful.decode.beam import Beam
from heedful.decode.choices import NEVER
from heedful.decode.greedy import Greedy
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.loop import decode
from heedful.decode.penalties import LengthPenalty, Wu
from heedful.decode.search import search, search_batch
from heedful.decode.settings import Settings
from heedful.models.build import build_model
from heedful.models.families import EncoderDecoder, set_precision
from heedful.packed import Packed

FAMILIES: dict[str, dict[str, Any]] = {
    "post-sinusoidal": {"norm": "post", "positions": "sinusoidal"},
    "pre-learned-swiglu": {"norm": "pre", "positions": "learned", "activation": "swiglu", "tie": "none"},
    "pre-halves-shallow": {"norm": "pre", "positions": "sinusoidal_halves", "decoder_layers": 1, "tie": "decoder"},
}
WORDS = 24
SOURCES = [[5, 9, 7], [4], [8, 8, 10, 11, 6, 6], [9, 7, 5]]


def model_of(family: str, seed: int = 1, words: int = WORDS) -> EncoderDecoder:
    """A tiny random model in float64 whose every parameter counts, and which ends a sentence now and then."""
    torch.manual_seed(seed)
    config = {"width": 16, "heads": 2, "layers": 2, "inner": 24, "dropout": 0.0, "max_positions": 40} | FAMILIES[family]
    model = build_model(TransformerModel(**config), words, words).double().eval()
    set_precision(model, torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        model.decoder.output.weight[END].mul_(2)
    return model


@torch.no_grad()
def log_probabilities(model: EncoderDecoder, source: list[int], targets: Sequence[Sequence[int]]) -> list[Tensor]:
    """log P of every token after `<s>` and after each token of each target, by the parallel forward pass."""
    scores_NV = model(Packed.of([[*source, END]] * len(targets)), Packed.of([[BEGIN, *target] for target in targets]))
    return list(scores_NV.log_softmax(1).split([len(target) + 1 for target in targets]))


# --- stepping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beams", [1, 3])
def test_stepping_equals_forward_while_rows_change_places_and_sentences_leave(family: str, beams: int) -> None:
    model, chance = model_of(family), random.Random(3)
    memory = model.encoder(Packed.of([[*source, END] for source in SOURCES]))
    state = model.decoder.start(memory, beams)
    active = list(range(len(SOURCES)))
    rows = [[[BEGIN] for _ in range(beams)] for _ in SOURCES]
    for step in range(20):  # more than the room that a cache begins with
        last = torch.tensor([row[-1] for sentence in active for row in rows[sentence]])
        logits_RV, state = model.decoder.step(last, state)
        histories = [(sentence, row) for sentence in active for row in rows[sentence]]
        whole = model(
            Packed.of([[*SOURCES[sentence], END] for sentence, _ in histories]),
            Packed.of([row for _, row in histories]),
        )
        torch.testing.assert_close(logits_RV, whole[step :: step + 1], atol=1e-9, rtol=1e-9)
        if step in (4, 11, 12):
            leaving = chance.randrange(len(active))
            staying = [place for place in range(len(active)) if place != leaving]
            state = state.narrow(torch.tensor(staying))
            active = [active[place] for place in staying]
        parents = [[chance.randrange(beams) for _ in range(beams)] for _ in active]
        state = state.reorder(torch.tensor(parents))
        for sentence, chosen in zip(active, parents, strict=True):
            rows[sentence] = [[*rows[sentence][parent], chance.randrange(WORDS)] for parent in chosen]


# --- brute force ------------------------------------------------------------------------------------------------------


def every_hypothesis(
    model: EncoderDecoder, source: list[int], words: int, limit: int, penalty: LengthPenalty
) -> list[Hypothesis]:
    """All sequences of at most `limit` tokens by score: those that end, then those that are cut."""
    pieces = [token for token in range(words) if token not in (*NEVER, END)]
    targets = [tokens for length in range(limit + 1) for tokens in itertools.product(pieces, repeat=length)]
    found = []
    for tokens, log_p_TV in zip(targets, log_probabilities(model, source, targets), strict=True):
        complete = len(tokens) < limit
        decoded = (*tokens, END) if complete else tokens
        total = sum(float(log_p_TV[place, token]) for place, token in enumerate(decoded))
        found.append(Hypothesis(tokens, total / penalty(len(decoded)), total, complete))
    return sorted(found, key=lambda hypothesis: (not hypothesis.complete, -hypothesis.score))


def same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-9) -> bool:
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    assert [hypothesis.complete for hypothesis in found] == [hypothesis.complete for hypothesis in expected]
    for mine, wanted in zip(found, expected, strict=True):
        assert mine.score == pytest.approx(wanted.score, abs=tolerance)
        assert mine.log_probability == pytest.approx(wanted.log_probability, abs=tolerance)
    return True


def up_and_down(length: int) -> float:
    """A penalty that favours a length in the middle."""
    return {1: 1.0, 2: 1.3, 3: 2.5, 4: 0.7}[length]


@pytest.mark.parametrize("penalty", [Wu(0.0), Wu(0.6), Wu(1.0), up_and_down], ids=["0", "0.6", "1", "up and down"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_enough_beam_equals_brute_force(penalty: LengthPenalty, seed: int) -> None:
    words, limit = 7, 4  # three pieces beside the special ones: 40 sequences that end and 81 that are cut
    model = model_of(list(FAMILIES)[seed % len(FAMILIES)], seed, words)
    sources = [[4, 6], [5], [6, 6, 5]]
    memory = model.encoder(Packed.of([[*source, END] for source in sources]))
    expected = [every_hypothesis(model, source, words, limit, penalty) for source in sources]
    for nbest in (1, 7, 121):
        settings = Settings(beam=128, nbest=nbest, penalty=penalty)
        found = decode(model.decoder, memory, Beam.begin([limit] * 3, settings, torch.device("cpu")))
        for mine, wanted in zip(found, expected, strict=True):
            assert same(mine, wanted[:nbest])


# --- a naive beam search ----------------------------------------------------------------------------------------------


def naive_beam(model: EncoderDecoder, source: list[int], settings: Settings) -> list[Hypothesis]:
    """The same search for one sentence, with lists and the parallel forward pass, as its description says."""
    limit = len(source) + settings.max_extra
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        grown = []
        scores = log_probabilities(model, source, [tokens for _, tokens in live])
        for (total, tokens), log_p_TV in zip(live, scores, strict=True):
            log_p_V = log_p_TV[-1].tolist()
            grown += [(total + log_p_V[token], [*tokens, token]) for token in range(WORDS) if token not in NEVER]
        grown.sort(key=lambda candidate: -candidate[0])
        for total, tokens in grown[: settings.beam]:
            if tokens[-1] == END:
                finished.append(Hypothesis(tuple(tokens[:-1]), total / settings.penalty(length), total, True))
        live = [candidate for candidate in grown if candidate[1][-1] != END][: settings.beam]
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        if len(finished) >= settings.nbest:
            worst = finished[settings.nbest - 1].score
            overtaken = len(finished) >= settings.beam and worst >= live[0][0] / settings.penalty(length)
            if overtaken or worst >= live[0][0] / settings.penalty(limit):
                return finished[: settings.nbest]
    cut = [Hypothesis(tuple(tokens), total / settings.penalty(limit), total, False) for total, tokens in live]
    return [*finished, *cut][: settings.nbest]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(beam=1, max_extra=4),
        Settings(beam=2, nbest=2, max_extra=5, penalty=Wu(0.0)),
        Settings(beam=3, nbest=1, max_extra=6, penalty=Wu(0.6)),
        Settings(beam=5, nbest=4, max_extra=3, penalty=Wu(1.0)),
    ],
    ids=str,
)
def test_batched_beam_search_equals_a_naive_one(settings: Settings) -> None:
    kinds = set()
    for family, seed in itertools.product(FAMILIES, (1, 2)):
        model = model_of(family, seed)
        for mine, source in zip(search(model, SOURCES, settings, 4096), SOURCES, strict=True):
            assert same(mine, naive_beam(model, source, settings))
            kinds |= {hypothesis.complete for hypothesis in mine}
    assert kinds == {True, False}  # both ways to end were tried


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_greedy_search_equals_a_beam_of_one_whatever_the_penalty(alpha: float) -> None:
    model = model_of("post-sinusoidal")
    memory = model.encoder(Packed.of([[*source, END] for source in SOURCES]))
    limits, cpu = [7, 3, 12, 7], torch.device("cpu")
    settings = Settings(beam=1, penalty=Wu(alpha))
    greedy = decode(model.decoder, memory, Greedy.begin(limits, settings.penalty, cpu))
    beam = decode(model.decoder, memory, Beam.begin(limits, settings, cpu))
    plain = decode(model.decoder, memory, Greedy.begin(limits, Wu(0.0), cpu))
    for mine, other, unscaled in zip(greedy, beam, plain, strict=True):
        assert same(mine, other)
        assert mine[0].tokens == unscaled[0].tokens


# --- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_change_nothing_in_float64(family: str) -> None:
    model, settings = model_of(family), Settings(beam=3, nbest=2, max_extra=6)
    together = search_batch(model, SOURCES, settings)
    for source, found in zip(SOURCES, together, strict=True):
        assert same(search_batch(model, [source], settings)[0], found)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_neighbour_in_the_batch_cannot_change_a_translation(
    reversing: Model, sentences: Callable[[int], list[str]], beam: int
) -> None:
    """The law for users: a trained model in float32 on the CPU."""
    texts = sentences(60)
    together = reversing.translate_detailed(texts, nbest=beam, beam=beam, batch_tokens=100_000)
    small = reversing.translate_detailed(texts, nbest=beam, beam=beam, batch_tokens=60)
    alone = [reversing.translate_detailed([text], nbest=beam, beam=beam)[0] for text in texts]
    for one, other in ((together, alone), (small, alone)):
        for mine, wanted in zip(one, other, strict=True):
            assert mine[0].tokens == wanted[0].tokens
            assert mine[0].score == pytest.approx(wanted[0].score, abs=1e-4)
            assert [best.tokens for best in mine] == [best.tokens for best in wanted]


# --- stopping ---------------------------------------------------------------------------------------------------------


class Confident(torch.nn.Module):
    """A decoder that wants `4 4 4 4 </s>`, and at every step before gives `</s>` a small chance."""

    def start(self, memory: Packed, beams: int = 1) -> "Confident":
        self.length = 0
        return self

    def step(self, tokens_R: Tensor, state: "Confident") -> tuple[Tensor, "Confident"]:
        self.length += 1
        chances = torch.full((len(tokens_R), WORDS), 1e-6, dtype=torch.float64)
        chances[:, 4], chances[:, END] = (0.9, 0.02) if self.length < 5 else (1e-6, 0.9)
        return chances.log(), state

    def reorder(self, parents_BK: Tensor) -> "Confident":
        return self

    def narrow(self, sentences: Tensor) -> "Confident":
        return self


@pytest.mark.parametrize("beam", [1, 2, 3, 4])
def test_poor_hypotheses_that_end_early_do_not_end_the_search(beam: int) -> None:
    settings = Settings(beam=beam, penalty=Wu(0.6))
    memory = Packed(torch.zeros(1, 1), Packed.of([[4]]).layout)
    found = decode(Confident(), memory, Beam.begin([20], settings, torch.device("cpu")))  # type: ignore[arg-type]
    assert found[0][0].tokens == (4, 4, 4, 4)
