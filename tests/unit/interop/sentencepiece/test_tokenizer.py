"""Imported tokenizers cut text as MarianTokenizer does, with the SentencePiece program behind it, and join it the same.

One difference is left. Where two ways to cut a text are equally probable, as `9|99` and `99|9` are, the program's
rounding decides; ours then has as good a cut, but maybe the other one.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tests.unit.interop.marian_folders import ENGLISH, GERMAN, some_texts, spm, write_tokenizers
from transformers import MarianTokenizer

from heedful.data.tokenize.tokenizer import SPECIALS, UNKNOWN, Tokenizer
from heedful.interop.transformers.pairs.marian import MarianVocabulary
from heedful.interop.transformers.tokenizers.sentencepiece_file import read_sentencepiece
from heedful.interop.transformers.tokenizers.sentencepiece_tokenizer import build_tokenizer

ALGORITHMS: dict[str, dict[str, Any]] = {
    "unigram": {"kind": "unigram"},
    "bpe": {"kind": "bpe"},
    "unigram that spells bytes": {"kind": "unigram", "byte_fallback": True, "size": 400},
    "bpe that spells bytes": {"kind": "bpe", "byte_fallback": True, "size": 400},
    "unigram without rules": {
        "kind": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False
    },
    "bpe that folds case": {"kind": "bpe", "normalization_rule_name": "nmt_nfkc_cf", "add_dummy_prefix": False},
}  # fmt: skip
TEXTS = some_texts(400)


class Both:
    """MarianTokenizer of a folder, and what is imported from it."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        source, target = spm(ENGLISH, **options), spm(GERMAN, **options)
        missing = 0.0 if "byte_fallback" in options else 0.1  # half a character's bytes are joined otherwise
        self.ids = write_tokenizers(folder, source, target, missing=missing)
        self.theirs = MarianTokenizer.from_pretrained(folder)
        self.models = [read_sentencepiece(data, "x.spm") for data in (source, target)]
        self.vocabulary = MarianVocabulary.of(self.ids, self.models)
        self.ours = [reloaded(build_tokenizer(model, self.vocabulary.pieces)) for model in self.models]

    def cut_by_theirs(self, text: str, side: int) -> list[str]:
        (self.theirs._switch_to_input_mode, self.theirs._switch_to_target_mode)[side]()
        pieces: list[str] = self.theirs.tokenize(text)
        return pieces

    def in_their_ids(self, tokens: Sequence[int]) -> list[int]:
        return [self.vocabulary.rows[token] for token in tokens]


def reloaded(tokenizer: Tokenizer) -> Tokenizer:
    again = Tokenizer.from_json(tokenizer.to_json(), "tokenizer.json")
    assert again.fingerprint == tokenizer.fingerprint
    return again


@pytest.fixture(scope="module", params=ALGORITHMS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("folder"), ALGORITHMS[request.param])


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_text_is_cut_as_marians_tokenizer_cuts_it(both: Both, side: int) -> None:
    for text in TEXTS:
        expected = [both.ids.get(piece, both.ids["<unk>"]) for piece in both.cut_by_theirs(text, side)]
        assert both.in_their_ids(both.ours[side].encode(text)) == expected, text


def test_pieces_of_the_other_side_are_not_found_between_unknown_runs(both: Both) -> None:
    ours, theirs = both.models
    foreign = [piece for piece in theirs.scores if piece not in ours.scores and ours.letters.issuperset(piece)]
    assert len(foreign) > 5
    for text in (f"a字{piece}字" for piece in foreign if "▁" not in piece):
        expected = [both.ids.get(piece, both.ids["<unk>"]) for piece in both.cut_by_theirs(text, 0)]
        assert both.in_their_ids(both.ours[0].encode(text)) == expected, text


def test_of_cuts_that_are_as_good_one_is_taken() -> None:
    data = spm(tuple(line.replace("1984", "1999") for line in ENGLISH))
    model, program = read_sentencepiece(data, "x.spm"), sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer, pieces = build_tokenizer(model, tuple(model.scores)), list(model.scores)
    assert ["9" * count in model.scores for count in (1, 2, 3)] == [True, True, False]
    for text in ("999", "a 999", "the dog 999", "999 99999"):
        ours = [pieces[token - len(SPECIALS)] for token in tokenizer.encode(text)]
        costs = [sum(model.scores[piece] for piece in cut) for cut in (ours, program.encode(text, out_type=str))]
        assert costs[0] == pytest.approx(costs[1], abs=1e-5)


def test_the_texts_have_what_is_hard(both: Both) -> None:
    """Unknown runs, runs that only the other side knows, pieces that the vocabulary lacks."""
    cut = [piece for text in TEXTS for piece in both.cut_by_theirs(text, 0)]
    scores, spelled = both.models[0].scores, bool(both.models[0].byte_pieces)
    assert spelled or any(piece not in scores and piece not in both.ids for piece in cut)
    assert spelled or any(piece not in scores and piece in both.ids for piece in cut)
    assert spelled or any(piece in scores and piece not in both.ids for piece in cut)


def test_pieces_are_joined_as_marians_tokenizer_joins_them(both: Both) -> None:
    known = range(len(SPECIALS), len(both.ids))
    for text in TEXTS:
        tokens = [token for token in both.ours[1].encode(text) if token in known]
        expected = both.theirs.decode(both.in_their_ids(tokens), skip_special_tokens=True, use_source_tokenizer=False)
        assert both.ours[1].decode(tokens) == expected


def test_pieces_of_the_other_side_are_joined_too(both: Both) -> None:
    names = [*SPECIALS, *both.vocabulary.pieces]
    foreign = [piece for piece in both.models[0].scores if piece not in both.models[1].scores and piece in both.ids]
    assert len(foreign) > 10
    tokens = [names.index(piece) for piece in foreign]
    assert both.ours[1].decode(tokens) == "".join(foreign).replace("▁", " ").strip(" ")


def test_unknown_pieces_are_shown_and_ends_are_stripped(both: Both) -> None:
    space = [*SPECIALS, *both.vocabulary.pieces].index("▁")
    assert both.ours[1].decode([space, space, UNKNOWN, space]) == "<unk>"
    assert both.ours[1].decode([space]) == ""


@pytest.mark.parametrize("alphabet", [(), ("< > / 0 x 4 1 2 u n k p a d s",)], ids=["unknown", "known"])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("text", [*SPECIALS, "<2de>", "</s> a </s>", "a<unk>b", "<0x41>"])
def test_markers_are_never_parsed_out_of_text(text: str, kind: str, alphabet: tuple[str, ...]) -> None:
    assert_cut_as_by_the_program((*ENGLISH, *alphabet), text, kind)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["Tiếng Việt khó quá", "한국어 배우기", "ガギグ ｶﾞｷﾞ", "naïve Ångström"])
def test_text_in_parts_is_composed_as_the_program_does(text: str, form: Any) -> None:
    assert_cut_as_by_the_program((*ENGLISH, unicodedata.normalize("NFC", text)), unicodedata.normalize(form, text))


@pytest.mark.parametrize("text", ["\u0645\u064f\u062d\u0645\u0651\u064e\u062f", "\u05d1\u05bc\u05b0\u05e8\u05b5"])
def test_marks_are_not_sorted_where_the_program_leaves_them(text: str) -> None:
    assert unicodedata.normalize("NFC", text) != text
    assert_cut_as_by_the_program((*ENGLISH, text), text)


def assert_cut_as_by_the_program(trained_on: tuple[str, ...], text: str, kind: str = "unigram") -> None:
    program = sentencepiece.SentencePieceProcessor(model_proto=spm(trained_on, kind))
    model = read_sentencepiece(program.serialized_model_proto(), "x.spm")
    tokenizer = reloaded(build_tokenizer(model, tuple(model.scores), ["de"]))
    names = [*SPECIALS, "<2de>", *model.scores]
    expected = [
        names.index(piece) if piece in model.scores else UNKNOWN for piece in program.encode(text, out_type=str)
    ]
    assert tokenizer.encode(text) == expected


def test_an_empty_text_has_no_pieces(both: Both) -> None:
    for tokenizer in both.ours:
        assert tokenizer.encode("") == []
    if both.models[0].normalisation.extra_spaces_removed:
        assert both.ours[0].encode("  \u3000 ") == []


def test_tags_stand_behind_special_pieces() -> None:
    model = read_sentencepiece(spm(ENGLISH), "x.spm")
    tokenizer = reloaded(build_tokenizer(model, tuple(model.scores), ["de", "fr"]))
    assert tokenizer.tags == {"de": 4, "fr": 5}
    assert tokenizer.size == len(SPECIALS) + 2 + len(model.scores)
