"""Vocabularies by name: what is shared, what differs, and their files."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.tokenizer import Words
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies


def tokenizer(text: str) -> Tokenizer:
    return train_tokenizer(Words(kind="word"), [text])


ANT, UNO = tokenizer("ant bee"), tokenizer("uno dos tres")


def test_a_vocabulary_is_found_by_its_name() -> None:
    both = Vocabularies({"source": ANT, "target": UNO})
    assert (both["source"], both["target"]) == (ANT, UNO)
    assert both.sizes == {"source": 6, "target": 7}


def test_one_tokenizer_under_all_names_is_joint() -> None:
    assert Vocabularies({"source": ANT, "target": ANT}).joint
    assert Vocabularies({"text": ANT}).joint
    assert not Vocabularies({"source": ANT, "target": UNO}).joint
    assert not Vocabularies({"source": ANT, "target": tokenizer("ant bee")}).joint  # equal, but two
    assert not Vocabularies().joint


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [
        ({"source": ANT, "target": UNO}, {"source": tokenizer("ant bee"), "target": UNO}, None),
        ({"source": ANT, "target": UNO}, {"source": UNO, "target": ANT}, "source"),
        ({"source": ANT, "target": UNO}, {"source": ANT, "target": ANT}, "target"),
        ({"text": ANT}, {"source": ANT}, "text"),
        ({}, {"text": ANT}, "text"),
        ({}, {}, None),
    ],
)
def test_the_first_name_with_another_vocabulary_is_told(
    ours: dict[str, Tokenizer], theirs: dict[str, Tokenizer], name: str | None
) -> None:
    assert Vocabularies(ours).first_difference(Vocabularies(theirs)) == name


@pytest.mark.parametrize(
    ("tokenizers", "files"),
    [
        ({"source": ANT, "target": ANT}, ["tokenizer.json"]),
        ({"source": ANT, "target": UNO}, ["tokenizer.source.json", "tokenizer.target.json"]),
        ({"text": ANT}, ["tokenizer.json"]),
        ({}, []),
    ],
)
def test_vocabularies_come_back_from_their_files(
    tokenizers: dict[str, Tokenizer], files: list[str], tmp_path: Path
) -> None:
    written = Vocabularies(tokenizers, ("no", "yes"))
    assert list(written.files()) == files
    for name, one in written.files().items():
        (tmp_path / name).write_bytes(one.to_json())
    read = Vocabularies.read(tmp_path, list(tokenizers), written.joint, ("no", "yes"))
    assert read.first_difference(written) is None
    assert (list(read.tokenizers), read.joint, read.labels) == (list(tokenizers), written.joint, ("no", "yes"))


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.source.json").write_bytes(ANT.to_json())
    with refuses("...tokenizer.target.json..."):
        Vocabularies.read(tmp_path, ["source", "target"], joint=False)
