"""`heedful evaluate` as a user sees it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

from heedful.api.model import Model
from heedful.cli.main import run

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


def test_the_recipes_test_corpora_are_scored(reversing_folder: Path, reversing: Model, capsys: Capture) -> None:
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
    assert evaluate(reversing_folder, "--source", pair[0], "--target", pair[1], "--output", tmp_path / "out.txt") == 0
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "bee ant"
    assert evaluate(reversing_folder, "--output", tmp_path / "all.txt") == 0
    assert len((tmp_path / "all.1.txt").read_text().splitlines()) == 40
    assert len((tmp_path / "all.second.txt").read_text().splitlines()) == 10


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
        (["--source", "x"], "--target is missing: sentences need references, and references need sentences."),
        (["--target", "x"], "--source is missing: sentences need references, and references need sentences."),
        (
            ["--source", "x", "--target", "y", "--split", "test"],
            "--split chooses among the recipe's corpora: leave it out beside --source and --target.",
        ),
        (["--record", "a/b"], "`a/b` cannot name a result: use letters, digits, `.`, `-` and `_`."),
        (["--output", "."], ".: this is a folder, but must be a file."),
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
    assert message.startswith(f"{pair[1]} has 1 lines but {pair[0]} has 3")


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
