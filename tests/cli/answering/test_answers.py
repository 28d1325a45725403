"""Rows in, rows out: the way of inputs through a model, and how answers are written next to what they belong to."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.cli.answering.asked import Run, refuse_failed
from heedful.cli.answering.formats import row_writer
from heedful.cli.answering.given_rows import Format, open_rows
from heedful.config.corpora.containers import AnyCorpus, Conll, Csv, Jsonl, Trees, Tsv
from heedful.tasks.shared.answering.answers import Answers, Given, cell
from heedful.tasks.shared.answering.streaming import answer_stream


def stub(refused: Sequence[str] = (), columns: tuple[str, ...] = ("label", "share")) -> Answers[str]:
    """Answers with the text in capitals; some texts are refused, as by a model that counts the lines of its stream."""

    def answer(part: Sequence[str], first: int) -> list[str]:
        for number, text in enumerate(part, start=first):
            if text in refused:
                raise UserError(f"rows, line {number:,} is refused.")
        return [text.upper() for text in part]

    def stream(texts: Iterable[str], name: str = "") -> Iterator[str]:
        return answer_stream(texts, answer, chunk=3)

    return Answers(
        ("text",),
        lambda values, where: values["text"] if isinstance(values["text"], str) else " ".join(values["text"]),
        stream,
        lambda found: {"label": found, "share": 0.5, "labels": found.split()},
        columns,
        lambda found, given: found,
        takes=("name",),
    )


def written(corpus: AnyCorpus, answers: Answers[str] | None = None, form: Format | None = None) -> list[str]:
    """The rows of a corpus with the answers of a stub, each as it is written, after the header where there is one."""
    answers = answers or stub()
    rows = open_rows(corpus, ("text",), words=True)
    writer = row_writer(rows, answers, form)
    outcomes = Run(answers, rows.rows(), "rows", tolerant=True).outcomes(name="rows")
    header = writer.header()
    lines = [*([] if header is None else [header]), *map(writer.row, outcomes)]
    return [line for line in lines if line is not None]


# --- rows in equal rows out -------------------------------------------------------------------------------------------

SEPARATORS: st.SearchStrategy[Literal[",", ";"]] = st.sampled_from([",", ";"])
CELLS = st.text(st.sampled_from('ab ,;"\n\t#é'), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(CELLS, min_size=3, max_size=3) | st.just([]), max_size=8), separator=st.sampled_from(",;")
)
def test_a_table_comes_back_with_its_rows_in_order_and_the_answers_after_them(
    tmp_path: Path, rows: list[list[str]], separator: Literal[",", ";"]
) -> None:
    path = tmp_path / "it.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([["id", "text", "label"], *rows])
    lines = written(Csv(csv=str(path), text="text", separator=separator))
    found = list(csv.reader(io.StringIO("".join(f"{line}\n" for line in lines), newline=""), delimiter=separator))
    assert found[0] == ["id", "text", "label", "predicted_label", "share"]
    assert [row[:3] for row in found[1:]] == rows
    for row in found[1:]:
        assert row[3:] == ([] if not row else [row[1].upper(), "0.5"] if row[1].strip() else ["", ""])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(CELLS, min_size=1, max_size=9), form=st.sampled_from(["csv", "tsv", "jsonl"]))
def test_json_lines_have_one_row_each_in_every_format(tmp_path: Path, texts: list[str], form: Format) -> None:
    path = tmp_path / "it.jsonl"
    path.write_text("".join(f"{json.dumps({'n': n, 'text': text})}\n" for n, text in enumerate(texts)))
    lines = written(Jsonl(jsonl=str(path), text="text"), form=form)
    answers = [text.upper() if text.strip() else None for text in texts]
    expected = list(zip(range(len(texts)), texts, answers, strict=True))
    if form == "jsonl":
        assert [(row["n"], row["text"], row["label"]) for row in map(json.loads, lines)] == expected
    elif form == "csv":
        _, *rows = csv.reader(io.StringIO("".join(f"{line}\n" for line in lines), newline=""))
        assert [(int(row[0]), row[1], row[2] or None) for row in rows] == expected
    else:  # cells have no line breaks and no tabs there
        assert [line.split("\t")[0] for line in lines[1:]] == [str(number) for number in range(len(texts))]
        assert {len(line.split("\t")) for line in lines} == {4}


def test_a_table_without_names_stays_without_them_and_short_rows_are_filled(tmp_path: Path) -> None:
    (tmp_path / "it.tsv").write_text("x\ta\tmore\ny\tb\n\nz\n")
    assert written(Tsv(tsv=str(tmp_path / "it.tsv"), text=2, header=False)) == [
        "x\ta\tmore\tA\t0.5",
        "y\tb\t\tB\t0.5",
        "",
        "z\t\t\t\t",
    ]


def test_the_mark_of_a_spreadsheet_program_is_kept(tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text("\ufefftext\né\n")
    assert written(Csv(csv=str(tmp_path / "it.csv"), text="text")) == ["\ufefftext,label,share", "é,É,0.5"]


def test_fields_that_only_later_rows_have_are_kept_and_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "it.jsonl").write_text('{"text": "a"}\n\n{"text": "b", "label": ["x"], "share": null}\n')
    corpus = Jsonl(jsonl=str(tmp_path / "it.jsonl"), text="text")
    first, blank, last = written(corpus, stub(columns=("label",)))
    assert (json.loads(first)["predicted_label"], blank) == ("A", "")
    assert json.loads(last) == {
        **{"text": "b", "label": ["x"], "share": None, "predicted_label": "B", "predicted_share": 0.5},
        "labels": ["B"],
    }
    assert written(corpus, form="csv") == [
        "text,label,share,predicted_label,predicted_share",
        "a,,,A,0.5",
        "",
        'b,"[""x""]",,B,0.5',
    ]


def test_conll_keeps_every_line_and_gets_a_last_column(tmp_path: Path) -> None:
    lines = ["# sent_id = 1", "a X", "b Y", "", "", "-DOCSTART- X", "c\tZ", ""]
    (tmp_path / "it.conll").write_text("\n".join(lines))
    corpus = Conll(conll=str(tmp_path / "it.conll"), word=1, label=2)
    tagged = stub(columns=("labels",))
    assert "\n".join(written(corpus, tagged)).split("\n") == [
        *("# sent_id = 1", "a X A", "b Y B", "", "", "-DOCSTART- X", "c\tZ\tC"),
    ]
    assert written(corpus, tagged, "csv") == ["text,labels", "a b,A B", "c,C"]
    assert [json.loads(line)["text"] for line in written(corpus, tagged, "jsonl")] == ["a b", "c"]
    (tmp_path / "words.conll").write_text("a\nb\n")
    assert written(Conll(conll=str(tmp_path / "words.conll"), word=1, label=2), tagged) == ["a A\nb B"]
    (tmp_path / "it.tsv").write_text("text\na b\n")
    assert written(Tsv(tsv=str(tmp_path / "it.tsv"), text="text"), tagged, "conll") == ["a\tA\nb\tB\n"]
    with refuses("--format conll is for labels of words, which this model does not write: choose another."):
        written(corpus, form="conll")


def test_trees_are_a_column(tmp_path: Path) -> None:
    (tmp_path / "it.trees").write_text("(S (X a) (Y b))\n(S (X c))\n")
    assert written(Trees(trees=str(tmp_path / "it.trees"))) == [
        "tree\tlabel\tshare",
        "(S (X a) (Y b))\tA B\t0.5",
        "(S (X c))\tC\t0.5",
    ]


def test_a_container_without_what_the_model_reads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "it.trees").write_text("(S (X a))\n")
    with refuses("...it.trees has trees, but the model reads `question` and `text`."):
        open_rows(Trees(trees=str(tmp_path / "it.trees")), ("question", "text"), words=False)


# --- rows without an answer -------------------------------------------------------------------------------------------


def outcomes(texts: Sequence[Any], refused: Sequence[str], tolerant: bool = True) -> list[tuple[str | None, str]]:
    inputs = [Given({"text": text}, f"f.csv, line {2 * n}", skip=text == "") for n, text in enumerate(texts, start=1)]
    run = Run(stub(refused), inputs, "rows", tolerant=tolerant)
    return [(one.found, str(one.error or "")) for one in run.outcomes(name="rows")]


def test_a_refused_row_has_an_error_with_its_own_line_and_the_others_are_answered() -> None:
    texts = ["a", "", "x", "b", "c", "d", "x", "", "e", "x", ""]
    found = outcomes(texts, ["x"])
    assert [answer for answer, _ in found] == ["A", None, None, "B", "C", "D", None, None, "E", None, None]
    errors = [error for _, error in found if error]
    assert errors == [f"f.csv, line {2 * number} is refused." for number in (3, 7, 10)]


def test_without_tolerance_the_first_refused_row_ends_the_run_after_those_before_it() -> None:
    answered = []
    run = Run(stub(["x"]), [Given({"text": text}) for text in "abxc"], "rows", tolerant=False)
    with refuses("rows, line 3 is refused."):
        for one in run.outcomes(name="rows"):
            answered.append(one.found)
    assert answered == ["A", "B"]


def test_inputs_that_cannot_be_read_further_end_the_run_whatever_it_tolerates() -> None:
    def inputs() -> Iterator[Given]:
        yield Given({"text": "a"})
        raise UserError("f.csv, line 9 is not text.")

    run, found = Run(stub(), inputs(), "rows", tolerant=True), []
    with refuses("f.csv, line 9 is not text."):
        found += [one.found for one in run.outcomes(name="rows")]
    assert not found  # those before it are yielded first
    run = Run(stub(), inputs(), "rows", tolerant=True)
    assert next(run.outcomes(name="rows")).found == "A"


def test_rows_that_are_longer_than_the_first_line_or_too_short_are_told(tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text('id,text\n1,a\n2,b,c\n"3"\n4,d\n')
    rows = open_rows(Csv(csv=str(tmp_path / "it.csv"), text="text"), ("text",), words=False)
    errors = [str(one.error) if one.error else one.skip for one in rows.rows()]
    name = tmp_path / "it.csv"
    assert errors == [
        False,
        f"{name}, line 3 has 3 columns, but the first line has 2: put quotes around a text with the separator in it.",
        True,  # without a text
        False,
    ]
    both = Csv(csv=str(name), text="text", second="id")
    (tmp_path / "it.csv").write_text('text,id\na,1\n"b"\n')
    (_, short) = open_rows(both, ("text", "second"), words=False).rows()
    assert str(short.error) == f"{name}, line 3 has 1 column, but `second` is column 2."


def test_at_most_ten_errors_are_listed() -> None:
    refuse_failed([])
    with pytest.raises(UserError) as caught:
        refuse_failed([f"line {n}" for n in range(12)])
    assert str(caught.value).splitlines()[9:] == ["line 9", "... and 2 more inputs without an answer."]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), ("a", "a"), (0.123456789, "0.123457"), (("a", 0.5), "a 0.5"), (True, "True")]
)
def test_values_as_cells(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_an_error_names_the_line_of_the_file_and_not_that_of_the_part() -> None:
    inputs = [Given({"text": text}, f"rows, line {n:,}") for n, text in enumerate("abxc", start=1001)]
    run = Run(stub(["x"]), inputs, "rows", tolerant=False, before=1000)
    with refuses("rows, line 1,003 is refused."):
        list(run.outcomes(name="rows"))
    assert [each.number for each in inputs[:3]] == [1001, 1002, 1003]
