"""Columns of CoNLL-U by their names, and what is said about files of other columns."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.notes import listening
from heedful.config.corpora.containers import Conll
from heedful.data.corpora.formats.settling import settle
from heedful.data.corpora.tagged import read_tagged

ROWS = [
    "1-2 Vámonos _ _ _ _ _ _ _ _",
    "1 Vamos ir VERB vb _ 0 root _ _",
    "2 nos nosotros PRON pr _ 1 obj _ _",
    "2.1 va ir VERB vb _ _ _ 0:root _",
    "3 ! _ PUNCT _ _ 1 punct _ _",
]
TEXT = "# sent_id = 1\n# text = Vámonos\t!\n" + "\n".join(row.replace(" ", "\t") for row in ROWS) + "\n\n"
PLUS = "# global.columns = ID FORM UPOS PARSEME:MWE\n# sent_id = 1\n1\tgo\tVERB\t*\n2\tup\tADP\t1\n"
ENTITIES = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"


def read(folder: Path, text: str, **keys: Any) -> tuple[list[tuple[tuple[str, ...], tuple[str, ...]]], list[str]]:
    (folder / "t.conllu").write_text(text)
    notes: list[str] = []
    with listening(notes.append):
        found = [(one.words, one.labels) for one in read_tagged(Conll(conll="t.conllu", **keys), str(folder))]
    return found, [note.removeprefix(f"{folder}/") for note in notes]


def test_words_of_conllu_are_forms_and_labels_are_parts_of_speech(tmp_path: Path) -> None:
    words = ("Vamos", "nos", "!")
    found, notes = read(tmp_path, TEXT * 2)
    assert found == [(words, ("VERB", "PRON", "PUNCT"))] * 2
    assert notes == ["t.conllu: words are in the column `form`, labels are in the column `upos`"]
    found, notes = read(tmp_path, TEXT, label="deprel")
    assert (found, notes) == ([(words, ("root", "obj", "punct"))], ["t.conllu: words are in the column `form`"])
    assert read(tmp_path, TEXT, word="LEMMA", label="xpos") == ([(("ir", "nosotros", "_"), ("vb", "pr", "_"))], [])


def test_columns_by_number_are_read_as_they_were(tmp_path: Path) -> None:
    found, notes = read(tmp_path, TEXT.replace("\t!\n", "!\n", 1), word=2, label=4)
    assert found == [(("Vamos", "nos", "va", "!"), ("VERB", "PRON", "VERB", "PUNCT"))]
    assert notes == []


def test_conllu_plus_says_the_names_of_its_columns(tmp_path: Path) -> None:
    assert read(tmp_path, PLUS)[0] == [(("go", "up"), ("VERB", "ADP"))]
    assert read(tmp_path, PLUS, label="parseme:mwe")[0] == [(("go", "up"), ("*", "1"))]


def test_other_columns_keep_their_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, "a DT\ndog NN\n") == ([(("a", "dog"), ("DT", "NN"))], [])
    found, notes = read(tmp_path, ENTITIES)
    assert found == [(("EU", "rejects"), ("NNP", "VBZ"))]
    assert notes == ["t.conllu: labels are in column 2; those of entities are in column 4 (`label = 4`)"]
    assert read(tmp_path, ENTITIES, label=4) == ([(("EU", "rejects"), ("B-ORG", "O"))], [])
    assert settle(Conll(conll="t.conllu"), str(tmp_path)) == Conll(conll="t.conllu")


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        (
            PLUS.replace("UPOS", "NER"),
            {},
            "...t.conllu has the columns `id`, `form`, `ner`, `parseme:mwe`: name that of the labels, as in "
            '`label = "parseme:mwe"`.',
        ),
        (TEXT, {"label": "depprel"}, "...t.conllu has no column `depprel`. Did you mean `deprel`?"),
        (
            "a DT\n",
            {"label": "upos"},
            "...t.conllu: `label` is the name `upos`, but only CoNLL-U has names of columns: give its number.",
        ),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, text: str, keys: dict[str, Any], message: str) -> None:
    with refuses(message):
        read(tmp_path, text, **keys)
