"""`heedful compare` as a user sees it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from heedful.cli.main import run
from heedful.cli.verbs.compare import statement
from heedful.lab.compare import System, compare
from heedful.tasks.translate.evaluation import TranslationEvaluation
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
Texts = dict[str, Path]
Changed = Callable[..., Path]


def comparing(*arguments: str | int | Path) -> int:
    return run(["compare", "--device", "cpu", "--samples", "200", *map(str, arguments)])


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_are_compared_in_readable_tables(texts: Texts, capsys: Capture) -> None:
    assert comparing(texts["poor"], texts["good"], "--source", texts["source"], "--target", texts["target"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    blocks = shown.out.rstrip("\n").split("\n\n")
    assert blocks[0].splitlines() == [
        f"A  {texts['poor']}",
        f"B  {texts['good']}",
        f"40 sentences of {texts['source']} + {texts['target']}; 200 draws per test, seed 12345",
    ]
    header, bleu, chrf = blocks[1].splitlines()
    assert header.split() == ["A", "B", "B", "-", "A", "95%", "interval", "p:", "bootstrap", "random."]
    references = texts["target"].read_text().splitlines()
    scores = [
        sacrebleu.corpus_bleu(texts[name].read_text().splitlines(), [references]).score for name in ("poor", "good")
    ]
    assert bleu.split()[:4] == ["BLEU", f"{scores[0]:.2f}", f"{scores[1]:.2f}", f"{scores[1] - scores[0]:+.2f}"]
    assert bleu.split()[-2:] == ["0.005", "0.005"]
    assert chrf.startswith("chrF")
    assert (
        blocks[2].splitlines()[0]
        == f"BLEU  nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert blocks[3].splitlines()[0] == "By length: words of the reference"
    assert [line.split()[:4] for line in blocks[3].splitlines()[2:]] == [["0", "to", "5", "40"]]
    assert blocks[4].splitlines()[0] == "By frequency: F1 of the target words, by their count in the references"
    assert blocks[5].splitlines() == [
        "Where B is better: chrF of the sentence",
        "line 2: A 35.7, B 100.0",
        "  source     sechs sieben acht neun zehn",
        "  reference  six seven eight nine ten",
        "  A          six seven",
        "  B          six seven eight nine ten",
    ]
    assert len(blocks) == 11  # no sentence of which A is better
    assert blocks[-1].startswith("B is better than A: +")
    assert blocks[-1].endswith("over 40 sentences and one run per side. chrF agrees.")
    assert max(len(line) for block in blocks[1:-1] for line in block.splitlines()) <= 80


def test_everything_is_in_one_json_object(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    arguments = ("--target", texts["target"], "--metric", "ter", "--metric", "bleu", "--examples", 2, "--seed", 7)
    assert comparing(texts["poor"], texts["good"], *arguments, "--json", "-o", tmp_path / "out.json") == 0
    assert capsys.readouterr().out == ""
    shown = json.loads((tmp_path / "out.json").read_text())
    references = texts["target"].read_text().splitlines()
    poor, good = (System(str(texts[name]), tuple(texts[name].read_text().splitlines())) for name in ("poor", "good"))
    expected = compare([poor], [good], references, metrics=["ter", "bleu"], samples=200, seed=7, examples=2)
    parts = "a b sentences samples seed metrics lengths words frequencies_of better_a better_b unit lengths_of numbered"
    assert list(shown) == ["test_set", *parts.split(), "statement"]
    assert shown["statement"] == statement(expected)
    assert shown["metrics"][0]["metric"] == "TER"
    assert shown["metrics"][0]["better"] == "B"
    assert shown["metrics"][1]["bootstrap"]["low"] == expected.metrics[1].bootstrap.low
    assert shown["metrics"][1]["b"] == {
        "runs": [expected.metrics[1].b.mean],
        "mean": expected.metrics[1].b.mean,
        "deviation": None,
    }
    assert shown["lengths"][0]["span"] == {"low": 0, "high": 5}
    assert [example["line"] for example in shown["better_b"]] == [example.line for example in expected.better_b]


def test_a_file_equals_itself(texts: Texts, capsys: Capture) -> None:
    assert comparing(texts["poor"], texts["poor"], "--target", texts["target"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "No real difference: +0.00 BLEU (95% interval +0.00 to +0.00), p = 1.000 by bootstrap, 1.000 by randomisation, "
        "over 40 sentences and one run per side: these data cannot tell A from B. chrF agrees."
    )


def test_files_are_compared_without_loading_torch(texts: Texts) -> None:
    arguments = ["compare", str(texts["poor"]), str(texts["good"]), "--target", str(texts["target"])]
    code = (
        f"import sys\nfrom heedful.cli.main import run\nassert run({arguments}) == 0\nassert 'torch' not in sys.modules"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


# --- models -----------------------------------------------------------------------------------------------------------


def test_models_translate_the_first_test_corpus_of_their_recipes(
    reversing_folder: Path, worse_folder: Path, reversing: Translator, capsys: Capture
) -> None:
    assert comparing(worse_folder, reversing_folder, "--json", "--beam", 2) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    folder = Path(reversing.recipe.data.folder)
    sources, references = ((folder / f"first.{side}").read_text().splitlines() for side in ("in", "out"))
    expected = sacrebleu.corpus_bleu(reversing.translate(sources, beam=2), [references]).score
    assert found["metrics"][0]["b"]["mean"] == pytest.approx(expected)
    assert found["metrics"][0]["a"]["mean"] < expected
    assert found["sentences"] == 40
    assert found["better_b"][0]["source"] in sources
    assert found["frequencies_of"] == f"the training data of {worse_folder}"
    assert sum(bucket["size"] for bucket in found["words"]) == sum(len(line.split()) for line in references)
    assert [line for line in shown.err.splitlines() if "cut" not in line] == [
        f"heedful: {worse_folder}: translating 40 sentences.",
        f"heedful: {reversing_folder}: translating 40 sentences.",
        f"heedful: {worse_folder}: counting words in its training data.",
    ]


def test_another_corpus_can_be_chosen(reversing_folder: Path, worse_folder: Path, capsys: Capture) -> None:
    assert comparing(worse_folder, reversing_folder, "--corpus", "second") == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("10 sentences of second; ")


def test_several_runs_make_a_side(
    reversing_folder: Path, worse_folder: Path, changed: Changed, capsys: Capture
) -> None:
    other = changed("decode", beam=1)
    assert comparing(f"{worse_folder},{other}", f"{reversing_folder}, {other}") == 0
    shown = capsys.readouterr()
    assert shown.err.count("translating") == 3  # a model on both sides works once
    blocks = shown.out.split("\n\n")
    assert blocks[0].splitlines()[0] == f"A  {worse_folder}, {other}"
    assert blocks[1].splitlines()[0].split()[-1] == "Welch"
    header, first, *_ = blocks[2].splitlines()
    assert header.split() == ["mean", "sd", "run", "1", "run", "2"]
    assert first.split()[:2] == ["BLEU", "A"]
    assert "over 40 sentences and 2 runs per side" in blocks[-1]


def test_a_file_can_be_compared_with_a_model(
    reversing_folder: Path, reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    folder = Path(reversing.recipe.data.folder)
    shutil.copy(folder / "first.out", tmp_path / "perfect.txt")
    assert comparing(reversing_folder, tmp_path / "perfect.txt", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"][0]["b"]["mean"] == pytest.approx(100)


def test_given_sentences_are_translated(
    reversing_folder: Path, worse_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "in").write_text("ant bee\ncat dog eel\n")
    (tmp_path / "out").write_text("bee ant\neel dog cat\n")
    given = ("--source", tmp_path / "in", "--target", tmp_path / "out")
    assert comparing(worse_folder, reversing_folder, *given, "--metric", "chrf") == 0
    assert (
        capsys.readouterr().out.splitlines()[2].startswith(f"2 sentences of {tmp_path / 'in'} + {tmp_path / 'out'}; ")
    )


def test_without_its_training_data_words_are_counted_in_the_references(
    changed: Changed, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "in").write_text("ant bee\ncat dog eel\n")
    (tmp_path / "out").write_text("bee ant\neel dog cat\n")
    model, other = (changed("data", folder=str(tmp_path / "gone")) for _ in range(2))
    assert comparing(model, other, "--source", tmp_path / "in", "--target", tmp_path / "out", "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["frequencies_of"] == "the references"
    gone = tmp_path / "gone" / "first.in"
    assert [line for line in shown.err.splitlines() if "training data cannot" in line] == [  # once for both
        f"heedful: {model}: its training data cannot be read ({gone}: no such file (`data.folder` is "
        f"`{tmp_path / 'gone'}`))."
    ]


def test_a_lowercased_model_is_scored_without_case(
    changed: Changed, texts: Texts, tmp_path: Path, capsys: Capture
) -> None:
    model = changed("data", lowercase=True)
    (tmp_path / "in").write_text("ant bee\ncat dog eel\n")
    (tmp_path / "out").write_text("Bee Ant\nEel Dog Cat\n")
    given = ("--source", tmp_path / "in", "--target", tmp_path / "out")
    assert comparing(model, tmp_path / "out", *given, "--json") == 0
    bleu, chrf = json.loads(capsys.readouterr().out)["metrics"]
    assert "case:lc" in bleu["signature"]
    assert "case:lc" in chrf["signature"]
    assert chrf["b"]["mean"] == pytest.approx(100)  # the file's case was taken out too


def test_cut_translations_are_mentioned(
    reversing_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    evaluate_rows = Translator.evaluate_rows

    def cutting(*arguments: Any, **options: Any) -> TranslationEvaluation:
        found = evaluate_rows(*arguments, **options)
        return replace(found, best=tuple(replace(one, complete=index >= 3) for index, one in enumerate(found.best)))

    monkeypatch.setattr(Translator, "evaluate_rows", cutting)
    assert comparing(reversing_folder, reversing_folder, "--corpus", "second") == 0
    told = f"heedful: {reversing_folder}: 3 translations were cut at the maximum length: raise --max-extra."
    assert told in capsys.readouterr().err.splitlines()


def test_files_are_compared_by_error_rates_with_several_references(tmp_path: Path, capsys: Capture) -> None:
    lines = {
        "a": ["K AE T"] * 20, "b": ["K AA T", "K AE"] * 10, "1": ["K AE T"] * 20, "2": ["K AA T"] * 20,
    }  # fmt: skip
    for name, texts in lines.items():
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    files = [tmp_path / name for name in ("a", "b")]
    targets: list[str | Path] = ["--target", tmp_path / "1", "--target", tmp_path / "2"]
    assert comparing(*files, *targets, "--metric", "per", "--metric", "exact_match", "--json") == 0
    per, exact = json.loads(capsys.readouterr().out)["metrics"]
    assert (per["metric"], per["signature"]) == ("PER", "nrefs:2|case:mixed|unit:symbol")
    assert per["a"]["mean"] == 0
    assert per["b"]["mean"] == pytest.approx(100 * 10 / 60)
    assert per["better"] == exact["better"] == "A"
    assert (exact["a"]["mean"], exact["b"]["mean"]) == (100, 50)
