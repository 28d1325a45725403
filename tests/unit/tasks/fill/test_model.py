"""Masks are filled by the model's own scores; mistakes, streams and bundles on disk."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.tasks.fill.mask_tokenizers import KINDS, all_kinds, wording
from tests.unit.tasks.masked_models import TEXTS, WEEK, mask_of, masked_bundle, week_bundle

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, write_description, write_weights
from heedful.tasks.fill.mask_text import split_at_masks
from heedful.tasks.fill.model import Candidate, MaskFiller
from heedful.tasks.translate.model import Translator


@pytest.fixture(scope="module")
def week() -> MaskFiller:
    return MaskFiller(week_bundle())


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_model_that_learned_the_week_fills_in_the_day(week: MaskFiller) -> None:
    assert week.fill("monday [MASK] wednesday").text == "monday tuesday wednesday"
    best, *others = week.fill("[MASK] saturday sunday monday").masks[0]
    assert best.text == "friday"
    assert best.probability > 0.5 > sum(other.probability for other in others)


def test_several_masks_are_filled_in_one_pass(week: MaskFiller) -> None:
    found = week.fill("monday [MASK] wednesday thursday [MASK]", top=2)
    assert found.text == "monday tuesday wednesday thursday friday"
    assert [len(candidates) for candidates in found.masks] == [2, 2]


@all_kinds
def test_candidates_are_the_best_of_the_softmax_over_all_pieces(kind: str) -> None:
    bundle = masked_bundle(KINDS[kind])
    tokenizer, text = bundle.vocabularies["text"], "the [MASK] saw a [MASK] ."
    (pieces,) = wording(kind, tokenizer=tokenizer).encode([split_at_masks(text)])
    tokens = [BEGIN, *pieces, END]
    with torch.no_grad():
        scores = bundle.model.eval().head(bundle.model(Packed.of([tokens])).values)
    places = [place for place, token in enumerate(tokens) if token == tokenizer.mask]
    found = MaskFiller(bundle).fill(text, top=7)
    for place, candidates in zip(places, found.masks, strict=True):
        shares = scores[place].softmax(dim=0).tolist()
        ranked = sorted(range(tokenizer.markers, tokenizer.size), key=lambda token: -shares[token])
        assert [candidate.token for candidate in candidates] == ranked[:7]
        assert [candidate.probability for candidate in candidates] == pytest.approx(
            [shares[token] for token in ranked[:7]], rel=1e-5
        )
        assert [candidate.piece for candidate in candidates] == tokenizer.pieces(ranked[:7])


def test_special_pieces_are_never_proposed_but_keep_their_share() -> None:
    bundle = masked_bundle()
    tokenizer = bundle.vocabularies["text"]
    with torch.no_grad():
        bundle.model.head.output.bias[: tokenizer.markers] += 20.0  # type: ignore[index]
    (candidates,) = MaskFiller(bundle).fill("the [MASK] sat", top=10_000).masks
    assert [candidate.token for candidate in candidates if candidate.token < tokenizer.markers] == []
    assert len(candidates) == tokenizer.size - tokenizer.markers
    assert sum(candidate.probability for candidate in candidates) < 1e-3


def test_both_marks_are_masks_and_the_text_may_begin_or_end_with_one(week: MaskFiller) -> None:
    assert week.fill("monday <mask> wednesday") == week.fill("  monday [MASK] wednesday ")
    assert week.fill("[MASK] tuesday wednesday <mask>").text == "monday tuesday wednesday thursday"


def test_texts_keep_their_order_and_neighbours_change_nothing(week: MaskFiller) -> None:
    texts = [" ".join([*(WEEK * 2)[first : first + length], "[MASK]"]) for first in range(7) for length in (4, 1, 3, 2)]
    together = week.fill(texts, top=3)  # more than one batch
    for text, found in zip(texts, together, strict=True):
        alone = week.fill(text, top=3)
        assert found.text == alone.text
        for ours, expected in zip(found.masks[0], alone.masks[0], strict=True):
            assert ours.token == expected.token
            assert ours.probability == pytest.approx(expected.probability, rel=1e-4)


def test_many_masks_are_scored_some_at_a_time(week: MaskFiller, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["monday [MASK] [MASK] thursday [MASK]", "[MASK] friday"]
    at_once = week.fill(texts)
    monkeypatch.setattr("heedful.tasks.fill.model._SCORED", 1)
    assert [found.text for found in week.fill(texts)] == [found.text for found in at_once]


def test_dropout_is_off_and_stays_off() -> None:
    bundle = masked_bundle(dropout=0.5)
    bundle.model.train()
    filler = MaskFiller(bundle)
    assert filler.fill("the [MASK]") == filler.fill("the [MASK]")
    assert not bundle.model.training


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_a_second_text_is_read_behind_the_first_in_its_own_segment() -> None:
    bundle = masked_bundle()
    tokenizer, filler = bundle.vocabularies["text"], MaskFiller(bundle)
    encode, mask = tokenizer.encode, mask_of(tokenizer)
    tokens = [BEGIN, *encode("the cat"), mask, END, *encode("a dog saw"), mask, END]
    segments = [0] * 5 + [1] * 5
    plain = Packed.of([tokens])
    with torch.no_grad():
        encoded = bundle.model.eval()(Packed(plain.values, plain.layout, torch.tensor(segments)))
        scores = bundle.model.head(encoded.values)
    shares = scores[[3, 8]].softmax(dim=1)
    shares[:, : tokenizer.markers] = 0
    found = filler.fill("the cat [MASK]", second="a dog saw [MASK]", top=1)
    best = [candidates[0].token for candidates in found.masks]
    assert best == shares.argmax(dim=1).tolist()
    assert [candidates[0].probability for candidates in found.masks] == pytest.approx(shares.amax(dim=1).tolist())
    assert found.text == f"the cat {tokenizer.decode(best[:1])}"
    assert found.second == f"a dog saw {tokenizer.decode(best[1:])}"
    assert filler.fill(["the cat [MASK]"], 1, ["a dog saw [MASK]"]) == [found]
    assert filler.fill("the cat", second="a [MASK]").text == "the cat"


# --- back to text -----------------------------------------------------------------------------------------------------


def test_words_that_the_vocabulary_does_not_have_stay_in_the_answer(week: MaskFiller) -> None:
    assert week.fill("Montag monday [MASK] wednesday").text.startswith("Montag monday ")


def test_a_candidates_text_has_no_spaces_around_it_unless_it_is_one() -> None:
    bundle = masked_bundle(KINDS["byte_bpe"])
    (candidates,) = MaskFiller(bundle).fill("the [MASK]", top=10_000).masks
    texts = {candidate.piece: candidate.text for candidate in candidates}
    assert texts["▁cat"] == "cat"
    assert texts["▁"] == " "
    assert texts["a"] == "a"


# --- mistakes and streams ---------------------------------------------------------------------------------------------


def refusal(filler: MaskFiller, text: str | Sequence[str], **options: object) -> str:
    with pytest.raises(UserError) as caught:
        filler.fill(text, **options)  # type: ignore[call-overload]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_text_without_a_mask_is_refused(week: MaskFiller) -> None:
    way_out = "has no mask: write [MASK] where a piece is to be filled in."
    assert refusal(week, ["a [MASK]", "monday [mask]"]) == f"texts, line 2 {way_out}"
    assert refusal(week, "") == f"texts, line 1 {way_out}"


def test_a_text_that_is_too_long_is_refused_by_its_length() -> None:
    filler = MaskFiller(masked_bundle())  # of 40 positions
    assert filler.fill("the " * 37 + "[MASK]").masks
    assert refusal(filler, ["[MASK]", "the " * 38 + "[MASK]"]) == (
        "texts, line 2 has 41 tokens with its markers, but this model has positions for 40 (`model.max_positions`): "
        "shorten it."
    )
    endless = MaskFiller(masked_bundle(positions="rope"))
    assert endless.fill("the " * 80 + "[MASK]").masks


def test_other_mistakes(week: MaskFiller) -> None:
    assert refusal(week, "a [MASK]", top=0) == "`top` is 0, but must be 1 or more."
    pairs = MaskFiller(masked_bundle())
    assert refusal(pairs, ["a [MASK]", "b"], second=["c"]) == ("2 texts, but 1 second text: each text needs one.")
    for text, second in (("a [MASK]", ["b"]), (["a [MASK]"], "b")):
        assert refusal(pairs, text, second=second) == (
            "`text` and `second` must be one text each, or a list of texts each."
        )
    assert refusal(pairs, "caf\udce9 [MASK]").startswith("texts, line 1 has half of a surrogate")
    single = MaskFiller(masked_bundle(segments=0, next_sentence=False))
    assert refusal(single, "a [MASK]", second="b") == (
        "This model reads single texts (`model.segments` is 0): leave out `second`."
    )


def test_a_vocabulary_without_a_mask_is_refused() -> None:
    bundle = masked_bundle()
    tokenizer = train_tokenizer(bundle.recipe.tokenizer, TEXTS)
    with refuses("The vocabulary of this model has no `<mask>`: it cannot fill masks."):
        MaskFiller(Bundle(bundle.recipe, Vocabularies({"text": tokenizer}), bundle.model))


def test_a_stream_keeps_blank_lines_and_yields_what_comes_before_a_mistake(week: MaskFiller) -> None:
    lines = ["monday [MASK] wednesday", "", "[MASK] saturday sunday", "nothing", "monday [MASK]"]
    before = ["monday tuesday wednesday", "", "friday saturday sunday"]
    assert [found.text for found in week.stream(lines[:3])] == before
    for chunk in (1, 2, 4, 1000):
        streamed = week.stream(lines, top=1, chunk=chunk, name="file")
        assert [next(streamed).text for _ in before] == before
        with refuses("file, line 4 has no mask: ..."):
            next(streamed)


def test_what_is_not_a_text_is_refused_with_its_line(week: MaskFiller) -> None:
    with refuses("texts, line 1 is None, but must be a text: leave it out, or give an empty..."):
        week.fill([None])  # type: ignore[list-item]
    with refuses("`top` is '3', but must be a whole number."):
        week.fill("monday [MASK]", top="3")  # type: ignore[call-overload]
    with refuses("`top` is 0, but must be 1 or more."):
        week.stream(["monday [MASK]"], top=0)  # at once, not with the first text


def test_nothing_is_made_of_nothing(week: MaskFiller) -> None:
    assert week.fill([]) == []
    assert [found.text for found in week.stream(["", " "])] == ["", ""]


def test_a_stream_answers_when_the_next_line_would_have_to_be_awaited(week: MaskFiller) -> None:
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in ("monday [MASK]", "[MASK]"):
            taken.append(line)
            yield line

    next(week.stream(lines(), ready=lambda: False))
    assert taken == ["monday [MASK]"]


# --- from a folder ----------------------------------------------------------------------------------------------------


def test_a_bundle_on_disk_answers_as_it_did(week: MaskFiller, tmp_path: Path) -> None:
    write_description(tmp_path, week.recipe, week.vocabularies)
    write_weights(tmp_path, week.network)
    again = MaskFiller.load(tmp_path, "cpu").fill("monday [MASK] wednesday")
    expected = week.fill("monday [MASK] wednesday")
    assert again.text == expected.text
    assert [one.probability for one in again.masks[0]] == pytest.approx(
        [one.probability for one in expected.masks[0]], rel=1e-4
    )
    half = MaskFiller.load(tmp_path, "cpu", "bfloat16").fill("monday [MASK] wednesday")
    assert half.text == "monday tuesday wednesday"
    assert isinstance(half.masks[0][0], Candidate)


def test_a_translator_is_refused(untrained: Callable[..., Translator], tmp_path: Path) -> None:
    translator = untrained()
    write_description(tmp_path, translator.recipe, translator.vocabularies)
    with refuses("...is a model that translates: load it with `heedful.Translator.load(..."):
        MaskFiller.load(tmp_path, "cpu")
