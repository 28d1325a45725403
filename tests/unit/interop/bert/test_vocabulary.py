"""BERT's vocabulary in our order cuts text as BERT's own tokenizers do, in Rust and in Python."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.bert.bert_folders import MARKERS, ODDER, varied_texts, write_bert_vocabulary
from tests.unit.interop.marian_folders import Change
from tokenizers import Tokenizer as Library
from transformers import BertTokenizer
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from heedful.base.errors import UserError
from heedful.data.tokenize.tokenizer import MASK, SPECIALS, UNKNOWN, Tokenizer
from heedful.interop.transformers.encoders.vocabulary import EncoderVocabulary, read_wordpiece
from heedful.interop.transformers.model_folder import open_folder

Write = Callable[..., EncoderVocabulary]

OPTIONS: dict[str, dict[str, Any]] = {
    "uncased": {},
    "cased": {"do_lower_case": False},
    "lowercase with accents": {"strip_accents": False},
    "cased without accents": {"do_lower_case": False, "strip_accents": True},
    "Chinese in words": {"tokenize_chinese_chars": False},
}
all_options = pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
TEXTS = varied_texts(300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole vocabulary, in the form of a list, and the config that it belongs to."""
    pieces = write_bert_vocabulary(tmp_path / "bert", "list")
    (tmp_path / "bert/config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(pieces)}))
    return tmp_path / "bert"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a list of pieces and read it."""

    def write(*pieces: str, end: str = "\n", size: int | None = None) -> EncoderVocabulary:
        config = {"model_type": "bert", "vocab_size": len(pieces) if size is None else size}
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "vocab.txt").write_bytes("".join(piece + end for piece in pieces).encode())
        return read_wordpiece(open_folder(tmp_path))

    return write


def in_their_ids(vocabulary: EncoderVocabulary, text: str) -> list[int]:
    return [vocabulary.rows[token] for token in vocabulary.tokenizer.encode(text)]


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """All pieces as the vocabulary has them, in the order of ids."""
    ids = json.loads(tokenizer.to_json())["model"]["vocab"]
    assert sorted(ids.values()) == list(range(tokenizer.size))
    return sorted(ids, key=lambda piece: ids[piece])


# --- text -------------------------------------------------------------------------------------------------------------


def test_the_texts_have_all_that_is_odd() -> None:
    assert all(any(odd in text for text in TEXTS) for odd in ODDER)


@pytest.mark.parametrize("files", ["list", "library", "both"])
@all_options
def test_text_is_cut_as_berts_tokenizer_cuts_it(tmp_path: Path, files: Any, options: dict[str, Any]) -> None:
    pieces = write_bert_vocabulary(tmp_path, files, **options)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(pieces)}))
    ours, theirs = read_wordpiece(open_folder(tmp_path)), BertTokenizer.from_pretrained(tmp_path)
    expected = theirs(TEXTS, add_special_tokens=False)["input_ids"]
    assert [in_their_ids(ours, text) for text in TEXTS] == expected
    found = {token for ids in expected for token in ids}
    assert len(found) > 200
    assert theirs.unk_token_id in found


@all_options
def test_text_is_cut_as_the_papers_program_cuts_it(folder: Path, change: Change, options: dict[str, Any]) -> None:
    change("tokenizer_config.json", **options)
    ours, theirs = read_wordpiece(open_folder(folder)), BertTokenizerLegacy(str(folder / "vocab.txt"), **options)
    for text in TEXTS:
        composed = unicodedata.normalize("NFC", text)  # as that program does first, and the library does not
        if composed.lower() == "".join(letter.lower() for letter in composed):  # nor knows it sigmas at the end
            assert in_their_ids(ours, composed) == theirs.convert_tokens_to_ids(theirs.tokenize(composed)), text


def test_a_word_is_unknown_from_a_hundred_and_one_letters_on(write: Write) -> None:
    tokenizer = write(*MARKERS, "x", "##x").tokenizer
    assert len(tokenizer.encode("x" * 100)) == 100
    assert tokenizer.encode("x" * 101) == [UNKNOWN]


def test_another_longest_word_is_respected(tmp_path: Path) -> None:
    pieces = write_bert_vocabulary(tmp_path, "library")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(pieces)}))
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    assert values["model"]["max_input_chars_per_word"] == 100
    values["model"]["max_input_chars_per_word"] = 5
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    theirs, ours = Library.from_file(str(tmp_path / "tokenizer.json")), read_wordpiece(open_folder(tmp_path))
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert [in_their_ids(ours, text) for text in TEXTS] == expected


def test_what_the_library_says_of_text_holds_where_the_config_says_nothing(tmp_path: Path) -> None:
    pieces = write_bert_vocabulary(tmp_path, "library", do_lower_case=False, strip_accents=True)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(pieces)}))
    (tmp_path / "tokenizer_config.json").unlink()
    theirs, ours = Library.from_file(str(tmp_path / "tokenizer.json")), read_wordpiece(open_folder(tmp_path))
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert [in_their_ids(ours, text) for text in TEXTS] == expected


def test_what_the_config_says_of_text_holds_before_the_library(folder: Path, change: Change) -> None:
    plain = read_wordpiece(open_folder(folder))
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)  # uncased
    change("tokenizer_config.json", do_lower_case=False)
    cased, theirs = read_wordpiece(open_folder(folder)), BertTokenizer.from_pretrained(folder)
    assert in_their_ids(cased, "THE École") == theirs("THE École", add_special_tokens=False)["input_ids"]
    assert cased.tokenizer.encode("THE École") != plain.tokenizer.encode("THE École")


def test_text_is_joined_as_berts_tokenizer_joins_it(folder: Path) -> None:
    ours, theirs = read_wordpiece(open_folder(folder)), BertTokenizer.from_pretrained(folder)
    chance = random.Random(1)
    for _ in range(100):
        ids = [chance.randrange(len(MARKERS), ours.tokenizer.size) for _ in range(chance.randint(0, 12))]
        if not any(piece.startswith("[row-") for piece in ours.tokenizer.pieces(ids)):
            assert ours.tokenizer.decode(ids) == theirs.decode([ours.rows[token] for token in ids])
    assert ours.tokenizer.decode(ours.tokenizer.encode("The old house, was it?")) == "the old house, was it?"


@pytest.mark.parametrize("text", [*MARKERS, *SPECIALS, MASK, "[unused1]", "[row-7]", "a[MASK]b"])
def test_markers_and_pieces_for_no_text_are_not_found_in_text(folder: Path, text: str) -> None:
    vocabulary = read_wordpiece(open_folder(folder))
    found = vocabulary.tokenizer.encode(text)
    assert len(found) > 1
    assert all(token >= len(MARKERS) or token == UNKNOWN for token in found)
    assert text not in vocabulary.tokenizer.pieces(found)


def test_a_tokenizer_is_the_same_when_it_is_read_again(folder: Path) -> None:
    tokenizer = read_wordpiece(open_folder(folder)).tokenizer
    again = Tokenizer.from_json(tokenizer.to_json(), "tokenizer.json")
    assert again.to_json() == tokenizer.to_json() == read_wordpiece(open_folder(folder)).tokenizer.to_json()
    assert again.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert (again.mask, again.tags) == (len(SPECIALS), {})


# --- ids --------------------------------------------------------------------------------------------------------------


def test_berts_ids_are_put_in_our_order(write: Write) -> None:
    made = write("[PAD]", "[unused0]", "a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##b")
    assert pieces_of(made.tokenizer) == [*SPECIALS, MASK, "[unused0]", "a", "##b"]
    assert made.rows == (0, 4, 5, 3, 6, 1, 2, 7)


def test_markers_may_have_other_names(write: Write, tmp_path: Path) -> None:
    names = {"pad_token": "<pad>", "cls_token": {"content": "<cls>", "lstrip": False}, "unk_token": "unk"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    made = write("[PAD]", "<pad>", "<cls>", "[CLS]", "[SEP]", "[MASK]", "unk")
    assert pieces_of(made.tokenizer) == [*SPECIALS, MASK, "[PAD]", "[CLS]"]
    assert made.rows == (1, 2, 4, 6, 5, 0, 3)
    assert made.tokenizer.encode("unk other") == [UNKNOWN, UNKNOWN]


def test_rows_without_a_piece_of_their_own_are_named_by_their_numbers(write: Write) -> None:
    made = write(*MARKERS, "a", "", "<s>", "b", "a", size=12)
    assert pieces_of(made.tokenizer)[5:] == ["[row-5]", "[row-6]", "[row-7]", "b", "a", "[row-10]", "[row-11]"]
    assert made.rows == tuple(range(12))
    assert in_their_ids(made, "a b <s>") == [9, 8, UNKNOWN, UNKNOWN, UNKNOWN]


def test_a_piece_that_is_named_as_a_row_is_named_by_its_own(write: Write) -> None:
    assert pieces_of(write(*MARKERS, "", "[row-5]").tokenizer)[5:] == ["[row-5]", "[row-6]"]


def test_lines_end_where_lines_end_alone(write: Write) -> None:
    """White space that other programs take for the end of a line stands in the lists of Chinese models."""
    for end in ("\n", "\r\n"):
        made = write(*MARKERS, "a\u2028b", "\x85", "c", end=end)
        assert pieces_of(made.tokenizer)[5:] == ["a\u2028b", "[row-6]", "c"]


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_wordpiece(open_folder(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_without_a_vocabulary_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    assert refusal(folder) == f"{folder} has no vocab.txt, which a bert model needs: copy it there."


@pytest.mark.parametrize("marker", MARKERS)
def test_a_vocabulary_without_berts_markers_is_refused(folder: Path, marker: str) -> None:
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text().replace(f"{marker}\n", "other\n", 1))
    assert refusal(folder) == f"{folder}/vocab.txt lacks the piece `{marker}`: it is not a BERT vocabulary."


@pytest.mark.parametrize("more", [-1, 512], ids=["more pieces than rows", "a list that was cut off"])
def test_a_vocabulary_with_another_number_of_pieces_than_rows_is_refused(
    folder: Path, change: Change, more: int
) -> None:
    count = len((folder / "vocab.txt").read_text().split("\n")) - 1
    change(vocab_size=count + more)
    assert refusal(folder) == (
        f"{folder}/vocab.txt has {count:,} pieces, but `vocab_size` of {folder}/config.json is {count + more:,}: "
        "copy both again."
    )


def test_rows_that_fill_a_matrix_up_need_no_pieces(folder: Path, change: Change) -> None:
    count = len((folder / "vocab.txt").read_text().split("\n")) - 1
    change(vocab_size=count + 511)
    assert read_wordpiece(open_folder(folder)).tokenizer.size == count + 511


def test_a_list_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    assert refusal(folder) == f"{folder}/vocab.txt is not UTF-8 (invalid start byte at byte 6): copy it again."


def test_an_enormous_piece_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("[PAD]\n" + "x" * 200_000 + "\n")
    assert refusal(folder) == (
        f"{folder}/vocab.txt has a piece of 200,000 characters, but the longest may have 20,000: copy it again."
    )


@pytest.mark.parametrize("content", [b"{}", b"\xff", b"[", b'{"model": {"type": "Other"}}'])
def test_a_damaged_tokenizer_is_refused(folder: Path, content: bytes) -> None:
    (folder / "tokenizer.json").write_bytes(content)
    assert refusal(folder).startswith(f"{folder}/tokenizer.json is not a tokenizer (")
    assert refusal(folder).endswith("): copy it again.")


@pytest.mark.parametrize(
    ("part", "value", "line"),
    [
        ("normalizer", None, "`normalizer` is missing, but must be BertNormalizer, as in BERT."),
        ("normalizer", {"type": "NFKC"}, "`normalizer` is NFKC, but must be BertNormalizer, as in BERT."),
        (
            "pre_tokenizer",
            {"type": "Whitespace"},
            "`pre_tokenizer` is Whitespace, but must be BertPreTokenizer, as in BERT.",
        ),
        (
            "model",
            {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
            "`model` is WordLevel, but must be WordPiece, as in BERT.",
        ),
        (
            "model",
            {"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]", "continuing_subword_prefix": "@@"}
            | {"max_input_chars_per_word": 100},
            '`continuing_subword_prefix` is "@@", but must be "##", as in BERT.',
        ),
    ],
)
def test_other_ways_to_cut_text_are_refused(folder: Path, change: Change, part: str, value: Any, line: str) -> None:
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    change("tokenizer.json", **{part: value})
    assert refusal(folder) == f"{folder}/tokenizer.json: {line}"


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "tokenizer_class",
            "BertJapaneseTokenizer",
            '`tokenizer_class` is "BertJapaneseTokenizer", but must be one of BertTokenizer, BertTokenizerFast, '
            "DistilBertTokenizer, DistilBertTokenizerFast, PreTrainedTokenizerFast, TokenizersBackend.",
        ),
        (
            "do_basic_tokenize",
            False,
            "`do_basic_tokenize` is false, but must be true: Heedful always splits text into words first.",
        ),
        (
            "never_split",
            ["a-b"],
            '`never_split` is ["a-b"], but must be []: Heedful splits every word at punctuation.',
        ),
        ("do_lower_case", "yes", '`do_lower_case` is "yes", but must be true or false.'),
        ("strip_accents", 1, "`strip_accents` is 1, but must be true or false."),
        ("tokenize_chinese_chars", "no", '`tokenize_chinese_chars` is "no", but must be true or false.'),
    ],
)
def test_other_tokenizers_are_refused(folder: Path, change: Change, key: str, value: Any, line: str) -> None:
    change("tokenizer_config.json", **{key: value})
    assert refusal(folder) == f"{folder}/tokenizer_config.json: {line}"


def test_pieces_that_were_added_are_refused(folder: Path, change: Change) -> None:
    def line(file: str) -> str:
        return (
            f"{folder}/{file} adds `covid` to the vocabulary, but Heedful supports only BERT's own pieces and its "
            "markers."
        )

    change("added_tokens.json", covid=900)
    assert refusal(folder) == line("added_tokens.json")
    (folder / "added_tokens.json").unlink()
    markers = {"0": {"content": "[PAD]", "special": True}}
    change("tokenizer_config.json", added_tokens_decoder=markers)
    read_wordpiece(open_folder(folder))
    change("tokenizer_config.json", added_tokens_decoder=markers | {"900": {"content": "covid", "special": False}})
    assert refusal(folder) == line("tokenizer_config.json")
    change("tokenizer_config.json", added_tokens_decoder=None)
    tokenizer = BertTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["covid"])
    tokenizer.save_pretrained(folder)
    assert refusal(folder) == line("tokenizer.json")
