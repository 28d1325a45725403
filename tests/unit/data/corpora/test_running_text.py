"""Documents as texts with their line breaks."""

from collections import Counter
from pathlib import Path

import pytest

from heedful.config.corpora.containers import AnyCorpus, Csv, PlainText, Tsv
from heedful.data.corpora.documents import read_running_text
from heedful.data.text_form import TextForm

LINES = " = One = \nfirst line\n\n = = Part = = \n  second line\n = Two = \nthird\n"
PLAIN = TextForm()


def read(folder: Path, corpus: AnyCorpus, form: TextForm = PLAIN) -> list[str]:
    return list(read_running_text(corpus, str(folder), form))


@pytest.mark.parametrize(
    ("documents", "texts"),
    [
        ("file", [LINES]),
        ("heading", [LINES[: LINES.index(" = Two")], LINES[LINES.index(" = Two") :]]),
        ("blank_line", [" = One = \nfirst line", " = = Part = = \n  second line\n = Two = \nthird"]),
        ("line", [line for line in LINES.splitlines() if line]),
    ],
)
def test_a_text_is_split_into_documents_without_losing_a_space(
    tmp_path: Path, documents: str, texts: list[str]
) -> None:
    (tmp_path / "text").write_text(LINES)
    assert read(tmp_path, PlainText.model_validate({"text": "text", "documents": documents})) == texts


def test_texts_in_tables_are_documents_whatever_their_labels(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("one\tx\n\ty\ntwo\tz\n")
    assert read(tmp_path, Tsv(tsv="t.tsv", text=1, label=2)) == ["one", "two"]
    (tmp_path / "t.csv").write_text('"two\nlines",x\n')
    assert read(tmp_path, Csv(csv="t.csv", text=1, label=2)) == ["two\nlines"]


def test_texts_have_the_recipes_form_and_long_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("A Line\nA much longer Line\nEnd\n")
    dropped: Counter[str] = Counter()
    corpus = PlainText(text="text", documents="file")
    texts = list(read_running_text(corpus, str(tmp_path), TextForm(lowercase=True, max_line=10), dropped))
    assert texts == ["a line\nend\n"]
    assert dropped == {"line": 1}
