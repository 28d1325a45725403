"""Corpora: which ones a model can learn from, and mistakes in their tables."""

import pytest
from tests.shared.refusals import like
from tests.unit.config.rules.family_recipes import FAMILIES, LABELLED, PAIR, RUNNING, TWO_TEXTS, complaint, load

from heedful.config.corpora.containers import SPLITS, Jsonl, PlainText, Tsv


def test_the_keys_of_a_corpus_say_of_which_form_it_is() -> None:
    several = '[{ tsv = "a", text = 3 }, { jsonl = "b", text = "t", part = "1-9/10" }, { text = "c", sample = 5 }]'
    assert load("bert", several).data.train == (
        Tsv(tsv="a", text=3),
        Jsonl(jsonl="b", text="t", part="1-9/10"),
        PlainText(text="c", sample=5),
    )


NEEDED = {
    "transformer": "a translator learns from pairs: give `source` and `target`",
    "classifier": "a classifier learns from texts with labels: give `text` and `label`",
    "bert": "a masked language model learns from texts: give `text`",
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("family", "corpus"),
    [
        ("transformer", LABELLED),
        ("transformer", RUNNING),
        ("classifier", PAIR),
        ("classifier", RUNNING),
        ("classifier", '{ tsv = "a.tsv", text = 2 }'),  # no label
        ("classifier", '{ builtin = "english-spanish" }'),
        ("bert", PAIR),
    ],
)
def test_a_corpus_that_the_model_cannot_learn_from_is_refused(family: str, corpus: str, split: str) -> None:
    train, data = (corpus, "") if split == "train" else (FAMILIES[family], f"{split} = [{FAMILIES[family]}, {corpus}]")
    assert complaint(family, train, data=data) == f"`data.{split}` does not fit `model.family`: {NEEDED[family]}."


def test_trees_without_the_task_of_parsers_are_refused_with_the_task() -> None:
    assert complaint("transformer", '{ trees = "a.trees" }') == (
        f'`data.train` does not fit `model.family`: {NEEDED["transformer"]}, or `task = "parse"` above all tables.'
    )


def test_a_masked_model_learns_from_texts_of_every_form_whether_they_have_labels_or_not() -> None:
    for corpus in (RUNNING, LABELLED, TWO_TEXTS, '{ jsonl = "a", text = "t" }'):
        assert load("bert", corpus).rules.name == "fill"


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ('{ txt = "a.txt" }', "`data.train.txt` is not a key. Did you mean `text`?"),
        (
            '{ tsv = "a", text = 0 }',
            "`data.train.text` is 0, but must be a whole number of at least 1 or the name of a column.",
        ),
        (
            '{ csv = "a", text = "" }',
            '`data.train.text` is "", but must be a whole number of at least 1 or the name of a column.',
        ),
        ('{ jsonl = "a", text = 1 }', "`data.train.text` is 1, but must be a text in quotes."),
        (
            '{ jsonl = "a", text = "t", lable = "l" }',
            "`data.train.lable` is not a key. Did you mean `label`?",
        ),
        ('{ text = "a", part = "10" }', '`data.train.part` is "10", but must be a part such as "0/10" or "1-9/10".'),
        ('{ text = "a", sample = 0 }', "`data.train.sample` is 0, but must be a whole number of at least 1."),
        (
            '{ text = "a", documents = "page" }',
            '`data.train.documents` is "page", but must be "blank_line", "line", "heading" or "file".',
        ),
        ('{ text = "a", sentences = "all" }', '`data.train.sentences` is "all", but must be "split" or "line".'),
    ],
)
def test_a_mistake_in_a_corpus_of_texts_is_one_line(corpus: str, line: str) -> None:
    assert complaint("bert", corpus) == line


def test_a_text_beside_a_generator_is_one_complaint() -> None:
    line = complaint("transformer", '{ builtin = "english-spanish", text = "a" }')
    assert line.startswith("`data.train.text` is not a key")


@pytest.mark.parametrize("weight", ["1e300", "0"])
def test_a_weight_that_no_epoch_can_show(weight: str) -> None:
    assert complaint("bert", RUNNING.replace("}", f", weight = {weight} }}")) == (
        f"`data.train.weight` is {float(weight) if 'e' in weight else weight}, but must be a number above 0 and of at "
        "most 1000000."
    )


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        (
            '{ tsv = "a", label = 1, text = 2, jsonl = "b" }',
            "`data.train.jsonl` is not a key: a corpus has one form, and `tsv` is set too. Leave one of them out.",
        ),
        (
            '{ tsv = "a", label = 1 }',
            "`data.train.text` is missing: it must be a whole number of at least 1 or the name of a column.",
        ),
        ('{ jsonl = "a", label = "l" }', "`data.train.text` is missing: it must be a text in quotes."),
        ('{ tsv = "a", label = 1, txt = 2 }', "`data.train.txt` is not a key. Did you mean `text`?"),
        ('{ cvs = "a", label = 1, text = 2 }', "`data.train.cvs` is not a key. Did you mean `csv`?"),
        (
            "{ text = 2, label = 1 }",
            'in `data.train`, there is no file: give it as `csv = "..."`, `tsv = "..."` or `jsonl = "..."`.',
        ),
        (
            '{ text = "a.csv", label = 1 }',
            'in `data.train`, `text` is "a.csv", which is not read as a file: give the file as `csv = "a.csv"`.',
        ),
        (
            '{ path = "a.tsv.gz" }',
            'in `data.train`, `path` is "a.tsv.gz", which ...: give the file as `tsv = "a.tsv.gz"`.',
        ),
        ('{ file = "a.xlf" }', 'in `data.train`, `file` is "a.xlf", which ...: give the file as `xliff = "a.xlf"`.'),
        ('{ csv = "a.csv", label = 1, part = "0/10" }', "`data.train.text` is missing: it must be a whole number ..."),
    ],
)
def test_a_corpus_of_texts_lacks_something_or_is_two(corpus: str, line: str) -> None:
    assert complaint("classifier", corpus) == like(line)


@pytest.mark.parametrize("lines", ["4-2", "0-2"])
@pytest.mark.parametrize(("family", "corpus"), [("transformer", PAIR), ("classifier", LABELLED), ("bert", RUNNING)])
def test_a_range_of_lines_that_is_none(family: str, corpus: str, lines: str) -> None:
    assert complaint(family, corpus.replace("}", f', lines = "{lines}" }}')) == (
        f'in `data.train`, `lines` is "{lines}", but must be a first and a last line in ascending order, counted '
        "from 1."
    )


@pytest.mark.parametrize("part", ["7-3/10", "10/10", "3-10/10", "0/0"])
def test_a_part_that_is_none(part: str) -> None:
    assert complaint("classifier", LABELLED.replace("}", f', part = "{part}" }}')) == (
        f'in `data.train`, `part` is "{part}", but must be one or more of the parts 0 to n-1 of n, such as "0/10" or '
        '"1-9/10".'
    )


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ('{ tsv = "a", label = 2, text = 2 }', "`text` and `label` are both 2, but must be different."),
        (
            '{ jsonl = "a", label = "l", text = "t", second = "t" }',
            "`text` and `second` are both 't', but must be different.",
        ),
    ],
)
def test_text_and_label_are_two_columns(corpus: str, line: str) -> None:
    assert complaint("classifier", corpus).endswith(line)
