"""`heedful evaluate` of classifiers as a user sees it."""

import json
import math
from pathlib import Path
from statistics import mean, stdev

import pytest
import torch
from tests.cli.verbs.evaluate.evaluating import Capture, changed, evaluate, refused, shown
from tests.models.text import (
    classifier_recipe,
    film_texts,
    fresh_classifier,
    trained_classifier,
    write_tsv,
    written,
)
from tests.shared.refusals import like

from heedful.config.reading.load import recipe_to_json
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, read_bundle
from heedful.models.networks import Classifier
from heedful.tasks.classify.model import load_classifier


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def seeds(films: Path, tmp_path: Path) -> list[Path]:
    """Three classifiers whose scores differ, of seeds 1, 2 and 3."""
    folders = []
    for seed in (1, 2, 3):
        bundle = read_bundle(films, Classifier)
        torch.manual_seed(seed)
        for parameter in bundle.model.parameters():
            parameter.data += 1.5 * torch.randn_like(parameter) * parameter.std()
        folders.append(written(changed(bundle, ("train", "seed"), seed), tmp_path / f"seed-{seed}"))
    return folders


# --- classifiers ------------------------------------------------------------------------------------------------------


def test_the_recipes_test_corpora_are_scored(films: Path, capsys: Capture) -> None:
    found = shown(capsys, films)
    assert found["model"] == str(films)
    first, second = found["corpora"]
    assert [first["name"], first["texts"], second["name"], second["texts"]] == ["1", 40, "second", 20]
    rows = film_texts(40, seed=2)
    said = load_classifier(films, "cpu").classify([text for _, text in rows])
    right = sum(one.label == label for one, (label, _) in zip(said, rows, strict=True))
    assert first["accuracy"] == right / 40
    low, high = first["accuracy_interval"]
    assert low < first["accuracy"] <= high <= 1
    losses = [-math.log(one.probabilities[label]) for one, (label, _) in zip(said, rows, strict=True)]
    assert first["loss"] == pytest.approx(mean(losses), abs=1e-4)
    labels = ["neg", "pos"]
    assert first["confusion"] == [
        [sum(label == true and one.label == other for one, (label, _) in zip(said, rows, strict=True))
         for other in labels] for true in labels
    ]  # fmt: skip
    assert [one["label"] for one in first["classes"]] == labels
    assert [one["texts"] for one in first["classes"]] == [sum(row) for row in first["confusion"]]
    assert first["f1"] == pytest.approx(mean(one["f1"] for one in first["classes"]))
    assert "micro_f1" not in first
    assert first["texts_per_second"] > 0


def test_the_split_can_be_chosen(films: Path, capsys: Capture) -> None:
    assert [corpus["texts"] for corpus in shown(capsys, films, "--split", "valid")["corpora"]] == [20]


def test_the_scores_are_readable(seeds: list[Path], capsys: Capture) -> None:
    (first, second), corpora = (capture_blocks(capsys, seeds[0]), shown(capsys, seeds[0])["corpora"])
    assert first[0] == "1"
    assert second[0] == "second"
    (scores, classes, matrix), corpus = parted(first[1:]), corpora[0]
    accuracy, macro, loss, speed = scores
    low, high = corpus["accuracy_interval"]
    assert accuracy == (
        f"accuracy    {100 * corpus['accuracy']:.2f}%  {round(40 * corpus['accuracy'])} of 40; "
        f"95% interval {100 * low:.1f}% to {100 * high:.1f}%"
    )
    assert macro.split() == ["macro", "F1", f"{100 * corpus['f1']:.2f}%"]
    assert loss.split() == ["loss", f"{corpus['loss']:.4f}"]
    assert speed.startswith("40 texts in ")
    assert speed.endswith(" texts/s")
    assert classes[0].split() == ["class", "precision", "recall", "F1", "texts"]
    of_class = corpus["classes"][0]
    shares = [f"{100 * of_class[key]:.2f}%" for key in ("precision", "recall", "f1")]
    assert classes[1].split() == ["neg", *shares, str(of_class["texts"])]
    assert matrix[0].split() == ["true", "\\", "predicted", "neg", "pos"]
    assert [list(map(int, line.split()[1:])) for line in matrix[1:]] == corpus["confusion"]


def capture_blocks(capsys: Capture, model: Path) -> list[list[str]]:
    """The lines of each corpus: a title, and three parts with blank lines between."""
    assert evaluate(model) == 0
    parts = capsys.readouterr().out.rstrip("\n").split("\n\n")
    return ["\n\n".join(parts[begin : begin + 3]).split("\n") for begin in range(0, len(parts), 3)]


def parted(lines: list[str]) -> list[list[str]]:
    return [part.split("\n") for part in "\n".join(lines).split("\n\n")]


def test_of_many_classes_the_commonest_mistakes_are_listed(tmp_path: Path, capsys: Capture) -> None:
    labels = [f"class {number}" for number in range(12)]
    columns = {"label": 1, "text": 2}
    data = {"train": [{"tsv": "test.tsv", **columns}], "valid": [], "test": [{"tsv": "test.tsv", **columns}]}
    recipe = classifier_recipe(tmp_path, data=data, train={"validation": {"metric": "loss"}})
    folder = written(fresh_classifier(recipe, labels), tmp_path / "model")
    texts = [text for _, text in film_texts(60)]
    write_tsv(tmp_path / "test.tsv", [[labels[number % 12], text] for number, text in enumerate(texts)])
    (corpus,) = shown(capsys, folder)["corpora"]
    ((*_, mistakes),) = [parted(block) for block in capture_blocks(capsys, folder)]
    assert mistakes[0].split() == ["true", "predicted", "texts"]
    assert len(mistakes) == 11
    wrong = [(count, true, said) for true, row in enumerate(corpus["confusion"]) for said, count in enumerate(row)
             if true != said]  # fmt: skip
    listed = [line.split() for line in mistakes[1:]]
    assert [int(line[-1]) for line in listed] == sorted((count for count, _, _ in wrong), reverse=True)[:10]
    assert all((int(line[4]), int(line[1]), int(line[3])) in wrong for line in listed)


def test_several_labels_have_micro_f1_and_no_matrix(tmp_path: Path, capsys: Capture) -> None:
    recipe = classifier_recipe(tmp_path, {"labels": "several"}, data={"valid": []}, train={"validation": {}})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"test": recipe.data.test[:1]})})
    folder = written(fresh_classifier(recipe, ("a", "b", "c")), tmp_path / "model")
    rows = [[("a,b", "c", "", "a , c")[number % 4], text] for number, (_, text) in enumerate(film_texts(40))]
    write_tsv(tmp_path / "test.tsv", [*rows, ["a", "  "]])
    (corpus,) = shown(capsys, folder)["corpora"]
    said = [set(one.labels) for one in load_classifier(folder, "cpu").classify([text for _, text in rows])]
    true = [set(filter(None, (name.strip() for name in labels.split(",")))) for labels, _ in rows]
    assert corpus["blank"] == 1
    assert corpus["accuracy"] == mean(one == other for one, other in zip(true, said, strict=True))
    hits = sum(len(one & other) for one, other in zip(true, said, strict=True))
    assert corpus["micro_f1"] == pytest.approx(2 * hits / (sum(map(len, true)) + sum(map(len, said))))
    assert "confusion" not in corpus
    assert evaluate(folder) == 0
    scores, classes = parted(capsys.readouterr().out.rstrip("\n").split("\n"))
    assert scores[2].split() == ["micro", "F1", f"{100 * corpus['micro_f1']:.2f}%"]
    assert ", 1 blank one left out, " in scores[4]
    assert len(classes) == 4
    assert evaluate(folder, "--outputs", tmp_path / "said.tsv") == 0
    lines = [line.split("\t") for line in (tmp_path / "said.tsv").read_text().splitlines()]
    same = [frozenset(one) == other for one, other in zip(true, said, strict=True)]
    assert [line[0] == line[1] for line in lines] == same  # as labels are in one order on both sides
    assert any(len(one) > 1 for one in said)
    capsys.readouterr()


def test_texts_and_labels_of_files_are_scored(films: Path, tmp_path: Path, capsys: Capture) -> None:
    rows = film_texts(40, seed=2)
    (tmp_path / "texts").write_text("".join(f"{text}\n" for _, text in rows))
    (tmp_path / "labels").write_text("".join(f" {label} \n" for label, _ in rows))
    (given,) = shown(capsys, films, "--source", tmp_path / "texts", "--target", tmp_path / "labels")["corpora"]
    first, _ = shown(capsys, films)["corpora"]
    for corpus in (given, first):
        del corpus["seconds"], corpus["texts_per_second"]
    assert given == first


def test_what_was_said_is_written_beside_the_truth(seeds: list[Path], tmp_path: Path, capsys: Capture) -> None:
    assert evaluate(seeds[0], "--outputs", tmp_path / "said.tsv") == 0
    lines = [line.split("\t") for line in (tmp_path / "said.1.tsv").read_text().splitlines()]
    rows = film_texts(40, seed=2)
    said = load_classifier(seeds[0], "cpu").classify([text for _, text in rows])
    assert [[true, text] for true, _, _, text in lines] == [[label, text] for label, text in rows]
    assert [label for _, label, _, _ in lines] == [one.label for one in said]
    assert [float(share) for _, _, share, _ in lines] == [
        pytest.approx(one.probabilities[one.label], abs=1e-4) for one in said
    ]
    assert len((tmp_path / "said.second.tsv").read_text().splitlines()) == 20
    capsys.readouterr()
    assert evaluate(*seeds[:2], "--split", "valid", "--outputs", tmp_path / "two.tsv") == 0
    assert (tmp_path / "two.seed-1.tsv").exists()
    assert (tmp_path / "two.seed-2.tsv").exists()


# --- several models ---------------------------------------------------------------------------------------------------


def test_of_several_models_the_means_and_deviations_are_shown_and_recorded(
    seeds: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/usr/bin/heedful", "evaluate", "a b"])
    found = shown(capsys, *seeds, "--record", "three")
    recorded = json.loads((tmp_path / "benchmarks/results/three.json").read_text())
    assert recorded["seeds"] == [1, 2, 3]
    assert recorded["command"] == "heedful evaluate 'a b'"
    assert recorded["figures"] == found["figures"]
    expected: dict[str, float] = {}
    for place, behind in ((0, ""), (1, "_second")):
        for metric in ("accuracy", "f1", "loss"):
            scores = [one["corpora"][place][metric] for one in found["models"]]
            expected |= {f"{metric}{behind}": mean(scores), f"{metric}_sd{behind}": stdev(scores)}
    assert list(recorded["figures"]) == list(expected)
    assert recorded["figures"] == {name: pytest.approx(figure, abs=1e-4) for name, figure in expected.items()}
    assert recorded["figures"]["accuracy_sd"] > 0
    assert evaluate(*seeds) == 0
    *_, first, second = capsys.readouterr().out.rstrip("\n").split("\n\n")
    title, accuracy, *_ = first.splitlines()
    assert title == "mean of 3 models, 1"
    shares = f"{100 * expected['accuracy']:.2f}%", f"{100 * expected['accuracy_sd']:.2f}"
    assert accuracy.split() == ["accuracy", shares[0], "±", shares[1]]
    assert second.splitlines()[0] == "mean of 3 models, second"


def test_a_record_tells_how_long_a_run_trained(
    films: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evaluate(films, "--split", "valid", "--record", "one") == 0
    assert capsys.readouterr().err == "heedful: recorded in benchmarks/results/one.json.\n"
    recorded = json.loads((tmp_path / "benchmarks/results/one.json").read_text())["figures"]
    assert list(recorded) == ["accuracy", "f1", "loss", "minutes", "steps", "tokens_s"]
    assert recorded["steps"] == 30


def test_several_references_are_for_translators(films: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x").write_text("a film\n")
    files = ("--source", tmp_path / "x", "--target", tmp_path / "x", "--target", tmp_path / "x")
    assert refused(capsys, films, *files) == (
        f"--target is given several times, but {films} is a model that classifies: name one."
    )


def test_metrics_are_chosen_by_name(films: Path, capsys: Capture) -> None:
    assert evaluate(films, "--split", "valid", "--metric", "loss", "--metric", "accuracy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["loss", "accuracy", lines[2].split()[0]]
    assert not any(line.startswith("macro") for line in lines)
    assert evaluate(films, "--split", "valid", "--metric", "accuracy", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["corpora"]
    assert "accuracy" in found
    assert "loss" not in found
    assert refused(capsys, films, "--metric", "per") == (
        f"`per` is not a metric of {films}, a model that classifies: use one of accuracy, f1, micro_f1, loss."
    )
    assert refused(capsys, films, "--split", "valid", "--metric", "micro_f1") == (
        "`micro_f1` does not apply to this model: use one of accuracy, f1, loss."
    )


def test_models_without_a_common_mean_are_refused(
    seeds: list[Path], films: Path, tmp_path: Path, reversing_folder: Path, capsys: Capture
) -> None:
    assert refused(capsys, seeds[0], seeds[0]) == like(f"{seeds[0]} is given twice: ...")
    assert refused(capsys, seeds[0], reversing_folder) == (
        f"{reversing_folder} is a model that translates, but {seeds[0]} is one that classifies: their scores "
        "cannot be averaged."
    )
    bundle = read_bundle(films, Classifier)
    relabelled = Bundle(
        bundle.recipe,
        Vocabularies(bundle.vocabularies.tokenizers, ("bad", "good")),
        bundle.model,
    )
    other = written(relabelled, tmp_path / "relabelled")
    assert (
        refused(capsys, seeds[0], other)
        == f"{other} has other classes than {seeds[0]}: their scores cannot be averaged."
    )
    several = written(changed(bundle, ("model", "labels"), "several"), tmp_path / "several")
    assert refused(capsys, seeds[0], several) == (
        f"{several} has `model.labels` = 'several', but {seeds[0]} has 'one': their scores cannot be averaged."
    )
    fewer = changed(bundle, ("data", "test"), recipe_to_json(bundle.recipe)["data"]["test"][:1])
    shorter = written(fewer, tmp_path / "shorter")
    assert refused(capsys, seeds[0], shorter) == (
        f"{shorter} has other test corpora than {seeds[0]}: give --source and --target, texts and their labels."
    )


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--beam", "2"], "--beam"),
        (["--coverage", "0"], "--coverage"),
        (["--length-penalty-kind", "wu"], "--length-penalty-kind"),
        (["--raw"], "--raw"),
        (["--with", "other"], "--with"),
        (["--batch-tokens", "10"], "--batch-tokens"),
        (["--source", "x", "--target", "y", "--to", "de"], "--to"),
    ],
)
def test_options_of_translators_are_refused(films: Path, capsys: Capture, arguments: list[str], option: str) -> None:
    assert refused(capsys, films, *arguments) == f"{option} is for translators, which {films} is not: leave it out."


def test_a_recipe_without_the_corpus_is_refused(films: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = written(changed(read_bundle(films, Classifier), ("data", "test"), []), tmp_path / "untested")
    assert refused(capsys, folder) == (
        f"{folder}: its recipe has no `data.test`: give --source and --target, texts and their labels."
    )


def test_files_that_do_not_fit_are_refused(films: Path, tmp_path: Path, capsys: Capture) -> None:
    texts, labels = tmp_path / "texts", tmp_path / "labels"
    texts.write_text("great\ndull\n")
    labels.write_text("pos\n\n")
    files = ("--source", texts, "--target", labels)
    assert refused(capsys, films, *files) == f"{labels}, line 2 has no label: every text needs one."
    labels.write_text("pos\n")
    assert refused(capsys, films, *files).startswith(f"{labels} has 1 line but {texts} has 2")
    labels.write_text("pos\nneutral\n")
    assert refused(capsys, films, *files) == (
        f"{texts} + {labels}, line 2 has the label `neutral`, which is not a class of the model. Known: neg, pos."
    )
    labels.unlink()
    assert refused(capsys, films, *files) == f"{labels}: no such file."
