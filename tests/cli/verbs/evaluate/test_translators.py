"""`heedful evaluate` as a user sees it."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.models.bundle import read_bundle, write_description, write_weights
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
SIGNATURE = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"


def evaluate(model: Path, *arguments: str | int | Path) -> int:
    return run(["evaluate", str(model), "--device", "cpu", *map(str, arguments)])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "x.in", tmp_path / "x.out"
    source.write_text("ant bee\ncat dog eel\nfox gnu\n")
    target.write_text("bee ant\neel dog cat\ngnu hen\n")
    return source, target


def test_the_recipes_test_corpora_are_scored(reversing_folder: Path, reversing: Translator, capsys: Capture) -> None:
    assert evaluate(reversing_folder, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["model"] == str(reversing_folder)
    first, second = shown["corpora"]
    assert [first["name"], second["name"]] == ["1", "second"]
    assert [first["sentences"], second["sentences"]] == [40, 10]
    folder = Path(reversing.recipe.data.folder)
    references = (folder / "first.out").read_text().splitlines()
    outputs = reversing.translate((folder / "first.in").read_text().splitlines())
    assert first["bleu"]["score"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert first["bleu"]["signature"] == SIGNATURE
    assert first["chrf"]["score"] == sacrebleu.corpus_chrf(outputs, [references]).score
    assert 1 < first["perplexity"] < 1.5
    assert first["target_tokens"] == sum(len(reference.split()) + 1 for reference in references)
    assert first["tokens_per_second"] > 0


def test_the_scores_are_readable(reversing_folder: Path, pair: tuple[Path, Path], capsys: Capture) -> None:
    assert evaluate(reversing_folder, "--source", pair[0], "--target", pair[1], "--beam", 2) == 0
    bleu, chrf, exact, perplexity, speed = capsys.readouterr().out.splitlines()
    assert bleu.split() == ["BLEU", bleu.split()[1], SIGNATURE]
    assert chrf.split()[0] == "chrF"
    assert exact.split() == ["exact", "66.67%", "2", "of", "3"]
    assert perplexity.split()[0] == "perplexity"
    assert perplexity.endswith("over 10 target tokens")
    assert speed.startswith("3 sentences in ")
    assert speed.endswith(" tokens/s")


def test_several_corpora_have_titles(reversing_folder: Path, capsys: Capture) -> None:
    assert evaluate(reversing_folder) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.splitlines()[0] == "1"
    assert second.splitlines()[0] == "second"


def test_a_record_names_the_figures_by_corpus(
    reversing_folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/usr/bin/heedful", "evaluate", "a model", "--record", "tiny"])
    assert evaluate(reversing_folder, "--record", "tiny", "--json") == 0
    shown = capsys.readouterr()
    assert shown.err == "heedful: recorded in benchmarks/results/tiny.json.\n"
    result = json.loads((tmp_path / "benchmarks/results/tiny.json").read_text())
    assert list(result) == ["name", "command", "date", "machine", "versions", "seeds", "figures"]
    assert result["command"] == "heedful evaluate 'a model' --record tiny"
    assert result["seeds"] == [1]
    assert list(result["figures"]) == [
        "bleu",
        "chrf",
        "exact_match",
        "perplexity",
        "bleu_second",
        "chrf_second",
        "exact_match_second",
        "perplexity_second",
    ]
    scores = json.loads(shown.out)["corpora"]
    assert result["figures"]["bleu"] == round(scores[0]["bleu"]["score"], 4)
    assert result["figures"]["chrf_second"] == round(scores[1]["chrf"]["score"], 4)


def test_translations_are_written_one_file_a_corpus(
    reversing_folder: Path, pair: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    assert evaluate(reversing_folder, "--source", pair[0], "--target", pair[1], "--outputs", tmp_path / "out.txt") == 0
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "bee ant"
    assert evaluate(reversing_folder, "--outputs", tmp_path / "all.txt") == 0
    assert len((tmp_path / "all.1.txt").read_text().splitlines()) == 40
    assert len((tmp_path / "all.second.txt").read_text().splitlines()) == 10


# --- several models ---------------------------------------------------------------------------------------------------


@pytest.fixture
def seeds(reversing_folder: Path, tmp_path: Path) -> list[Path]:
    """Three models whose scores differ, of seeds 1, 2 and 3, which trained 60, 90 and 120 seconds."""
    bundle = read_bundle(reversing_folder)
    folders = []
    for seed in (1, 2, 3):
        folder = tmp_path / f"seed-{seed}/model"
        torch.manual_seed(seed)
        for parameter in bundle.model.parameters():
            parameter.data += 0.15 * torch.randn_like(parameter) * parameter.std()
        recipe = bundle.recipe.model_copy(update={"train": bundle.recipe.train.model_copy(update={"seed": seed})})
        write_description(folder, recipe, bundle.vocabularies)
        write_weights(folder, bundle.model)
        (folder / "checkpoints/step-00000001").mkdir(parents=True)
        (folder / "checkpoints/last.json").write_text('{"folder": "step-00000001"}')
        (folder / "checkpoints/step-00000001/position.json").write_text(json.dumps({"seconds": 30.0 + 30 * seed}))
        folders.append(folder)
    return folders


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """By hand: the sample deviation divides by one less than there are."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def test_of_several_models_the_mean_and_the_deviation_are_recorded(
    seeds: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evaluate(seeds[0], seeds[1], seeds[2], "--json", "--record", "three") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["model"] for one in shown["models"]] == list(map(str, seeds))
    recorded = json.loads((tmp_path / "benchmarks/results/three.json").read_text())
    assert recorded["seeds"] == [1, 2, 3]
    figures = recorded["figures"]
    assert figures == shown["figures"]
    expected: dict[str, float] = {}
    for place, behind in ((0, ""), (1, "_second")):
        corpora = [one["corpora"][place] for one in shown["models"]]
        for metric in ("bleu", "chrf"):
            scores = [corpus[metric]["score"] for corpus in corpora]
            expected[f"{metric}{behind}"], expected[f"{metric}_sd{behind}"] = mean_and_deviation(scores)
        for metric in ("exact_match", "perplexity"):
            scores = [corpus[metric] for corpus in corpora]
            expected[f"{metric}{behind}"], expected[f"{metric}_sd{behind}"] = mean_and_deviation(scores)
    expected["minutes"] = (60 + 90 + 120) / 3 / 60
    assert list(figures) == list(expected)
    assert figures == {name: pytest.approx(figure, abs=1e-4) for name, figure in expected.items()}
    assert figures["bleu_sd"] > 1


def test_without_the_time_of_every_model_there_is_no_mean_of_it(
    seeds: list[Path], tmp_path: Path, capsys: Capture, pair: tuple[Path, Path]
) -> None:
    shutil.rmtree(seeds[1] / "checkpoints")
    assert evaluate(seeds[0], seeds[1], "--json", "--source", pair[0], "--target", pair[1]) == 0
    assert list(json.loads(capsys.readouterr().out)["figures"]) == [
        "bleu", "bleu_sd", "chrf", "chrf_sd", "exact_match", "exact_match_sd", "perplexity", "perplexity_sd",
    ]  # fmt: skip


def test_the_scores_of_several_models_are_readable(seeds: list[Path], capsys: Capture) -> None:
    assert evaluate(seeds[0], seeds[1]) == 0
    blocks = capsys.readouterr().out.rstrip("\n").split("\n\n")
    titles = [block.splitlines()[0] for block in blocks]
    assert titles == [
        f"{seeds[0]}: 1",
        f"{seeds[0]}: second",
        f"{seeds[1]}: 1",
        f"{seeds[1]}: second",
        "mean of 2 models, 1",
        "mean of 2 models, second",
    ]
    scores = [float(block.splitlines()[1].split()[1]) for block in blocks[:4:2]]
    label, mean, sign, deviation = blocks[4].splitlines()[1].split()
    assert (label, sign) == ("BLEU", "±")
    assert [float(mean), float(deviation)] == pytest.approx(mean_and_deviation(scores), abs=0.02)


def test_perplexities_of_no_reference_have_no_mean(seeds: list[Path], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.in").write_text("ant\n")
    (tmp_path / "x.out").write_text("\n")
    files = ("--source", tmp_path / "x.in", "--target", tmp_path / "x.out")
    assert evaluate(seeds[0], seeds[1], *files) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["perplexity", "nan", "±", "nan"]
    assert evaluate(seeds[0], seeds[1], *files, "--json") == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(capsys.readouterr().out, parse_constant=refuse)["figures"]["perplexity"] is None


def test_translations_of_several_models_are_several_files(
    seeds: list[Path], pair: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    """Named by the models' folders, or numbered where these have one name."""
    files = ("--source", pair[0], "--target", pair[1], "--outputs", tmp_path / "out.txt")
    assert evaluate(seeds[0], seeds[1], *files) == 0
    first, second = ((tmp_path / f"out.{number}.txt").read_text() for number in (1, 2))
    assert first.count("\n") == second.count("\n") == 3
    other = seeds[1].rename(tmp_path / "other")
    assert evaluate(seeds[0], other, *files) == 0
    assert (tmp_path / "out.model.txt").read_text() == first
    assert (tmp_path / "out.other.txt").read_text() == second


def change_tests(model: Path, **changes: Any) -> None:
    """Write other keys into the test corpora of a model's recipe."""
    config = json.loads((model / "config.json").read_text())
    for number, corpus in enumerate(config["recipe"]["data"]["test"]):
        corpus.update({key: f"{value}{number}" if key == "name" else value for key, value in changes.items()})
    (model / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("changes", [{"lines": "1-9"}, {"name": "other"}, {"source": "first.out"}])
def test_models_of_other_test_corpora_are_refused(seeds: list[Path], capsys: Capture, changes: dict[str, str]) -> None:
    """Other sentences or other names: before anything is translated."""
    change_tests(seeds[1], **changes)
    assert refused(capsys, seeds[0], seeds[0], seeds[1]) == (
        f"{seeds[1]} has other test corpora than {seeds[0]}: give --source and --target."
    )


def test_a_model_twice_is_refused(seeds: list[Path], capsys: Capture) -> None:
    assert refused(capsys, seeds[0], seeds[1], seeds[0]) == (
        f"{seeds[0]} is given twice: the mean of a model and itself says nothing."
    )


@pytest.mark.parametrize(
    ("section", "key", "first", "second"),
    [("evaluate", "bleu_tokenize", "13a", "none"), ("data", "lowercase", False, True)],
)
def test_models_that_are_scored_otherwise_are_refused(
    seeds: list[Path], capsys: Capture, section: str, key: str, first: object, second: object
) -> None:
    config = json.loads((seeds[1] / "config.json").read_text())
    config["recipe"][section][key] = second
    (seeds[1] / "config.json").write_text(json.dumps(config))
    assert refused(capsys, seeds[0], seeds[1]) == (
        f"{seeds[1]} has `{section}.{key}` = {second!r}, but {seeds[0]} has {first!r}: their scores cannot be averaged."
    )


def test_the_same_sentences_elsewhere_are_the_same_test_corpus(
    seeds: list[Path], reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(reversing.recipe.data.folder, tmp_path / "moved")
    config = json.loads((seeds[1] / "config.json").read_text())
    config["recipe"]["data"]["folder"] = str(tmp_path / "moved")
    (seeds[1] / "config.json").write_text(json.dumps(config))
    assert evaluate(seeds[0], seeds[1], "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["models"]) == 2


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refused(capsys: Capture, model: Path, *arguments: str | Path) -> str:
    assert evaluate(model, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("heedful: error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "x"], "--target is missing: --source and --target go together, line by line."),
        (["--target", "x"], like("--source is missing: ...")),
        (
            ["--source", "x", "--target", "y", "--split", "test"],
            "--split chooses among the recipe's corpora: leave it out next to --source and --target.",
        ),
        (["--to", "de"], "--to is for --source and --target: the recipe's corpora have their own `to`."),
        (["--record", "a/b"], like("`a/b` cannot name a result: ...")),
        (["--outputs", "."], ".: this is a folder, but must be a file."),
    ],
)
def test_impossible_wishes_are_refused_before_the_model_is_loaded(
    tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert refused(capsys, tmp_path / "no-model", *arguments) == message


def test_a_recipe_without_the_corpus_is_refused(reversing_folder: Path, capsys: Capture) -> None:
    assert refused(capsys, reversing_folder, "--split", "valid") == (
        f"{reversing_folder}: its recipe has no `data.valid`: give --source and --target."
    )


def test_unequal_files_are_refused(reversing_folder: Path, pair: tuple[Path, Path], capsys: Capture) -> None:
    pair[1].write_text("bee ant\n")
    message = refused(capsys, reversing_folder, "--source", pair[0], "--target", pair[1])
    assert message.startswith(f"{pair[1]} has 1 line but {pair[0]} has 3")


def test_a_missing_file_is_refused(reversing_folder: Path, pair: tuple[Path, Path], capsys: Capture) -> None:
    pair[1].unlink()
    message = refused(capsys, reversing_folder, "--source", pair[0], "--target", pair[1])
    assert message == f"{pair[1]}: no such file."


def test_empty_files_are_refused(reversing_folder: Path, pair: tuple[Path, Path], capsys: Capture) -> None:
    for path in pair:
        path.write_text("")
    message = refused(capsys, reversing_folder, "--source", pair[0], "--target", pair[1])
    assert message == f"{pair[0]} + {pair[1]} has no sentence to translate."


def test_a_damaged_model_is_refused(
    reversing_folder: Path, tmp_path: Path, capsys: Capture, sentences: Callable[[int], list[str]]
) -> None:
    folder = shutil.copytree(reversing_folder, tmp_path / "bundle")
    (folder / "model.safetensors").write_bytes(b"none")
    assert refused(capsys, folder).startswith(f"{folder}/model.safetensors is damaged (")


def test_other_metrics_are_asked_for_by_name(reversing_folder: Path, pair: tuple[Path, Path], capsys: Capture) -> None:
    given = ("--source", pair[0], "--target", pair[1])
    assert evaluate(reversing_folder, *given, "--metric", "per", "--metric", "edit_distance") == 0
    per, distance, exact, *_ = capsys.readouterr().out.splitlines()
    assert per.split() == ["PER", "14.29", "nrefs:1|case:mixed|unit:symbol"]  # one of seven
    assert distance.split()[:3] == ["edit", "distance", "1.00"]
    assert exact.split()[:2] == ["exact", "66.67%"]
    assert evaluate(reversing_folder, *given, "--metric", "bluu") == 2
    assert capsys.readouterr().err == "heedful: error: `bluu` is not a metric. Did you mean `bleu`?\n"


def test_several_references_of_each_sentence(
    reversing_folder: Path, pair: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    second = tmp_path / "y.out"
    second.write_text("no\nno\ngnu fox\n")
    given = ("--source", pair[0], "--target", pair[1], "--target", second)
    assert evaluate(reversing_folder, *given, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["corpora"]
    assert found["exact_match"] == 1
    assert found["bleu"]["signature"] == SIGNATURE.replace("nrefs:1", "nrefs:2")
    streams = [path.read_text().splitlines() for path in (pair[1], second)]
    assert found["bleu"]["score"] == sacrebleu.corpus_bleu(["bee ant", "eel dog cat", "gnu fox"], streams).score
    second.write_text("no\n")
    assert evaluate(reversing_folder, *given) == 2
    assert "has 1 line but" in capsys.readouterr().err
