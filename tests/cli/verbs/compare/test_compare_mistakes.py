"""What `heedful compare` refuses."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.cli.verbs.compare import BleuTokenize
from heedful.config.decode import Evaluate
from heedful.config.recipe import Recipe
from heedful.models.bundle import read_description

Capture = pytest.CaptureFixture[str]
Texts = dict[str, Path]
Changed = Callable[..., Path]


def comparing(*arguments: str | int | Path) -> int:
    return run(["compare", "--device", "cpu", "--samples", "200", *map(str, arguments)])


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert comparing(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    errors = [line for line in shown.err.splitlines() if ": error: " in line]
    assert shown.err.splitlines()[-1:] == errors
    return errors[0].removeprefix("heedful: error: ")


def test_a_name_that_is_nothing_is_refused_with_both_readings(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, tmp_path / "nothing", texts["good"], "--target", texts["target"]) == like(
        f"{tmp_path / 'nothing'} is neither the folder of a ..."
    )


def test_a_folder_without_a_model_is_refused(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    given = ("--source", texts["source"], "--target", texts["target"])
    assert refused(capsys, tmp_path, texts["good"], *given) == like(
        f"{tmp_path} holds no config.json: a model is a folder that ..."
    )


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("x,,y", "A is `x,,y`, which has an empty name: put commas only between names."),
        ("", like("A is ``, which has an empty ...")),
        ("x,y,x", "A names x twice: the runs of a side must be different."),
    ],
)
def test_impossible_sides_are_refused(side: str, message: str, capsys: Capture) -> None:
    assert refused(capsys, side, "b") == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], like("--target is missing: ...")),
        (["--source", "x"], "--target is missing: sentences need references."),
        (
            ["--target", "x", "--split", "test"],
            "--split chooses among the corpora of the recipes: leave it out with --target.",
        ),
        (
            ["--target", "x", "--corpus", "y"],
            like("--corpus chooses among the corpora ... --target."),
        ),
        (["--target", "x", "--beam", "3"], "--beam is for models, but A and B are translations: leave it out."),
        (["--target", "x", "--to", "de"], like("--to is for models, but A and B ...")),
        (
            ["--target", "x", "--max-extra", "3"],
            like("--max-extra is for models, but A and B ..."),
        ),
        (["--target", "x", "--metric", "meteor"], "`meteor` is not a metric. Did you mean `ter`?"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], message: str, texts: Texts, capsys: Capture) -> None:
    assert refused(capsys, texts["poor"], texts["good"], *arguments) == message


def test_a_model_needs_sentences(reversing_folder: Path, texts: Texts, capsys: Capture) -> None:
    assert refused(capsys, texts["good"], reversing_folder, "--target", texts["target"]) == like(
        f"--source is missing: {reversing_folder} is a model, which needs ..."
    )
    assert refused(capsys, reversing_folder, reversing_folder, "--to", "de") == (
        "--to is for --source and --target: the corpora of the recipes have their own `to`."
    )


def test_unequal_numbers_of_lines_are_refused(texts: Texts, reversing_folder: Path, capsys: Capture) -> None:
    texts["good"].write_text("one\ntwo\n")
    assert refused(capsys, texts["poor"], texts["good"], "--target", texts["target"]) == like(
        f"{texts['good']} has 2 lines but there are 40 references: ..."
    )
    assert refused(capsys, reversing_folder, texts["good"]) == like(
        f"{texts['good']} has 2 lines but there are 40 references: ..."
    )
    texts["source"].write_text("eins\n")
    given = ("--source", texts["source"], "--target", texts["target"])
    assert refused(capsys, texts["poor"], texts["poor"], *given) == like(
        f"{texts['source']} has 1 line but {texts['target']} has 40: line n of one belongs to ..."
    )


def test_a_single_sentence_is_refused(texts: Texts, capsys: Capture) -> None:
    texts["target"].write_text("one\n")
    assert refused(capsys, texts["target"], texts["target"], "--target", texts["target"]) == like(
        "A comparison needs at ... there is only 1 reference."
    )


def test_a_missing_target_is_refused(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    message = refused(capsys, texts["poor"], texts["good"], "--target", tmp_path / "none")
    assert message == f"{tmp_path / 'none'}: no such file."
    assert refused(capsys, texts["poor"], texts["good"], "--target", "none") == "none: no such file."


def test_recipes_without_a_common_test_set_are_refused(
    reversing_folder: Path, changed: Changed, tmp_path: Path, capsys: Capture
) -> None:
    recipe: Recipe = read_description(reversing_folder)[0]
    shorter = changed("data", test=recipe.data.test[1:])
    message = refused(capsys, reversing_folder, shorter)
    assert message == (
        f"{reversing_folder} and {shorter} have different test sets "
        "(first.in + first.out and second: 40 and 10 pairs): choose one for both with --source and --target."
    )
    texts = shutil.copytree(recipe.data.folder, tmp_path / "texts")
    lines = (texts / "first.in").read_text().splitlines()
    (texts / "first.in").write_text("\n".join([*lines[:6], "hen", *lines[7:]]) + "\n")
    assert "pair 7 differs" in refused(capsys, reversing_folder, changed("data", folder=str(texts)))
    tagged = tuple(corpus.model_copy(update={"to": "de"}) for corpus in recipe.data.test)
    assert "`to` is `` and `de`" in refused(capsys, reversing_folder, changed("data", train=tagged[:1], test=tagged))


def test_a_recipe_without_the_corpus_is_refused(reversing_folder: Path, capsys: Capture) -> None:
    assert refused(capsys, reversing_folder, reversing_folder, "--split", "valid") == (
        f"{reversing_folder}: its recipe has no `data.valid`: give --source and --target."
    )
    assert refused(capsys, reversing_folder, reversing_folder, "--corpus", "secnd") == (
        f"{reversing_folder}: its recipe has no corpus `secnd` in `data.test`. Did you mean `second`?"
    )


def test_a_target_language_that_no_model_needs_is_refused(
    reversing_folder: Path, worse_folder: Path, texts: Texts, capsys: Capture
) -> None:
    given = ("--source", texts["source"], "--target", texts["target"], "--to", "de")
    assert refused(capsys, worse_folder, reversing_folder, *given) == like(
        "--to is `de`, but none of the models ... --to."
    )


def test_models_of_different_tokenizers_need_one(reversing_folder: Path, changed: Changed, capsys: Capture) -> None:
    other = changed("evaluate", bleu_tokenize="char")
    assert refused(capsys, reversing_folder, other) == (
        f"{reversing_folder} is scored with BLEU's tokenizer `13a` but {other} with `char`: choose one for both with "
        "--bleu-tokenize."
    )
    assert comparing(reversing_folder, other, "--bleu-tokenize", "char", "--corpus", "second") == 0
    assert "tok:char" in capsys.readouterr().out


def test_models_of_different_forms_are_refused(
    reversing_folder: Path, changed: Changed, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "in").write_text("ant bee\ncat dog eel\n")
    (tmp_path / "out").write_text("bee ant\nEel dog cat\n")
    low = changed("data", lowercase=True)
    assert refused(capsys, reversing_folder, low, "--source", tmp_path / "in", "--target", tmp_path / "out") == (
        f"{reversing_folder} and {low} are scored against different references (first at line 2), because "
        "`data.lowercase`, `data.nfc` or `evaluate.detokenize` of their recipes differ: write their translations "
        "to files in the same form, and compare those with --target."
    )


def test_the_tokenizers_of_the_option_are_those_of_recipes() -> None:
    assert get_args(BleuTokenize) == get_args(Evaluate.model_fields["bleu_tokenize"].annotation)
