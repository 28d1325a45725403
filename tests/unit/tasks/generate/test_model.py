"""Language models as Python uses them: texts that continue prompts, and how they are sampled, shown and ended."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.tasks.text_generators import TEXTS, WEEK, language_bundle, week_language_bundle

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.config.tokenizer import ByteBpe, Words
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.model import TextGenerator

PROMPTS = ("the cat ", "", "a", "the dog saw it and the cat")


@cache
def chars() -> TextGenerator:
    return TextGenerator(language_bundle())


@cache
def bytes_() -> TextGenerator:
    """A vocabulary in which a cat is spelled by its four bytes."""
    return TextGenerator(language_bundle(ByteBpe(kind="byte_bpe", size=270)))


@cache
def words() -> TextGenerator:
    return TextGenerator(language_bundle(Words(kind="word")))


@cache
def week() -> TextGenerator:
    return TextGenerator(week_language_bundle())


@torch.no_grad()
def scores_after(network: LanguageModel, context: Sequence[int]) -> list[float]:
    """The log probabilities of what follows, by one forward pass."""
    network.eval()
    found: list[float] = network(Packed.of([list(context)]))[-1].double().log_softmax(0).tolist()
    return found


def greedy(model: TextGenerator, prompt: Sequence[int], steps: int, window: int | None) -> list[int]:
    """The best token after the window, again and again; a full window keeps its last half."""
    context, found = list(prompt), list[int]()
    while len(found) < steps:
        if window is not None and len(context) > window:
            context = context[-(window // 2) :]
        scores = scores_after(model.network, context)
        for token in (PAD, BEGIN, UNKNOWN):
            scores[token] = -math.inf
        best = max(range(len(scores)), key=scores.__getitem__)
        if best == END:
            break
        found.append(best)
        context.append(best)
    return found


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_trained_model_continues_what_it_learned() -> None:
    model = week()
    assert model.generate("monday tuesday", temperature=0) == f" {' '.join(WEEK[2:])}"
    assert model.generate(["friday", "thursday friday"], beam=3) == [" saturday sunday"] * 2
    (found,) = model.generate_detailed("friday", temperature=0)
    assert found.ended == "end"
    assert found.pieces == ("saturday", "sunday")


@pytest.mark.parametrize("slides", [False, True])
def test_greedy_generation_is_the_best_token_again_and_again(slides: bool) -> None:
    model = chars()
    steps = 34 if slides else 12
    prompts = PROMPTS[:2] if slides else PROMPTS
    found = model.generate_detailed(prompts, temperature=0, max_tokens=steps)
    for prompt, (generation,) in zip(prompts, found, strict=True):
        tokens = [BEGIN, *model.vocabularies["text"].encode(prompt)]
        assert list(generation.tokens) == greedy(model, tokens, steps, 24)
        assert generation.slid == (len(tokens) + len(generation.tokens) > 24)
        assert generation.ended == ("length" if len(generation.tokens) == steps else "end")


@pytest.mark.parametrize("positions", ["learned", "rope", "sinusoidal"])
def test_a_transformer_sees_no_more_than_a_window_of_its_training(positions: str) -> None:
    model = TextGenerator(language_bundle(max_length=12, positions=positions))
    assert model.window == 12
    (found,) = model.generate_detailed("the", temperature=0, max_tokens=20)
    assert list(found.tokens) == greedy(model, [BEGIN, *model.vocabularies["text"].encode("the")], 20, 12)
    assert found.slid


@pytest.mark.parametrize("options", [{"recurrent": True}, {"positions": "alibi"}], ids=str)
def test_a_model_for_texts_of_any_length_needs_no_sliding(options: dict[str, Any]) -> None:
    model = TextGenerator(language_bundle(max_length=12, **options))
    assert model.window is None
    (found,) = model.generate_detailed("the", temperature=0, max_tokens=30)
    assert list(found.tokens) == greedy(model, [BEGIN, *model.vocabularies["text"].encode("the")], 30, None)
    assert not found.slid


def test_log_probabilities_are_the_models_own_whatever_is_sampled() -> None:
    for model in (chars(), bytes_()):
        (found,) = model.generate_detailed("the", max_tokens=40, temperature=1.3, top_k=5, repetition_penalty=1.3)
        context = [BEGIN, *model.vocabularies["text"].encode("the")]
        expected = []
        for token in found.tokens:
            if len(context) > 24:
                context = context[-12:]
            expected.append(scores_after(model.network, context)[token])
            context.append(token)
        assert found.log_probabilities == pytest.approx(expected, abs=1e-4)
        assert found.log_probability == pytest.approx(sum(expected), abs=1e-3)


def test_a_beam_finds_texts_that_are_more_probable() -> None:
    for prompt in PROMPTS:
        best, second = chars().generate_detailed(prompt, beam=6, samples=2, max_tokens=6)
        (simple,) = chars().generate_detailed(prompt, temperature=0, max_tokens=6)
        assert best.log_probability >= simple.log_probability - 1e-4
        assert second.tokens != best.tokens


def test_a_beam_slides_with_each_of_its_best_texts() -> None:
    found = chars().generate_detailed("the cat ", beam=3, samples=3, max_tokens=40)
    assert len({text.tokens for text in found}) == 3
    assert all(text.slid for text in found if len(text.tokens) > 16)


def test_a_repetition_penalty_makes_what_occurred_less_likely() -> None:
    model = chars()
    (plain,) = model.generate_detailed("the cat ", temperature=0, max_tokens=14)
    (varied,) = model.generate_detailed("the cat ", temperature=0, max_tokens=14, repetition_penalty=1e6)
    assert len(set(plain.tokens)) < len(plain.tokens)
    prompt = set(model.vocabularies["text"].encode("the cat "))
    fresh = [token for token in varied.tokens if token not in prompt]
    assert len(set(fresh)) == len(fresh)


# --- sampling ---------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_text_whatever_is_generated_next_to_it() -> None:
    model = chars()
    alone = [model.generate(prompt, seed=7, max_tokens=30) for prompt in PROMPTS]
    assert model.generate(PROMPTS, seed=7, max_tokens=30) == alone
    assert model.generate(PROMPTS[::-1], seed=7, max_tokens=30, batch_tokens=1) == alone[::-1]
    assert model.generate(PROMPTS, seed=8, max_tokens=30) != alone


def test_samples_differ_and_do_not_depend_on_their_number() -> None:
    three = chars().generate_detailed("the", samples=3, max_tokens=30)
    assert len({text.text for text in three}) == 3
    assert chars().generate_detailed("the", samples=2, max_tokens=30) == three[:2]


def test_sampling_continues_after_a_search_where_it_was() -> None:
    """A stop string that does not occur divides the work into several searches."""
    plain = chars().generate_detailed("the", max_tokens=60, seed=3)
    assert chars().generate_detailed("the", max_tokens=60, seed=3, stop="mmmmmmmm") == plain


def test_a_temperature_near_zero_is_greedy() -> None:
    for prompt in PROMPTS:
        cold = chars().generate(prompt, temperature=1e-4, max_tokens=9)
        assert cold == chars().generate(prompt, temperature=0, max_tokens=9)
        assert chars().generate(prompt, temperature=1, min_p=1.0, max_tokens=9) == cold


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [chars, bytes_, words], ids=["chars", "bytes", "words"])
@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"beam": 2}, {"stop": ["t", "12 c"]}], ids=str)
def test_the_parts_of_a_stream_are_the_text(model: Any, options: dict[str, Any]) -> None:
    stream = model().generate("the dog saw it .", stream=True, max_tokens=30, seed=2, **options)
    parts = list(stream)
    (detailed,) = model().generate_detailed("the dog saw it .", max_tokens=30, seed=2, **options)
    assert "" not in parts
    assert "".join(parts) == detailed.text
    assert stream.generation.tokens == detailed.tokens
    assert stream.generation.log_probabilities == pytest.approx(detailed.log_probabilities, abs=1e-4)
    assert stream.generation.ended == detailed.ended
    assert stream.slid == detailed.slid


def test_a_generated_text_is_a_str_with_all_that_the_command_writes() -> None:
    text, other = chars().generate(["the cat", "a dog"], max_tokens=5, seed=1)
    assert isinstance(text, str)
    assert text == text.details.text
    ((expected,), (second,)) = chars().generate_detailed(["the cat", "a dog"], max_tokens=5, seed=1)
    assert (text.details.tokens, text.details.ended) == (expected.tokens, expected.ended)
    assert (text.details.prompt, other.details.prompt, second.prompt) == ("the cat", "a dog", "a dog")
    assert chars().generate_stream("the cat", max_tokens=2).generation.prompt == "the cat"


def test_a_stream_shows_a_text_before_it_is_over() -> None:
    stream = chars().generate("the cat", stream=True, max_tokens=20, temperature=0)
    first = next(stream)
    assert stream.generation.text.startswith(first)
    assert len(first) < len(stream.generation.text)


def test_a_text_continues_its_prompt_as_its_vocabulary_joins_words() -> None:
    model = words()
    prompt, tokens = "the cat", model.vocabularies["text"].encode("the cat sat\n"[:11])
    assert model.generate(prompt, temperature=0, max_tokens=1)[0] in " \n"
    assert len(tokens) == 3
    assert not chars().generate("the ca", temperature=0, max_tokens=3).startswith("the")


# --- stop strings -----------------------------------------------------------------------------------------------------


def test_a_text_ends_before_its_first_stop_string() -> None:
    model = chars()
    (plain,) = model.generate_detailed("the cat ", max_tokens=60, seed=7)
    for begin, end in ((9, 12), (20, 21), (3, 30)):
        stop = plain.text[begin:end]
        (found,) = model.generate_detailed("the cat ", max_tokens=60, seed=7, stop=[stop, "\nmmmmm"])
        assert found.text == plain.text[: plain.text.index(stop)]
        assert found.ended == "stop"
        assert found.tokens == plain.tokens[: plain.text.index(stop) + len(stop)]
        assert len(found.log_probabilities) == len(found.tokens)


def test_a_stop_string_in_the_prompt_does_not_end_a_text() -> None:
    (plain,) = chars().generate_detailed("the cat ", max_tokens=9, seed=5)
    (found,) = chars().generate_detailed("the cat ", max_tokens=9, seed=5, stop="the cat ")
    assert found == plain


@pytest.mark.parametrize(
    ("model", "stop", "missing"), [(chars, "the Zoo", "Z"), (words, "cat.", ""), (words, "qat", "q"), (bytes_, "Ω", "")]
)
def test_a_stop_string_that_cannot_occur_is_refused(model: Any, stop: str, missing: str) -> None:
    if not missing:
        assert isinstance(model().generate("the", stop=stop, max_tokens=2), str)
        return
    with pytest.raises(UserError) as refused:
        model().generate("the", stop=["a", stop])
    expected = f"`stop` '{stop}' cannot occur, as '{missing}' is not in the vocabulary: leave it out."
    assert str(refused.value) == expected


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "`max_tokens` is 0, but must be at least 1."),
        ({"temperature": -1}, "`temperature` is -1.0, but must be 0 (greedy search) or more."),
        ({"seed": -1}, "`seed` is -1, but must be 0 or more, and less than 2^64."),
        ({"seed": 2**64, "temperature": 0}, f"`seed` is {2**64:,}, but must be 0 or more, and less than 2^64."),
        ({"min_p": 1.5}, "`min_p` is 1.5, but must be from 0, which is all tokens, to 1."),
        ({"repetition_penalty": 0.5}, "`repetition_penalty` is 0.5, but must be 1 (no penalty) or more."),
        ({"stop": ""}, "`stop` has an empty string, before which every text would end at once: leave it out."),
        ({"beam": 3, "temperature": 1}, "`temperature` applies to sampling, but a beam of 3 searches for the most "
         "likely text: leave out one of the two."),
        ({"beam": 3, "top_k": 1}, "`top_k` applies to sampling: leave it out, or leave out `beam`."),
        ({"temperature": 0, "top_p": 0.5}, "`top_p` applies to sampling: leave it out, or set `temperature` above 0."),
        ({"samples": 2, "temperature": 0}, "`samples` is 2, but greedy search finds one text: set `beam` to 2 or more, "
         "or sample with a `temperature` above 0."),
        ({"samples": 3, "beam": 2}, "`samples` is 3, but a beam of 2 finds no more than 2: set `beam` to 3 or more, or "
         "sample with a `temperature` above 0."),
        ({"slide": 1}, "`slide` is 1, but must be True or False."),
    ],
    ids=str,
)  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with refuses(message):
        chars().generate_detailed("the", **options)


def test_an_unknown_option_is_refused() -> None:
    with refuses("`temprature` is not an option. Did you mean `temperature`?", TypeError):
        chars().generate("the", temprature=1)  # type: ignore[call-overload]


def test_an_empty_prompt_begins_a_text_or_is_refused_where_texts_have_no_begin() -> None:
    assert chars().generate("", max_tokens=5)
    model = TextGenerator(language_bundle(borders="open"))
    assert model.generate("the", max_tokens=5)
    with refuses("prompt, line 2 is empty, but this model continues texts (`data.borders` is open): give some text."):
        model.generate(["the", ""])


def test_a_long_prompt_is_read_by_its_end_or_refused_where_nothing_slides() -> None:
    model, prompt = chars(), "the cat sat on the mat . the dog"
    assert model.generate(prompt, max_tokens=3)
    with refuses(
        "prompt, line 1 has 33 tokens, but the model sees at most 24 (`data.max_length`): shorten it, or let the "
        "window slide."
    ):
        model.generate([prompt], slide=False)
    (short,) = model.generate_detailed("the cat ", slide=False, temperature=0, max_tokens=99)
    assert short.ended in ("length", "end")
    assert len(short.tokens) <= 24 - 9 + 1
    assert not short.slid


def test_one_text_is_a_stream_and_several_are_not() -> None:
    with refuses("`stream` takes one prompt, but `prompt` is not a text: give each by itself."):
        chars().generate(["a"], stream=True)  # type: ignore[call-overload]
    with refuses("`generate` returns one text per prompt: `samples` is for `generate_detailed`."):
        chars().generate("a", samples=2)
    with refuses("A stream is one text: `samples` is for `generate_detailed`."):
        chars().generate_stream("a", samples=2)


# --- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [None, 24, 5])
def test_the_score_of_a_text_is_what_evaluation_sums(stride: int | None) -> None:
    for model in (chars(), words(), bytes_()):
        texts = [TEXTS[0] * 2, "a", TEXTS[1]]
        scores = model.score(texts, stride=stride)
        evaluation = model.evaluate(texts, stride=stride)
        assert -sum(score.log_probability for score in scores) == pytest.approx(evaluation.likelihood.total, rel=1e-5)
        assert sum(len(score.pieces) for score in scores) == evaluation.likelihood.tokens
        assert all(score.pieces[-1] == "</s>" for score in scores)


def test_the_score_of_a_token_is_that_of_a_forward_pass() -> None:
    model = chars()
    tokens = model.vocabularies["text"].encode("the cat")
    (found,) = model.score(["the cat"])
    expected = [scores_after(model.network, [BEGIN, *tokens[:n]])[token] for n, token in enumerate([*tokens, END])]
    assert found.log_probabilities == pytest.approx(expected, abs=1e-5)
    assert found.pieces == ("t", "h", "e", "▁", "c", "a", "t", "</s>")
    assert found.per_piece == pytest.approx(sum(expected) / 8)
    assert model.score([]) == []


def test_a_model_of_whole_files_has_never_seen_an_end() -> None:
    model = TextGenerator(language_bundle(documents="file", borders="open"))
    (found,) = model.score(["cat"])
    assert found.pieces == ("c", "a", "t")


def test_a_stride_outside_the_window_is_refused() -> None:
    with refuses("`stride` is 25, but must be from 1 to 24, the length of a window."):
        chars().score(["a"], stride=25)


def test_a_model_that_carries_its_state_scores_texts_whole() -> None:
    model = TextGenerator(language_bundle(borders="open", recurrent=True, max_length=4))
    tokens = model.vocabularies["text"].encode("the cat sat")
    (found,) = model.score(["the cat sat"])
    assert found.log_probabilities[9] == pytest.approx(scores_after(model.network, [BEGIN, *tokens[:9]])[tokens[9]])
    with refuses(
        "`stride` is 2, but this model carries its state over the whole text and reads no windows: leave it out."
    ):
        model.score(["a"], stride=2)
