"""`heedful compare` as a user sees it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import sacrebleu
import torch

from heedful.cli.main import run
from heedful.cli.reports.comparison import statement, text_of
from heedful.cli.verbs.compare import BleuTokenize
from heedful.config.decode import Evaluate
from heedful.config.recipe import Recipe
from heedful.lab import translate_test_set
from heedful.lab.compare import Comparison, System, compare
from heedful.metrics.significance import Bootstrap, Welch
from heedful.models.bundle import read_bundle, read_description, write_description, write_weights
from heedful.tasks.translate.evaluation import Evaluation, evaluate
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
Texts = dict[str, Path]
Changed = Callable[..., Path]


def comparing(*arguments: str | int | Path) -> int:
    return run(["compare", "--device", "cpu", "--samples", "200", *map(str, arguments)])


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    """A source, its references and two systems, the second of which is better."""
    lines = {
        "source": "eins zwei drei vier fünf\nsechs sieben acht neun zehn\nelf zwölf dreizehn vierzehn\nfünfzehn",
        "target": "one two three four five\nsix seven eight nine ten\neleven twelve thirteen fourteen\nfifteen",
        "poor": "one two three\nsix seven\neleven twelve\nfifty",
        "good": "one two three four five\nsix seven eight nine ten\neleven twelve thirteen forty\nfifteen",
    }
    made = {name: tmp_path / f"{name}.txt" for name in lines}
    for name, path in made.items():
        path.write_text((lines[name] + "\n") * 10)
    return made


@pytest.fixture(scope="module")
def worse_folder(reversing_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of `reversing_folder` with noise in its weights."""
    folder = shutil.copytree(reversing_folder, tmp_path_factory.mktemp("worse") / "model")
    model = read_bundle(folder).model
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    write_weights(folder, model)
    return folder


@pytest.fixture
def changed(reversing_folder: Path, tmp_path: Path) -> Changed:
    """Copies the model of `reversing_folder` with other settings in a section of its recipe."""

    def make(section: str, **settings: object) -> Path:
        folder = shutil.copytree(reversing_folder, tmp_path / f"changed {len(list(tmp_path.glob('changed*')))}")
        recipe, tokenizers = read_description(folder)
        of_section = getattr(recipe, section).model_copy(update=settings)
        write_description(folder, recipe.model_copy(update={section: of_section}), tokenizers)
        return folder

    return make


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_are_compared_in_readable_tables(texts: Texts, capsys: Capture) -> None:
    assert comparing(texts["poor"], texts["good"], "--source", texts["source"], "--target", texts["target"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    blocks = shown.out.rstrip("\n").split("\n\n")
    assert blocks[0].splitlines() == [
        f"A  {texts['poor']}",
        f"B  {texts['good']}",
        f"40 sentences of {texts['source']} + {texts['target']}; 200 draws a test, seed 12345",
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
    assert blocks[-1].endswith("over 40 sentences and one run a side. chrF agrees.")
    assert max(len(line) for block in blocks[1:-1] for line in block.splitlines()) <= 80


def test_everything_is_in_one_json_object(texts: Texts, capsys: Capture) -> None:
    arguments = ("--target", texts["target"], "--metric", "ter", "--metric", "bleu", "--examples", 2, "--seed", 7)
    assert comparing(texts["poor"], texts["good"], *arguments, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    references = texts["target"].read_text().splitlines()
    poor, good = (System(str(texts[name]), tuple(texts[name].read_text().splitlines())) for name in ("poor", "good"))
    expected = compare([poor], [good], references, metrics=["ter", "bleu"], samples=200, seed=7, examples=2)
    parts = "a b sentences samples seed metrics lengths words frequencies_of better_a better_b"
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
        "over 40 sentences and one run a side: these data cannot tell A from B. chrF agrees."
    )


def test_files_are_compared_without_loading_torch(texts: Texts) -> None:
    arguments = ["compare", str(texts["poor"]), str(texts["good"]), "--target", str(texts["target"])]
    code = (
        f"import sys\nfrom heedful.cli.main import run\nassert run({arguments}) == 0\nassert 'torch' not in sys.modules"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr


def test_on_a_terminal_long_lines_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    systems = [
        System(f"runs/a-name-that-leaves-no-room-for-another-one-{n}", (f"{n} " + "word " * (20 + n), f"run {n}", ""))
        for n in range(4)
    ]
    references = ["word " * 31, "run 2", "x"]
    found = compare(systems[:2], systems[2:], references, metrics=["bleu", "chrf", "ter"], samples=100)
    lines = text_of(found, "a test set").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("   runs/")
    assert any(line.startswith("  A 1 of 2   0 word word") for line in lines)
    assert any(line.startswith(" " * 13 + "word") for line in lines)


# --- the statement ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome() -> Comparison:
    """A comparison by BLEU alone that found B to be better."""
    a, b = System("a", ("x y z w",) * 2), System("b", ("a b c d",) * 2)
    found = compare([a], [b], ["a b c d"] * 2, metrics=["bleu"], samples=100)
    sure = replace(found.metrics[0], difference=1.234, bootstrap=Bootstrap(0.4, 2.1, 0.004), p_randomisation=0.006)
    return replace(found, metrics=(sure,), sentences=1000)


def test_the_statement_is_plain(outcome: Comparison) -> None:
    assert statement(outcome) == (
        "B is better than A: +1.23 BLEU (95% interval +0.40 to +2.10), p = 0.004 by bootstrap, 0.006 by randomisation, "
        "over 1,000 sentences and one run a side."
    )


def test_the_statement_speaks_of_the_better_side(outcome: Comparison) -> None:
    (sure,) = outcome.metrics
    turned = replace(sure, difference=-1.234, bootstrap=Bootstrap(-2.1, -0.4, 0.004), welch=Welch(-5, 3.5, 0.00012))
    runs = replace(outcome, metrics=(turned,), a=("1", "2", "3"), b=("4", "5", "6"))
    assert statement(runs) == (
        "A is better than B: +1.23 BLEU (95% interval +0.40 to +2.10), p = 0.004 by bootstrap, 0.006 by randomisation, "
        "0.0001 by Welch's t-test over the runs, over 1,000 sentences and 3 runs a side."
    )


def test_the_statement_says_where_lower_is_better_and_what_other_metrics_find(outcome: Comparison) -> None:
    (sure,) = outcome.metrics
    ter = replace(sure, metric="TER", lower_is_better=True)
    unsure = replace(sure, metric="chrF", p_randomisation=0.3)
    several = replace(outcome, metrics=(ter, sure, unsure), a=("1",), b=("2", "3"))
    assert statement(several) == (
        "A is better than B: -1.23 TER (95% interval -2.10 to -0.40; lower is better), p = 0.004 by bootstrap, "
        "0.006 by randomisation, over 1,000 sentences and 1 run of A, 2 of B. BLEU finds B better. chrF finds no real "
        "difference."
    )
    assert statement(replace(outcome, metrics=(unsure,))).endswith(
        "p = 0.004 by bootstrap, 0.300 by randomisation, over 1,000 sentences and one run a side: "
        "these data cannot tell A from B."
    )


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
    assert "over 40 sentences and 2 runs a side" in blocks[-1]


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
    def cutting(*arguments: Any, **options: Any) -> Evaluation:
        return replace(evaluate(*arguments, **options), cut=3)

    monkeypatch.setattr(translate_test_set, "evaluate", cutting)
    assert comparing(reversing_folder, reversing_folder, "--corpus", "second") == 0
    told = f"heedful: {reversing_folder}: 3 translations were cut at the maximum length: raise --max-extra."
    assert told in capsys.readouterr().err.splitlines()


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert comparing(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    errors = [line for line in shown.err.splitlines() if ": error: " in line]
    assert shown.err.splitlines()[-1:] == errors
    return errors[0].removeprefix("heedful: error: ")


def test_a_name_that_is_nothing_is_refused_with_both_readings(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, tmp_path / "nothing", texts["good"], "--target", texts["target"]) == (
        f"{tmp_path / 'nothing'} is neither a model's folder nor a file of translations: nothing has that name."
    )


def test_a_folder_without_a_model_is_refused(texts: Texts, tmp_path: Path, capsys: Capture) -> None:
    given = ("--source", texts["source"], "--target", texts["target"])
    assert refused(capsys, tmp_path, texts["good"], *given) == (
        f"{tmp_path} holds no config.json: a model is a folder that `heedful train` wrote."
    )


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("x,,y", "A is `x,,y`, which has an empty name: put commas between names alone."),
        ("", "A is ``, which has an empty name: put commas between names alone."),
        ("x,y,x", "A names x twice: several runs of a side must be different ones."),
    ],
)
def test_impossible_sides_are_refused(side: str, message: str, capsys: Capture) -> None:
    assert refused(capsys, side, "b") == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--target is missing: files of translations need references."),
        (["--source", "x"], "--target is missing: sentences need references."),
        (
            ["--target", "x", "--split", "test"],
            "--split chooses among the recipes' corpora: leave it out beside --target.",
        ),
        (
            ["--target", "x", "--corpus", "y"],
            "--corpus chooses among the recipes' corpora: leave it out beside --target.",
        ),
        (["--target", "x", "--beam", "3"], "--beam is for models, but A and B are files: leave it out."),
        (["--target", "x", "--to", "de"], "--to is for models, but A and B are files: leave it out."),
        (["--target", "x", "--max-extra", "3"], "--max-extra is for models, but A and B are files: leave it out."),
        (["--target", "x", "--metric", "meteor"], "`meteor` is not a metric. Did you mean `ter`?"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], message: str, texts: Texts, capsys: Capture) -> None:
    assert refused(capsys, texts["poor"], texts["good"], *arguments) == message


def test_a_model_needs_sentences(reversing_folder: Path, texts: Texts, capsys: Capture) -> None:
    assert refused(capsys, texts["good"], reversing_folder, "--target", texts["target"]) == (
        f"--source is missing: {reversing_folder} is a model, which needs sentences to translate."
    )
    assert refused(capsys, reversing_folder, reversing_folder, "--to", "de") == (
        "--to is for --source and --target: the recipes' corpora have their own `to`."
    )


def test_unequal_numbers_of_lines_are_refused(texts: Texts, reversing_folder: Path, capsys: Capture) -> None:
    texts["good"].write_text("one\ntwo\n")
    assert refused(capsys, texts["poor"], texts["good"], "--target", texts["target"]) == (
        f"{texts['good']} has 2 lines but there are 40 references: line n must translate sentence n."
    )
    assert refused(capsys, reversing_folder, texts["good"]) == (
        f"{texts['good']} has 2 lines but there are 40 references: line n must translate sentence n."
    )
    texts["source"].write_text("eins\n")
    given = ("--source", texts["source"], "--target", texts["target"])
    assert refused(capsys, texts["poor"], texts["poor"], *given) == (
        f"{texts['source']} has 1 lines but {texts['target']} has 40: line n of one belongs to line n of the other."
    )


def test_a_single_sentence_is_refused(texts: Texts, capsys: Capture) -> None:
    texts["target"].write_text("one\n")
    assert refused(capsys, texts["target"], texts["target"], "--target", texts["target"]) == (
        "A comparison needs two sentences at least, but the references have 1."
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
    assert "pair 7 is another" in refused(capsys, reversing_folder, changed("data", folder=str(texts)))
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
    assert refused(capsys, worse_folder, reversing_folder, *given) == (
        "--to is `de`, but no model here knows several target languages: leave out --to."
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
        f"{reversing_folder} and {low} are scored against different texts (line 2 is the first), as their recipes' "
        "`data.lowercase`, `data.nfc` or `evaluate.detokenize` differ: write their translations into files in one "
        "form, and compare these with --target."
    )


def test_the_tokenizers_of_the_option_are_those_of_recipes() -> None:
    assert get_args(BleuTokenize) == get_args(Evaluate.model_fields["bleu_tokenize"].annotation)
