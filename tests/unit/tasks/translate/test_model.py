"""`load` and the model: text in, text out."""

import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.shared.refusals import like, refuses

import heedful
from heedful.base.errors import MachineError, UserError, on_command_line
from heedful.tasks.translate.model import Translation, Translator

Sentences = Callable[[int], list[str]]
Make = Callable[..., Translator]


# --- translate --------------------------------------------------------------------------------------------------------


def test_a_loaded_model_translates(reversing_folder: Path, sentences: Sentences, reverse: Callable[[str], str]) -> None:
    model = heedful.load(reversing_folder, device="cpu")
    assert isinstance(model, Translator)
    texts = sentences(100)
    right = sum(found == reverse(text) for found, text in zip(model.translate(texts), texts, strict=True))
    assert right > 80


def test_one_text_in_is_one_text_out(reversing: Translator) -> None:
    assert reversing.translate("ant bee") == "bee ant"
    assert reversing.translate(["ant bee"]) == ["bee ant"]
    assert reversing.translate([]) == []


def test_order_and_blank_lines_are_kept(reversing: Translator, sentences: Sentences) -> None:
    texts = sentences(9)
    mixed = [texts[0], "", texts[1], "   ", "\t", *texts[2:], ""]
    expected = [reversing.translate(text) if text.strip() else "" for text in mixed]
    assert reversing.translate(mixed, batch_tokens=40) == expected


def test_a_blank_text_is_never_sent_to_the_model(reversing: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*call: object) -> None:
        raise AssertionError("the model was asked")

    monkeypatch.setattr(type(reversing.network.encoder), "forward", refuse)
    (blank,) = reversing.translate_detailed([" "])[0]
    assert (blank.text, blank.score, blank.tokens, blank.complete) == ("", 0.0, (), True)


def test_a_full_memory_names_the_options_that_fill_it_and_their_values(
    reversing: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*call: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(type(reversing.network.encoder), "forward", full)
    line = r"^the machine's memory is full: `batch_tokens=70` and `beam=3` are too much for this model: lower one of t"
    with pytest.raises(MachineError, match=line):
        reversing.translate("ant", batch_tokens=70, beam=3)
    with on_command_line(), refuses("...full: --batch-tokens 70 and --beam 3 are too much...", MachineError):
        reversing.translate("ant", batch_tokens=70, beam=3)
    monkeypatch.setattr(type(reversing.network.encoder), "forward", lambda *call: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reversing.translate("ant")


def test_a_model_whose_scores_are_not_numbers_is_one_line(reversing_folder: Path) -> None:
    model = Translator.load(reversing_folder, device="cpu")
    for parameter in model.network.parameters():
        parameter.data.fill_(3e38)
    with refuses("The model finds no translation, as its scores are not numbers: its weights..."):
        model.translate("ant bee")


def test_details_are_scores_tokens_and_the_best_first(reversing: Translator) -> None:
    (nbest,) = reversing.translate_detailed(["ant bee cat"], nbest=3)
    assert len(nbest) == 3
    assert nbest[0].text == reversing.translate("ant bee cat")
    assert [best.score for best in nbest] == sorted((best.score for best in nbest), reverse=True)
    assert all(best.complete for best in nbest)
    assert [reversing.vocabularies["target"].decode(best.tokens) for best in nbest] == [best.text for best in nbest]
    assert len({best.text for best in nbest}) == 3


def test_options_overrule_the_recipe(reversing: Translator) -> None:
    scores = [
        reversing.translate_detailed(["ant bee"], length_penalty=alpha, beam=beam)[0][0].score
        for alpha, beam in ((None, None), (reversing.recipe.decode.length_penalty, 4), (0.0, 1), (2.0, 4))
    ]
    assert scores[0] == scores[1]
    assert len(set(scores)) == 3
    cut = reversing.translate_detailed(["ant"], max_extra=1)[0][0]
    assert len(cut.tokens) + cut.complete <= 2


def test_wrong_options_are_refused(reversing: Translator) -> None:
    with refuses("`beem` is not an option. Did you mean `beam`?", TypeError):
        reversing.translate("ant", beem=3)  # type: ignore[call-overload]
    with refuses("`beam` is 0, but must be at least 1."):
        reversing.translate("ant", beam=0)
    with refuses("`nbest` is 9, but a beam of 4 finds no more than 4..."):
        reversing.stream_detailed(["ant"], nbest=9)  # at once, not with the first text


def test_one_text_has_its_own_details(reversing: Translator) -> None:
    assert reversing.translate_detailed("ant bee", nbest=2) == reversing.translate_detailed(["ant bee"], nbest=2)[0]


def test_translate_does_not_ignore_nbest(reversing: Translator) -> None:
    message = r"^`translate` returns the best translation alone: `nbest` is for `translate_detailed`\.$"
    with pytest.raises(UserError, match=message):
        reversing.translate("ant", nbest=3)  # type: ignore[call-overload]
    with refuses("`stream` returns the best translation alone..."):
        reversing.stream(["ant"], nbest=3)  # type: ignore[call-arg]


def test_what_is_not_a_text_is_refused_with_its_line(reversing: Translator) -> None:
    for translate in (reversing.translate, reversing.translate_detailed):
        with refuses("texts, line 2 is None, but must be a text: leave it out, or give ..."):
            translate(["ant", None])  # type: ignore[list-item]
    stream = reversing.stream(["ant", 5, "bee"])  # type: ignore[list-item]
    assert next(stream) == "ant"
    with refuses("texts, line 2 is 5, but must be a text: convert it with `str()`."):
        next(stream)
    with refuses("`texts` is one text, but must be..."):
        reversing.stream("ant bee")
    with refuses("targets, line 1 is None, ..."):
        reversing.score(["ant"], [None])  # type: ignore[list-item]


def test_dropout_is_off_and_stays_off(untrained: Make) -> None:
    model = untrained(dropout=0.5)
    model.network.train()
    assert model.translate_detailed(["ant bee"]) == model.translate_detailed(["ant bee"])
    assert not model.network.training


def test_text_is_composed_where_the_model_was_trained_so(untrained: Make) -> None:
    decomposed = "e\u0301"
    assert untrained(nfc=True).encode([decomposed]) == untrained().encode(["\u00e9"])
    assert untrained(nfc=False).encode([decomposed]) != untrained().encode(["\u00e9"])


# --- streams ----------------------------------------------------------------------------------------------------------


def test_streaming_equals_translating_at_once(reversing: Translator, sentences: Sentences) -> None:
    texts = [*sentences(20), "", *sentences(5)]
    expected = reversing.translate(texts)
    assert list(reversing.stream(texts)) == expected
    streamed = reversing.stream_detailed(iter(texts), chunk=7, beam=4)
    assert [nbest[0].text for nbest in streamed] == expected


def test_an_endless_stream_is_translated_as_it_comes(reversing: Translator) -> None:
    taken: list[str] = []

    def endless() -> Iterator[str]:
        for text in itertools.cycle(["ant bee", "cat"]):
            taken.append(text)
            yield text

    stream = reversing.stream_detailed(endless(), chunk=3)
    assert [next(stream)[0].text for _ in range(4)] == ["bee ant", "cat", "bee ant", "cat"]
    assert len(taken) <= 3 * 9  # parts under way, and one more


def test_a_stream_takes_what_is_ready(reversing: Translator) -> None:
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for text in ("ant bee", "cat"):
            taken.append(text)
            yield text

    stream = reversing.stream_detailed(lines(), ready=lambda: False)
    assert next(stream)[0].text == "bee ant"
    assert taken == ["ant bee"]


# --- length -----------------------------------------------------------------------------------------------------------

TOO_LONG = (
    "{name}, line {line} has 10 tokens with `</s>`, but this model has positions for 9 (`model.max_positions`): "
    "split the line."
)


def test_a_text_that_the_model_has_no_positions_for_is_refused_with_its_line(untrained: Make) -> None:
    model = untrained()
    assert model.translate(["ant " * 8], max_extra=1)
    with refuses(TOO_LONG.format(name="texts", line=2)):
        model.translate(["ant", "ant " * 9])


def test_a_stream_gives_everything_before_the_line_that_is_too_long(untrained: Make) -> None:
    model, seen = untrained(), list[list[Translation]]()
    texts = ["ant", "bee", "", "cat", "dog", "ant " * 9, "bee"]
    with refuses(TOO_LONG.format(name="in.txt", line=6)):
        seen.extend(iter(model.stream_detailed(texts, chunk=4, name="in.txt")))
    assert len(seen) == 5


def test_sinusoidal_models_take_any_length(untrained: Make) -> None:
    assert untrained(positions="sinusoidal").translate(["ant " * 600], max_extra=1, beam=1)


def test_a_translation_that_was_cut_says_so(untrained: Make) -> None:
    model = untrained(positions="sinusoidal", norm="pre", tie="none")
    with torch.no_grad():
        model.network.decoder.output.weight.zero_()
        model.network.get_parameter("decoder.final.bias").fill_(1.0)
        model.network.decoder.output.weight[2].fill_(-9.0)
    (best,) = model.translate_detailed(["ant bee"], max_extra=3)[0]
    assert not best.complete
    assert len(best.tokens) == 5


# --- load -------------------------------------------------------------------------------------------------------------


def test_bfloat16_keeps_matrices_in_bfloat16_and_norms_in_float32(reversing_folder: Path, sentences: Sentences) -> None:
    exact, rough = (
        Translator.load(reversing_folder, device="cpu"),
        Translator.load(reversing_folder, device="cpu", precision="bfloat16"),
    )
    types = {name: parameter.dtype for name, parameter in rough.network.named_parameters()}
    assert types["encoder.embedding.weight"] == torch.bfloat16
    assert types["encoder.blocks.0.attention.project.bias"] == torch.bfloat16
    assert types["encoder.final.weight"] == torch.float32
    assert rough.network.encoder.embedding.weight is rough.network.decoder.output.weight  # type: ignore[attr-defined]
    texts = sentences(50)
    same = sum(a == b for a, b in zip(exact.translate(texts), rough.translate(texts), strict=True))
    assert same > 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, like("`gpu` is not a device: ...")),
        ({"device": "cuda:x"}, like("`cuda:x` is not a device: ...")),
        ({"precision": "float8"}, "`float8` is not a precision: use `auto`, `float32`, `bfloat16` or `int8`."),
    ],
)
def test_unknown_devices_and_precisions_are_refused(
    reversing_folder: Path, options: dict[str, str], message: str
) -> None:
    with refuses(message):
        Translator.load(reversing_folder, **options)


def test_automatic_precision_is_float32_on_the_cpu(reversing_folder: Path) -> None:
    model = Translator.load(str(reversing_folder), device="cpu")
    assert {parameter.dtype for parameter in model.network.parameters()} == {torch.float32}
    assert model.recipe.decode.max_extra == 6
    assert model.vocabularies.joint


def test_a_bundle_may_be_moved(reversing_folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(reversing_folder, tmp_path / "moved")
    assert Translator.load(moved, device="cpu").translate("ant bee") == "bee ant"


@pytest.mark.wide
def test_the_public_functions_stay_themselves_whichever_is_asked_for_first() -> None:
    code = "import heedful; heedful.load; print(callable(heedful.train), callable(heedful.average))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True True\n"
