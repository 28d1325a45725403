"""Words with labels, from columns, tables and JSON lines; what is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Conll, Csv, Jsonl, Tsv
from heedful.data.corpora.tagged import TaggedText, read_tagged, tag_numbers, tagged_text
from heedful.data.text_form import TextForm

DOG = TaggedText(("A", "dog", "barks"), ("DT", "NN", "VBZ"))
HASH = TaggedText(("#", "1"), ("SYM", "CD"))


def conll(folder: Path, content: str, **keys: Any) -> Conll:
    (folder / "t.conll").write_text(content)
    return Conll(conll=str(folder / "t.conll"), **keys)


def refused(corpus: AnyCorpus) -> str:
    with pytest.raises(UserError) as error:
        list(read_tagged(corpus))
    (line,) = str(error.value).splitlines()
    return line


@pytest.mark.parametrize("between", ["\t", " ", "   "])
def test_columns_are_separated_by_tabs_or_spaces_and_sentences_by_blank_lines(tmp_path: Path, between: str) -> None:
    rows = [["A", "x", "DT"], ["dog", "x", "NN"], ["barks", "x", "VBZ"], [], [], ["1", "x", "CD"]]
    corpus = conll(tmp_path, "\n".join(between.join(row) for row in rows), label=3)
    first, second = read_tagged(corpus)
    assert (first, second) == (DOG, TaggedText(("1",), ("CD",)))
    assert (first.lines, second.lines) == ((1, 2, 3), (6,))


def test_comments_before_a_sentence_and_starts_of_documents_are_not_words(tmp_path: Path) -> None:
    dog = "".join(f"{word}\t{label}\n" for word, label in zip(DOG.words, DOG.labels, strict=True))
    content = f"-DOCSTART- -X- O\n\n# sent_id = 1\n#text\n{dog}\n-DOCSTART- -X- O\n#\tSYM\n1\tCD\n"
    assert list(read_tagged(conll(tmp_path, content))) == [DOG, HASH]


def test_a_number_sign_inside_a_sentence_is_a_word(tmp_path: Path) -> None:
    assert list(read_tagged(conll(tmp_path, "1 CD\n# SYM\n"))) == [TaggedText(("1", "#"), ("CD", "SYM"))]
    assert list(read_tagged(conll(tmp_path, "#tag NN\n"))) == [TaggedText(("#tag",), ("NN",))]


def test_ranges_and_empty_words_of_conll_u_are_left_out(tmp_path: Path) -> None:
    content = "1-2\tdon't\t_\n1\tdo\tVB\n1.1\tx\t_\n2\tn't\tRB\n"
    assert list(read_tagged(conll(tmp_path, content, word=2, label=3))) == [TaggedText(("do", "n't"), ("VB", "RB"))]


def test_a_word_may_have_spaces_where_tabs_separate_columns(tmp_path: Path) -> None:
    assert list(read_tagged(conll(tmp_path, "New York\tNP\n"))) == [TaggedText(("New York",), ("NP",))]


def test_a_column_that_is_missing_is_refused_with_its_line(tmp_path: Path) -> None:
    content = "".join(f"w{number}\tX\n" if number % 10 else "\n" for number in range(1, 812)) + "alone\nw\tX\n"
    assert refused(conll(tmp_path, content)) == (
        f"{tmp_path}/t.conll, line 812 has 1 column, but `label` is column 2: columns are separated by tabs or spaces, "
        "and sentences by blank lines."
    )
    assert "line 1 has 2 columns, but `word` is column 3" in refused(conll(tmp_path, "a\tb\n", word=3))


@pytest.mark.parametrize(("line", "what"), [("\tNN", "word"), ("dog\t", "label")])
def test_an_empty_cell_is_refused(tmp_path: Path, line: str, what: str) -> None:
    assert refused(conll(tmp_path, f"a\tDT\n{line}\n")).endswith(f"line 2 has no {what}: every word needs a label.")


def test_tables_and_json_lines_have_a_sentence_per_row(tmp_path: Path) -> None:
    words, labels = " ".join(DOG.words), " ".join(DOG.labels)
    (tmp_path / "t.tsv").write_text(f"{words}\t{labels}\n\n# 1\tSYM CD\n")
    (tmp_path / "t.csv").write_text(f'words,tags\n"{words}",{labels}\n')
    rows = [{"w": list(DOG.words), "t": list(DOG.labels)}, {"w": words, "t": labels}]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    blank = TaggedText(())
    assert list(read_tagged(Tsv(tsv=str(tmp_path / "t.tsv"), text=1, label=2))) == [DOG, blank, HASH]
    assert list(read_tagged(Csv(csv=str(tmp_path / "t.csv"), text="words", label="tags"))) == [DOG]
    assert list(read_tagged(Jsonl(jsonl=str(tmp_path / "t.jsonl"), text="w", label="t"))) == [DOG, DOG]


def test_a_file_of_words_and_one_of_labels_go_together_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("A dog barks\n\n")
    (tmp_path / "labels").write_text("DT NN VBZ\n\n")
    corpus = AlignedFiles(source=str(tmp_path / "words"), target=str(tmp_path / "labels"))
    assert list(read_tagged(corpus)) == [DOG, TaggedText(())]


def test_a_row_with_another_number_of_labels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a dog\tDT NN\na dog barks\tDT NN\n")
    assert refused(Tsv(tsv=str(tmp_path / "t.tsv"), text=1, label=2)) == (
        f"{tmp_path}/t.tsv, line 2 has 3 words but 2 labels: each word needs one."
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (3, "field `w` is a number, but must be a list of texts, or a text."),
        (["a", 3], "field `w[1]` is a number, but must be text."),
        (["a", " "], "field `w[1]` is blank, but must be a word or its label."),
    ],
)
def test_a_field_that_does_not_hold_words_is_refused(tmp_path: Path, value: object, what: str) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"w": value, "t": "A B"}))
    assert refused(Jsonl(jsonl=str(tmp_path / "t.jsonl"), text="w", label="t")).endswith(f"line 1: {what}")


def test_parts_share_no_sentence_and_leave_none_out(tmp_path: Path) -> None:
    content = "\n".join(f"w{number}\tX\nv\tY\n" for number in range(30))
    parts = [[*read_tagged(conll(tmp_path, content, part=part))] for part in ("0/3", "1-2/3")]
    assert all(parts)
    assert sorted(text.words for part in parts for text in part) == sorted((f"w{n}", "v") for n in range(30))
    assert len([*read_tagged(conll(tmp_path, content, sample=7))]) == 7


def test_words_are_brought_into_the_form_of_the_model_and_overlong_sentences_are_blank(tmp_path: Path) -> None:
    corpus = conll(tmp_path, "A\tX\nDog\tY\n\nabcdef\tX\nghij\tY\n")
    first, second = read_tagged(corpus, form=TextForm(lowercase=True, max_line=10))
    assert first.words == ("a", "dog")
    assert (second.blank, second.too_long) == (True, True)


def test_a_label_that_the_model_does_not_have_is_refused_with_its_line(tmp_path: Path) -> None:
    texts = [*read_tagged(conll(tmp_path, "A DT\ndog NN\n\na DT\nbarks VBX\n"))]
    assert tag_numbers(texts[:1], ("DT", "NN"), "t.conll") == [[0, 1]]
    message = "t.conll, line 5 has the label `VBX`, which is not a label of the model. Did you mean `VBZ`?"
    with refuses(message):
        tag_numbers(texts, ("DT", "NN", "VBZ"), "t.conll")
    with refuses("data: word 2 has the label `Z`, which is not a label of the model. Known..."):
        tag_numbers([tagged_text(["a", "b"], ["X", "Z"], "data")], ("X", "Y"), "data")


def test_a_range_of_lines_is_one_of_the_file(tmp_path: Path) -> None:
    corpus = conll(tmp_path, "a X\nb X\n\nc X\nd X\n", lines="2-4")
    assert [(text.words, text.lines) for text in read_tagged(corpus)] == [(("b",), (2,)), (("c",), (4,))]


def test_columns_that_are_the_same_are_refused() -> None:
    with pytest.raises(ValidationError, match="`word` and `label` are both 2, but must be different"):
        Conll(conll="t", word=2)
