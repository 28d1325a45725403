"""Comparisons of parsers, taggers, classifiers and readers by their evaluations, item by item."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.reading import fresh_reader, reader_recipe, report_rows, write_rows
from tests.models.text import classifier_recipe, film_texts, fresh_classifier, write_tsv, written
from tests.shared.parsers import untrained, write_trees
from tests.shared.random_trees import random_tree, regrouped
from tests.shared.refusals import refuses
from tests.shared.taggers import fresh_tagger, tagged_sentences, tagger_recipe, write_conll

import heedful
from heedful.base.trees import read_tree
from heedful.cli.main import run
from heedful.cli.verbs.compare import text_of
from heedful.config.reading.load import recipe_from_json
from heedful.config.tasks import TASKS
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.lab.compare import compare_counts
from heedful.metrics.classification import ClassificationResult
from heedful.metrics.scores import item_scores_of, macro_f1_of_sums
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.tasks.parse.bracketing import score_trees
from heedful.tasks.parse.evaluation import ParseEvaluation
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.metrics import METRICS

Capture = pytest.CaptureFixture[str]


def parser(folder: Path) -> Bundle[Any]:
    write_trees(folder, 12)
    return untrained(folder, data={"test": {"trees": "test.trees", "name": "trees"}}, decode={"beam": 1})


def tagger(folder: Path) -> Bundle[Any]:
    write_conll(folder / "test.conll", tagged_sentences(15))
    return fresh_tagger(tagger_recipe(folder))


def classifier(folder: Path) -> Bundle[Any]:
    write_tsv(folder / "test.tsv", film_texts(30))
    return fresh_classifier(classifier_recipe(folder, data={"test": {"tsv": "test.tsv", "label": 1, "text": 2}}))


def reader(folder: Path) -> Bundle[Any]:
    write_rows(folder / "test.jsonl", report_rows(20))
    return fresh_reader(reader_recipe(folder))


def image_classifier(folder: Path) -> Bundle[Any]:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 8, 8), dtype=np.uint8)
    np.savez(folder / "test.npz", x=pixels, y=(pixels.mean((1, 2)) > 127).astype(np.int64))
    corpus = {"npz": "test.npz"}
    recipe = recipe_from_json(
        {
            "data": {"train": [corpus], "test": [corpus], "folder": str(folder)},
            "model": {
                "family": "image_classifier",
                "encoder": {"family": "vit", "width": 8, "heads": 2, "layers": 1, "inner": 8, "patch": 4, "grid": 2,
                            "channels": 1},
            },
        },
        "recipe",
    )  # fmt: skip
    vocabularies = Vocabularies({}, ("0", "1"))
    return Bundle(recipe, vocabularies, build_network(recipe.model, vocabularies))


MAKERS: dict[str, Callable[[Path], Bundle[Any]]] = {
    "parse": parser,
    "tag": tagger,
    "classify": classifier,
    "classify_images": image_classifier,
    "answer": reader,
}


@pytest.fixture(scope="module", params=MAKERS)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A task, and two models of it with random weights."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        made = []
        for seed, name in enumerate("ab"):
            bundle = MAKERS[request.param](folder)
            torch.manual_seed(seed)
            for parameter in bundle.model.parameters():
                parameter.data += 0.5 * torch.randn_like(parameter)
            made.append(written(bundle, folder / name))
    return request.param, made[0], made[1]


def test_the_scores_are_those_of_the_evaluations(models: tuple[str, Path, Path]) -> None:
    task, a, b = models
    metrics = TASKS[task].compared_by[::-1]
    found = heedful.compare(a, b, metrics=metrics, samples=100, device="cpu")
    (evaluation,) = heedful.evaluate(b, device="cpu").values()
    scores = {score.name: score.value for score in evaluation.scores()}
    assert [result.b.mean for result in found.metrics] == pytest.approx([100 * scores[name] for name in metrics])
    unit = {"classify": "text", "classify_images": "image", "answer": "question"}.get(task, "sentence")
    shown = text_of(found, "the test set")
    assert f"\n{found.sentences} {unit}s of the test set; 100 draws per test" in shown
    assert ("By length: words of the " in shown) == (task != "classify_images")
    assert f"over {found.sentences} {unit}s and one run per side" in shown
    examples = [*found.better_a, *found.better_b]
    assert {example.score.metric for example in examples} == {found.metrics[0].metric}
    assert f"{found.metrics[0].metric} of the {unit}\n{unit} {examples[0].line}: A " in shown


# --- against brute force ----------------------------------------------------------------------------------------------


def test_the_bootstrap_of_parsers_equals_scores_of_drawn_sentences() -> None:
    random = Random(5)
    true = [random_tree(random, 2 + number % 7, deepest=3) for number in range(12)]
    sides = [[regrouped(random, tree) if random.random() < share else tree for tree in true] for share in (0.9, 0.4)]
    sides[0][3] = None  # type: ignore[call-overload]
    samples, seed, names = 80, 7, ("f1", "exact_match", "precision", "recall")

    def scores(rows: Any, side: int) -> list[float]:
        found = score_trees([sides[side][row] for row in rows], [true[row] for row in rows])
        shares = found.brackets
        return [100 * share for share in (shares.f1, found.exact_match, shares.precision, shares.recall)]

    draws = np.random.default_rng(seed).choice(len(true), size=(samples, len(true)))
    drawn = np.sort([np.subtract(scores(rows, 1), scores(rows, 0)) for rows in draws], axis=0)
    whole = np.subtract(scores(range(len(true)), 1), scores(range(len(true)), 0))
    of_sides = [
        {score.name: score for score in ParseEvaluation(tuple(true), tuple(side), score_trees(side, true), 1.0, ())
         .item_scores().scores}
        for side in sides
    ]  # fmt: skip
    for place, name in enumerate(names):
        of_a, of_b = (of_side[name].counts()[None] for of_side in of_sides)
        found = compare_counts(of_sides[0][name], of_a, of_b, samples, seed)
        assert found.difference == pytest.approx(whole[place])
        assert (found.bootstrap.low, found.bootstrap.high) == pytest.approx((drawn[2, place], drawn[-3, place]))


def test_the_counts_of_labels_and_spans_add_up_sentence_by_sentence() -> None:
    chance = np.random.default_rng(3)
    for labels in (("B-X", "I-X", "O", "B-Y"), ("noun", "verb", "other", "mark")):
        said, true = ([chance.integers(0, 4, size).tolist() for size in (3, 1, 5, 4)] for _ in range(2))
        for picked in ([0], [1, 1, 3], [2, 0, 3, 1]):
            drawn = LabelScores.of(labels, [said[row] for row in picked], [true[row] for row in picked])
            f1, accuracy = item_scores_of(METRICS, LabelScores.of(labels, said, true))
            assert f1.of_sums(f1.counts()[picked].sum(0)) == pytest.approx(100 * drawn.f1)
            assert accuracy.of_sums(accuracy.counts()[picked].sum(0)) == pytest.approx(100 * drawn.words.accuracy)


def test_the_order_of_classes_does_not_change_macro_f1() -> None:
    chance = np.random.default_rng(4)
    said, true = (np.eye(3, dtype=np.bool_)[chance.integers(0, 3, 9)] for _ in range(2))
    one = ClassificationResult(("a", "b", "c"), true, said)
    other = ClassificationResult(("c", "a", "b"), true[:, [2, 0, 1]], said[:, [2, 0, 1]])
    assert (one.class_counts() == other.class_counts()).all()
    assert macro_f1_of_sums(one.class_counts().sum(0)) == pytest.approx(100 * one.macro_f1)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_what_does_not_belong_together_is_refused(models: tuple[str, Path, Path], tmp_path: Path) -> None:
    task, a, b = models
    rules = TASKS[task]
    other, corpora = tmp_path / "other", tmp_path / "corpora"
    corpora.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
        bundle = MAKERS[task](corpora)
    for file in corpora.glob("test.*"):
        _shorten(file)
    written(bundle, other)
    with refuses(f"{a} and {other} have different test sets (...): only scores on the same ..."):
        heedful.compare(a, other, device="cpu")
    if rules.labels:
        written(Bundle(bundle.recipe, Vocabularies(bundle.vocabularies.tokenizers, ("x", "y")), bundle.model), other)
        with refuses(f"{other} has other classes than {a}: only models with the same ones..."):
            heedful.compare(a, other, device="cpu")
    with refuses(f"`bleu` is not a metric that models are compared by if one {rules.does}. ..."):
        heedful.compare(a, b, metrics=["bleu"])
    with refuses(f"`references` is for translators, which {a} is not: leave it out..."):
        heedful.compare(a, b, references=["a"])
    if not rules.searches:
        with refuses(f"`beam` is for translators, which {a} is not: leave it out..."):
            heedful.compare(a, b, beam=2)


def _shorten(file: Path) -> None:
    if file.suffix == ".npz":
        arrays = np.load(file)
        np.savez(file, x=arrays["x"][1:], y=arrays["y"][1:])
    else:
        file.write_text(file.read_text().split("\n\n" if file.suffix == ".conll" else "\n", 1)[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bleu-tokenize", "13a"], "--bleu-tokenize is for translators, which {a} is not: leave it out."),
        (["--corpus", "tree"], "{a}: its recipe has no corpus `tree` in `data.test`. Did you mean `trees`?"),
        (["--source", "{file}"], "--target is missing: sentences need references."),
        (
            ["--source", "{file}", "--target", "{file}", "--target", "{file}"],
            "--target is given several times, but {a} is a model that parses: name one.",
        ),
    ],
)
def test_options_that_do_not_apply_are_refused(
    parsers: tuple[Path, Path], options: list[str], message: str, capsys: Capture
) -> None:
    a, b = parsers
    file = a.parent / "test.trees"
    assert run(["compare", str(a), str(b), *(option.format(file=file) for option in options)]) == 2
    assert capsys.readouterr().err.startswith(f"heedful: error: {message.format(a=a)}")


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("parsers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        bundle = parser(folder)
    return written(bundle, folder / "a"), written(bundle, folder / "b")


def test_a_file_is_not_compared_with_a_parser_and_a_parser_does_not_differ_from_its_copy(
    parsers: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    a, b = parsers
    file = a.parent / "test.trees"
    assert run(["compare", str(a), str(file)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"heedful: error: {file} has translations, but {a} is a model that parses: compare it with another model."
    ]
    sentences, trees = tmp_path / "some.txt", tmp_path / "some.trees"
    lines = ["(S (NP (DT w1) (NN w2)))", "(S (NP (NN w3)))"]
    trees.write_text("\n".join(lines) + "\n")
    sentences.write_text("".join(" ".join(read_tree(line, "").words) + "\n" for line in lines))
    files = ["--source", str(sentences), "--target", str(trees), "--samples", "100", "--device", "cpu"]
    assert run(["compare", str(a), str(b), *files]) == 0
    assert "No real difference: +0.00 F1 (95% interval +0.00 to +0.00), p = 1.000" in capsys.readouterr().out
