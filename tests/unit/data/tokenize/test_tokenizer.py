import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.shared.patience import PATIENCE
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer

TEXTS = ["ein Hund rennt", "der Hund sieht den Ball", "<s> ist ein Tag </s> <unk>", "Höhe <pad> 123"] * 3
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=300),
    Bpe(kind="bpe", size=120),
    WordPiece(kind="wordpiece", size=120),
    Unigram(kind="unigram", size=120),
    Words(kind="word", size=100),
    Characters(kind="char", size=100),
]
TRAINED = {config.kind: train_tokenizer(config, TEXTS) for config in KINDS}
all_kinds = pytest.mark.parametrize("tokenizer", list(TRAINED.values()), ids=list(TRAINED))


def reloaded(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_json(tokenizer.to_json(), "tokenizer.json")


RELOADED = {kind: reloaded(tokenizer) for kind, tokenizer in TRAINED.items()}
BYTES = RELOADED["byte_bpe"]


@given(st.text())
@example("  two  spaces at both ends  ")
@example("<s> </s> <pad><unk>")
@example("👩‍👩‍👧 \U0001f600\u0301 \x00\x07\x1f\x7f\r\n\t\u2028\ufeff\ufffd")
def test_byte_level_text_comes_back_exactly(text: str) -> None:
    ids = BYTES.encode(text)
    assert BYTES.decode(ids) == text
    assert all(token > UNKNOWN for token in ids)


@given(st.lists(st.sampled_from([*SPECIALS, "Hund", "der", " ", "a", "<", "漢"])))
def test_no_kind_parses_markers_out_of_text(parts: list[str]) -> None:
    for tokenizer in (*TRAINED.values(), *RELOADED.values()):
        assert all(token >= UNKNOWN for token in tokenizer.encode("".join(parts)))


@all_kinds
def test_special_ids_are_the_same_in_every_vocabulary(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad, tokenizer.begin, tokenizer.end, tokenizer.unknown) == (PAD, BEGIN, END, UNKNOWN)
    vocabulary = json.loads(tokenizer.to_json())["added_tokens"]
    assert [(token["id"], token["content"]) for token in vocabulary] == list(enumerate(SPECIALS))


@all_kinds
def test_decoding_leaves_markers_out(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("der Hund")
    assert tokenizer.decode([BEGIN, *ids, END, PAD, PAD]) == "der Hund"


@all_kinds
def test_an_unknown_piece_shows(tokenizer: Tokenizer) -> None:
    assert "<unk>" in tokenizer.decode([*tokenizer.encode("der "), UNKNOWN])


@all_kinds
def test_a_batch_equals_one_by_one(tokenizer: Tokenizer) -> None:
    texts = ["der Hund", "", "ein Ball rennt"]
    ids = tokenizer.encode_batch(texts)
    assert ids == [tokenizer.encode(text) for text in texts]
    assert ids[1] == []
    assert tokenizer.decode_batch(ids) == [tokenizer.decode(sentence) for sentence in ids] == texts
    assert max(map(max, filter(None, ids))) < tokenizer.size


@all_kinds
def test_json_brings_the_same_tokenizer_back(tokenizer: Tokenizer) -> None:
    again = reloaded(tokenizer)
    assert again.to_json() == tokenizer.to_json()
    assert again.fingerprint == tokenizer.fingerprint
    assert again.size == tokenizer.size
    assert again.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)


def test_fingerprints_tell_tokenizers_apart() -> None:
    assert len({tokenizer.fingerprint for tokenizer in TRAINED.values()}) == len(TRAINED)


# --- words and pieces -------------------------------------------------------------------------------------------------


def words_of_prefixes(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The definition: the last word of the text up to each piece."""
    return [max(0, len(tokenizer.decode(ids[:end]).split()) - 1) for end in range(1, len(ids) + 1)]


PARTS = [
    *TEXTS,
    " ",
    "  ",
    "\t",
    "\n",
    "\u3000",
    "\u2028",
    "\xa0",
    "\x85",
    "漢字",
    "👩‍👧",
    ". , n't 's",
    "▁",
    "##",
    "x",
]


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=12).map("".join))
@example("")
@example(" \u3000 ")
@example("der \u3000Hund 漢\u3000字  ")
def test_words_are_those_of_the_text_up_to_each_piece(text: str) -> None:
    for tokenizer in RELOADED.values():
        ids = tokenizer.encode(text)
        assert tokenizer.words(ids) == words_of_prefixes(tokenizer, ids)


@given(st.data())
def test_words_of_whatever_a_model_writes(data: st.DataObject) -> None:
    for tokenizer in RELOADED.values():
        any_of_them = st.sampled_from([PAD, UNKNOWN, tokenizer.encode("  x")[0]]) | st.integers(0, tokenizer.size - 1)
        ids = data.draw(st.lists(any_of_them, max_size=20))
        assert tokenizer.words(ids) == words_of_prefixes(tokenizer, ids)


@all_kinds
def test_words_of_a_long_line_take_no_more_than_its_length(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("der Hund Höhe " * 5_000)
    tracemalloc.start()
    words = tokenizer.words(ids)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert words[-1] == 15_000 - 1
    assert peak < 100 * len(ids)


def test_byte_level_pieces_are_shown_as_text() -> None:
    assert "".join(BYTES.pieces(BYTES.encode("der Hund: 5 Höhe"))) == "der▁Hund:▁5▁Höhe"
    assert BYTES.pieces(BYTES.encode(" Hund")) == ["▁Hund"]
    assert BYTES.pieces(BYTES.encode("漢")) == ["<0xE6>", "<0xBC>", "<0xA2>"]
    assert "".join(BYTES.pieces(BYTES.encode("\t\n\x7f\xa0"))) == "<0x09><0x0A><0x7F><0xC2><0xA0>"
    assert "".join(BYTES.pieces(BYTES.encode("▁"))) == "<0xE2><0x96><0x81>"
    merged = train_tokenizer(ByteBpe(size=290), ["-▁ü"] * 5)  # hidden letters and others are one piece
    assert merged.pieces(merged.encode("-▁ü")) == ["-<0xE2><0x96><0x81>", "ü"]


@given(st.text())
@example("a b\u3000c\x00▁")
def test_byte_level_pieces_together_tell_every_byte(text: str) -> None:
    text = text.replace("<", "")  # which begins the form of a byte
    shown = "".join(BYTES.pieces(BYTES.encode(text))).replace("▁", " ")
    assert re.sub(r"(<0x..>)+", lambda run: bytes.fromhex(re.sub("<0x|>", "", run[0])).decode(), shown) == text


@all_kinds
def test_no_piece_has_white_space_or_a_control_character(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(range(tokenizer.size))
    assert not any(letter.isspace() or ord(letter) < 32 for piece in pieces for letter in piece)
    assert len(set(pieces)) == tokenizer.size
    assert tokenizer.pieces([BEGIN, END, UNKNOWN, tokenizer.size]) == ["<s>", "</s>", "<unk>", "<unk>"]


def test_a_tag_is_no_byte_level_piece() -> None:
    assert train_tokenizer(ByteBpe(size=270), TEXTS, ["å", "中"]).pieces([4, 5]) == ["<2å>", "<2中>"]


def test_marks_of_words_are_the_vocabularys() -> None:
    shown = {kind: tokenizer.pieces(tokenizer.encode("der Hund")) for kind, tokenizer in RELOADED.items()}
    assert shown["byte_bpe"] == ["der", "▁Hund"]
    assert shown["bpe"] == ["der</w>", "Hund</w>"]
    assert shown["word"] == shown["wordpiece"] == ["der", "Hund"]
    assert shown["char"] == [*"der▁Hund"]
    assert "".join(shown["unigram"]) == "▁der▁Hund"
    assert RELOADED["wordpiece"].pieces(RELOADED["wordpiece"].encode("12")) == ["1", "##2"]


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"\xff"])
def test_a_damaged_tokenizer(data: bytes) -> None:
    with refuses("some/tokenizer.json is not a tokenizer (...): restore it from a copy."):
        Tokenizer.from_json(data, "some/tokenizer.json")


def test_a_tokenizer_with_other_markers() -> None:
    strange = TRAINED["word"].to_json().replace(b'"</s>"', b'"[END]"')
    message = r"^t.json: </s> has id None, but must have id 2: it is not a tokenizer of Heedful\.$"
    with pytest.raises(UserError, match=message):
        Tokenizer.from_json(strange, "t.json")


FORK = """
import os
from heedful.data.tokenize.tokenizer import Tokenizer
tokenizer = Tokenizer.from_json(open(0, "rb").read(), "standard input")
texts = ["der Hund"] * 100
expected = tokenizer.encode_batch(texts)
child = os.fork()
if not child:
    os._exit(0 if tokenizer.encode_batch(texts) == expected else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_tokenizes_without_a_warning() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", FORK], input=BYTES.to_json(), env=environment, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with refuses(r"The text 'a\ud800' is not Unicode: give it in UTF-8."):
        TRAINED["byte_bpe"].encode("a\ud800")
