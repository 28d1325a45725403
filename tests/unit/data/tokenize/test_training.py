import subprocess
import sys
from string import ascii_letters

import pytest
from tests.shared.patience import PATIENCE
from tests.shared.refusals import refuses

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.data.tokenize.training import train_tokenizer

WORDS = [
    "der",
    "Hund",
    "Katze",
    "Haus",
    "rennt",
    "sieht",
    "schnell,",
    "langsam.",
    "Übung",
    "Hunde",
    "rennen",
    "sah",
    "eine",
]
TEXTS = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 3 + i % 7)) for i in range(300)]
STRANGE = ["".join(ascii_letters[(i * i + 3 * j * i + j) % 52] for j in range(4 + i % 5)) for i in range(400)]
SMALL: list[AnyTokenizer] = [
    ByteBpe(size=300),
    Bpe(kind="bpe", size=80),
    WordPiece(kind="wordpiece", size=80),
    Unigram(kind="unigram", size=34),
    Words(kind="word", size=15),
    Characters(kind="char", size=20),
]
ids = [config.kind for config in SMALL]

IN_ANOTHER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from test_training import fingerprints
print(*fingerprints())
"""


def fingerprints() -> list[str]:
    scarce = train_tokenizer(Unigram(kind="unigram", size=100), STRANGE)  # most single letters are pruned and come back
    return [scarce.fingerprint, *(train_tokenizer(config, iter(TEXTS)).fingerprint for config in SMALL)]


def test_the_same_text_gives_the_same_tokenizer_in_every_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, __file__.rsplit("/", 1)[0]],
        capture_output=True,
        timeout=PATIENCE,
        text=True,
    )
    assert (done.stdout.split(), done.stderr) == (fingerprints(), "")  # and no progress bar on standard error


@pytest.mark.parametrize("config", SMALL, ids=ids)
def test_the_size_is_as_asked(config: AnyTokenizer) -> None:
    assert train_tokenizer(config, TEXTS).size == config.size


@pytest.mark.parametrize("config", SMALL, ids=ids)
def test_a_size_beyond_what_the_text_supports_gives_a_smaller_vocabulary(config: AnyTokenizer) -> None:
    large = type(config).model_validate({**config.model_dump(), "size": 5000})
    tokenizer = train_tokenizer(large, TEXTS)
    assert tokenizer.size < 1000
    assert UNKNOWN not in tokenizer.encode(TEXTS[5])
    assert tokenizer.decode(tokenizer.encode(TEXTS[5])) == TEXTS[5]


@pytest.mark.parametrize(
    "config", [Bpe(kind="bpe", size=12), WordPiece(kind="wordpiece", size=12)], ids=["bpe", "wordpiece"]
)
def test_the_rarest_characters_are_unknown_where_there_is_no_room(config: AnyTokenizer) -> None:
    tokenizer = train_tokenizer(config, ["a a ab ab aba"] * 9 + ["漢", "字", "語", "x", "y", "z"])
    assert tokenizer.size <= 12
    assert UNKNOWN not in tokenizer.encode("aba ab a")
    assert UNKNOWN in tokenizer.encode("漢")


def test_a_unigram_vocabulary_without_room_for_every_letter() -> None:
    tokenizer = train_tokenizer(Unigram(kind="unigram", size=12), TEXTS)
    assert 5 < tokenizer.size <= 12
    assert UNKNOWN not in tokenizer.encode("e n")


def test_bpe_is_for_text_split_at_spaces() -> None:
    tokenizer = train_tokenizer(Bpe(kind="bpe", size=200), TEXTS)
    assert tokenizer.decode(tokenizer.encode("  der   Hund rennt ")) == "der Hund rennt"
    assert len(tokenizer.encode("der Hund rennt")) == 3  # frequent words are whole pieces


def test_words_are_kept_by_frequency_and_rare_ones_are_unknown() -> None:
    tokenizer = train_tokenizer(Words(kind="word", min_count=2), ["a b", "b a", "b c"])
    assert tokenizer.encode("b a c") == [4, 5, UNKNOWN]
    assert tokenizer.size == 6


def test_the_byte_alphabet_is_complete() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=260), ["a"])
    assert tokenizer.size == 260
    assert tokenizer.decode(tokenizer.encode("漢字 Übung")) == "漢字 Übung"


@pytest.mark.parametrize("config", SMALL[1:], ids=ids[1:])
@pytest.mark.parametrize("size", [1, 4])
def test_a_size_of_special_pieces_alone(config: AnyTokenizer, size: int) -> None:
    tiny = type(config).model_validate({**config.model_dump(), "size": size})
    with refuses(f"...`tokenizer.size` is {size}, but must be more than 4, the number of special pieces..."):
        train_tokenizer(tiny, TEXTS)


@pytest.mark.parametrize("config", SMALL[1:], ids=ids[1:])
def test_no_text_at_all(config: AnyTokenizer) -> None:
    with refuses("There is no text to train a tokenizer on: the training files are empty or blank."):
        train_tokenizer(config, ["", ""])
