"""BLEU and chrF are sacreBLEU's own."""

import logging

import pytest
import sacrebleu
from tests.shared.refusals import refuses

from heedful.base.notes import listening
from heedful.metrics import translation
from heedful.metrics.translation import bleu, chrf

OUTPUTS = ["The cat sat on the mat.", "A dog runs fast , does it not ?", "Nothing in common here", ""]
REFERENCES = ["The cat is on the mat.", "A dog runs fast, doesn't it?", "Completely different words", "Blank above."]


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char", "zh"])
def test_bleu_equals_sacrebleus_function_and_carries_its_signature(tokenize: str) -> None:
    score = bleu(OUTPUTS, REFERENCES, tokenize)
    assert score.name == "BLEU"
    assert score.score == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize=tokenize, force=True).score
    assert score.signature == f"nrefs:1|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:{sacrebleu.__version__}"


def test_chrf_equals_sacrebleus_function_and_carries_its_signature() -> None:
    score = chrf(OUTPUTS, REFERENCES)
    assert score.name == "chrF"
    assert score.score == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert score.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"


def test_tokenized_text_is_no_surprise_where_it_was_announced(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["a b c d ."] * 200
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        assert bleu(lines, lines, "none").score == pytest.approx(100)
    assert not caplog.records


@pytest.mark.parametrize(("tokenize", "extra"), [("ja-mecab", "ja"), ("ko-mecab", "ko")])
def test_a_tokenizer_without_its_dictionary_says_what_to_install(
    tokenize: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**options: object) -> None:
        raise RuntimeError("Please install them like so.")

    monkeypatch.setattr(translation, "BLEU", missing)
    with refuses(
        f"BLEU's tokenizer `{tokenize}` (`evaluate.bleu_tokenize`) needs a dictionary: "
        f"`pip install sacrebleu[{extra}]`."
    ):
        bleu(OUTPUTS, REFERENCES, tokenize)


@pytest.mark.parametrize(("outputs", "references"), [(["a"], ["a", "b"]), ([], [])])
def test_what_cannot_be_compared_is_refused(outputs: list[str], references: list[str]) -> None:
    message = f"^{len(outputs)} outputs cannot be scored against {len(references)} references$"
    with pytest.raises(ValueError, match=message):
        bleu(outputs, references)


def test_of_a_line_of_megabytes_the_beginning_is_scored() -> None:
    long = "ab " * 60_000
    assert bleu([long], [long]).score == pytest.approx(100)
    assert chrf([long + "x" * 999], [long]).score == pytest.approx(100)
    assert chrf(["x" + long], [long]).score < 100


def test_it_is_said_once_that_only_the_beginning_is_scored() -> None:
    notes: list[str] = []
    with listening(notes.append):
        chrf(["a" * 100_001, "b" * 100_001], ["a" * 200_000, "b"])
        chrf(["a" * 100_000], ["a"])
    assert notes == ["Of texts with over 100,000 characters only the first 100,000 are scored."]
