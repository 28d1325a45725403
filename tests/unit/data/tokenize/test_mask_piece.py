"""The piece `<mask>`: in every kind of vocabulary that asks for it, and never found in text."""

import json

import pytest
from tests.shared.refusals import refuses

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import BEGIN, END, MASK, SPECIALS, UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer

TEXTS = ["the cat sat", "the dog saw a <mask> and [MASK]", "unbelievable cats sat"] * 3
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=320),
    Bpe(kind="bpe", size=90),
    WordPiece(kind="wordpiece", size=90),
    Unigram(kind="unigram", size=60),
    Words(kind="word", size=30),
    Characters(kind="char", size=60),
]
TRAINED = {config.kind: train_tokenizer(config, TEXTS, mask=True) for config in KINDS}
RELOADED = {kind: Tokenizer.from_json(tokenizer.to_json(), "t.json") for kind, tokenizer in TRAINED.items()}
both_forms = pytest.mark.parametrize(
    "tokenizer",
    [*TRAINED.values(), *RELOADED.values()],
    ids=[*TRAINED, *(f"{kind} reloaded" for kind in RELOADED)],
)


@both_forms
def test_the_mask_stands_behind_the_special_pieces(tokenizer: Tokenizer) -> None:
    assert tokenizer.mask == len(SPECIALS)
    assert tokenizer.markers == len(SPECIALS) + 1
    assert tokenizer.pieces([len(SPECIALS)]) == [MASK]
    added = json.loads(tokenizer.to_json())["added_tokens"]
    assert [(token["id"], token["content"]) for token in added] == list(enumerate((*SPECIALS, MASK)))


@both_forms
def test_no_text_has_a_mask_in_it(tokenizer: Tokenizer) -> None:
    for text in (MASK, "the <mask> sat", "[MASK]", "cat<mask>", *TEXTS):
        assert all(token == UNKNOWN or token >= tokenizer.markers for token in tokenizer.encode(text))


@both_forms
def test_decoding_leaves_masks_out(tokenizer: Tokenizer) -> None:
    cat = tokenizer.encode("cat")
    assert tokenizer.mask is not None
    assert tokenizer.decode([BEGIN, *cat, tokenizer.mask, END]) == "cat"


def test_text_about_masks_comes_back_from_bytes() -> None:
    for text in TEXTS:
        assert RELOADED["byte_bpe"].decode(RELOADED["byte_bpe"].encode(text)) == text


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_vocabularies_have_a_mask_only_where_they_are_asked_for_one(config: AnyTokenizer) -> None:
    without = train_tokenizer(config, TEXTS)
    assert without.mask is None
    assert without.markers == len(SPECIALS)
    assert without.fingerprint != TRAINED[config.kind].fingerprint


def test_tags_come_behind_the_mask() -> None:
    tokenizer = train_tokenizer(Words(kind="word"), TEXTS, ["de", "cs"], mask=True)
    again = Tokenizer.from_json(tokenizer.to_json(), "t.json")
    assert (again.mask, again.tags) == (4, {"cs": 5, "de": 6})
    assert again.markers == 7


def test_a_vocabulary_without_room_for_more_is_refused() -> None:
    with refuses("`tokenizer.size` is 5, but must be more than 5, the number of special pieces."):
        train_tokenizer(Words(kind="word", size=5), TEXTS, mask=True)
    assert train_tokenizer(Words(kind="word", size=6), TEXTS, mask=True).size == 6


# --- words ------------------------------------------------------------------------------------------------------------


def pieces_inside_words(tokenizer: Tokenizer, text: str) -> list[str]:
    ids = tokenizer.encode(text)
    return [piece for token, piece in zip(ids, tokenizer.pieces(ids), strict=True) if tokenizer.continues_word(token)]


def test_pieces_tell_whether_they_go_on_with_a_word() -> None:
    wordpiece, of_bytes, unigram = (RELOADED[kind] for kind in ("wordpiece", "byte_bpe", "unigram"))
    assert all(piece.startswith("##") for piece in pieces_inside_words(wordpiece, "the cats catthe dogs"))
    assert pieces_inside_words(wordpiece, "the cats catthe dogs") != []
    assert pieces_inside_words(wordpiece, "the cat") == []
    for tokenizer in (of_bytes, unigram):
        inside = pieces_inside_words(tokenizer, " catdog cats")
        assert inside != []
        assert not any(piece.startswith("▁") for piece in inside)
    for kind in ("word", "char", "bpe"):
        assert pieces_inside_words(RELOADED[kind], "the cats catthe dogs") == []


@both_forms
def test_markers_go_on_with_no_word(tokenizer: Tokenizer) -> None:
    assert not any(tokenizer.continues_word(token) for token in range(tokenizer.markers))
