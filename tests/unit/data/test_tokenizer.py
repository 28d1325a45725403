import json
import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heedful.config.schema import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from heedful.data.tokenizer_training import train_tokenizer
from heedful.errors import UserError

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


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"\xff"])
def test_a_damaged_tokenizer(data: bytes) -> None:
    with pytest.raises(
        UserError, match=r"^some/tokenizer.json is not a tokenizer \([^\n]+\): restore it from a copy\.$"
    ):
        Tokenizer.from_json(data, "some/tokenizer.json")


def test_a_tokenizer_with_other_markers() -> None:
    strange = TRAINED["word"].to_json().replace(b'"</s>"', b'"[END]"')
    message = r"^t.json: </s> has id None, but must have id 2: it is not a tokenizer of Heedful\.$"
    with pytest.raises(UserError, match=message):
        Tokenizer.from_json(strange, "t.json")


FORK = """
import os
from heedful.data.tokenizer import Tokenizer
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
        [sys.executable, "-c", FORK], input=BYTES.to_json(), env=environment, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
