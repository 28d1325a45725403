"""Models of several target languages, and of lowercased, tokenized text, from the command line alone."""

import io
import json
import random
import sys
from pathlib import Path

import pytest
import sacrebleu
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.data.text_form import join_words, split_words
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]

WORDS = {
    "ant": {"de": "Ameise", "fr": "fourmi"},
    "bee": {"de": "Biene", "fr": "abeille"},
    "cat": {"de": "Katze", "fr": "chat"},
    "dog": {"de": "Hund", "fr": "chien"},
    "eel": {"de": "Aal", "fr": "anguille"},
    ",": {"de": ",", "fr": ","},
}


def sentences(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(list(WORDS), k=chance.randint(1, 4))) for _ in range(count)]


def in_words_of(language: str, sentence: str) -> str:
    return " ".join(WORDS[word][language] for word in sentence.split())


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


TRAINING = """
batch_tokens = 400
[tokenizer]
kind = "word"
[model]
width = 32
heads = 2
layers = 1
inner = 64
dropout = 0.0
norm = "pre"
[train]
steps = 220
label_smoothing = 0.0
clip_norm = 1.0
schedule = { kind = "linear", lr = 0.01, warmup = 30 }
precision = "float32"
device = "cpu"
threads = 1
checkpoint_every = 10
average = { last = 2 }
validation = { every = 100, metric = "bleu" }
[decode]
max_extra = 4
"""


def train(folder: Path, recipe: str) -> Path:
    """Train from the command line; the model's folder."""
    (folder / "recipe.toml").write_text(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        assert run(["train", str(folder / "recipe.toml"), "--out", str(folder / "model")]) == 0
    return folder / "model"


# --- two target languages ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two languages that learned every word of both; its test corpora have names."""
    folder = tmp_path_factory.mktemp("both")
    for part, count in (("train", 500), ("test", 20)):
        lines = sentences(count, seed=count)
        write(folder / f"{part}.en", lines)
        for language in ("de", "fr"):
            write(folder / f"{part}.{language}", [in_words_of(language, line) for line in lines])

    def corpora(part: str) -> str:
        """The two corpora of a part; those of the test have the name of their language."""
        name = 'name = "{to}", ' if part == "test" else ""
        corpus = f'{{{{ {name}source = "{part}.en", target = "{part}.{{to}}", to = "{{to}}" }}}}'
        return f"[{corpus.format(to='de')}, {corpus.format(to='fr')}]"

    train_set, test_set = corpora("train"), corpora("test")
    data = f'[data]\nfolder = "{folder}"\ntrain = {train_set}\nvalid = {test_set}\ntest = {test_set}'
    return train(folder, data + TRAINING)


def translate(model: Path, *arguments: str | Path) -> int:
    return run(["translate", str(model), "--device", "cpu", *map(str, arguments)])


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a text on standard input, which has no file descriptor then."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_what_comes_before_a_line_without_a_tag_is_translated(both: Path, tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "in", ["<2de> dog", "<2fr> cat", "ant", "<2de> bee"])
    assert translate(both, tmp_path / "in") == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["Hund", "chat"]
    assert f"{tmp_path}/in, line 3 does not say its target language" in shown.err


@pytest.mark.parametrize(
    ("to", "lines"), [("de", ["Hund Katze", "Biene , Aal"]), ("fr", ["chien chat", "abeille , anguille"])]
)
def test_the_target_language_is_asked_for(
    both: Path, tmp_path: Path, capsys: Capture, to: str, lines: list[str]
) -> None:
    write(tmp_path / "in", ["dog cat", "", "bee , eel"])
    assert translate(both, tmp_path / "in", "--to", to) == 0
    assert capsys.readouterr().out.splitlines() == [lines[0], "", lines[1]]


def test_lines_may_begin_with_their_tag(both: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    type_in(monkeypatch, "<2fr> dog cat\n<2de>dog cat\n\n  <2fr> eel\n")
    assert translate(both) == 0
    assert capsys.readouterr().out.splitlines() == ["chien chat", "Hund Katze", "", "anguille"]


def refused(capsys: Capture, code: int) -> str:
    assert code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("heedful: error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


def test_a_line_without_a_language_is_refused(both: Path, tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "in", ["dog cat", "<2de> bee"])
    message = refused(capsys, translate(both, tmp_path / "in"))
    assert message == like(f"{tmp_path}/in, line 1 does not say its target ... <2de>, <2fr>, or use `--to`.")
    write(tmp_path / "in", ["<2cs> dog cat"])
    message = refused(capsys, translate(both, tmp_path / "in"))
    assert message == f"{tmp_path}/in, line 1: <2cs> is not in the vocabulary: it has <2de>, <2fr>."


def test_a_language_that_the_model_does_not_have_is_refused(both: Path, tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "in", ["dog cat"])
    message = refused(capsys, translate(both, tmp_path / "in", "--to", "cs"))
    assert message == "<2cs> is not in the vocabulary: it has <2de>, <2fr>."


def test_raw_text_is_refused_by_a_model_of_ordinary_text(both: Path, tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "in", ["dog cat"])
    message = refused(capsys, translate(both, tmp_path / "in", "--to", "de", "--raw"))
    assert message == like("`raw` is for models of ...")


def test_every_language_is_scored(both: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """All corpora have names, so all figures have: the run tells its minutes beside them."""
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", str(both), "--device", "cpu", "--json", "--record", "both"]) == 0
    corpora = json.loads(capsys.readouterr().out)["corpora"]
    assert [corpus["name"] for corpus in corpora] == ["de", "fr"]
    model = Translator.load(both, "cpu")
    sources = (both.parent / "test.en").read_text().splitlines()
    for corpus, to in zip(corpora, ("de", "fr"), strict=True):
        references = (both.parent / f"test.{to}").read_text().splitlines()
        assert corpus["bleu"]["score"] == sacrebleu.corpus_bleu(model.translate(sources, to=to), [references]).score
        assert corpus["bleu"]["score"] > 60
    figures = json.loads((tmp_path / "benchmarks/results/both.json").read_text())["figures"]
    metrics = ("bleu", "chrf", "exact_match", "perplexity")
    assert list(figures) == [f"{metric}_{to}" for to in ("de", "fr") for metric in metrics] + [
        "minutes",
        "steps",
        "tokens_s",
    ]
    assert 0 < figures["minutes"] < 2
    assert figures["steps"] == 220
    assert figures["tokens_s"] > 0


def test_own_files_are_scored_with_their_language(both: Path, capsys: Capture) -> None:
    files = ("--source", str(both.parent / "test.en"), "--target", str(both.parent / "test.fr"))
    assert run(["evaluate", str(both), "--device", "cpu", "--json", *files, "--to", "fr"]) == 0
    right = json.loads(capsys.readouterr().out)["corpora"][0]
    assert run(["evaluate", str(both), "--device", "cpu", "--json", *files, "--to", "de"]) == 0
    wrong = json.loads(capsys.readouterr().out)["corpora"][0]
    assert right["bleu"]["score"] > 60 > 40 > wrong["bleu"]["score"]
    message = refused(capsys, run(["evaluate", str(both), "--device", "cpu", *files]))
    assert message.startswith(f"{files[1]} + {files[3]}, line 1 does not say its target")


def test_a_language_is_for_files_of_ones_own(both: Path, capsys: Capture) -> None:
    assert refused(capsys, run(["evaluate", str(both), "--to", "de"])) == like("--to is for --source and ...")


def test_validation_knows_the_languages(both: Path) -> None:
    """BLEU over both, each behind its own tag; the card shows how to ask for a language."""
    entries = [json.loads(line) for line in (both / "metrics.jsonl").read_text().splitlines()]
    assert [entry["bleu"] > 50 for entry in entries if entry["part"] == "valid"][-1]
    card = (both / "README.md").read_text()
    assert f"heedful translate {both.name} --to de < text.txt" in card
    assert 'model.translate(["..."], to="de")' in card


# --- lowercased, tokenized text ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of lowercased and tokenized text whose files are neither lowercased nor without commas."""
    folder = tmp_path_factory.mktemp("lower")
    for part, count in (("train", 500), ("test", 20)):
        lines = sentences(count, seed=count)
        write(folder / f"{part}.en", [line.title() for line in lines])
        write(folder / f"{part}.de", [in_words_of("de", line) for line in lines])
    files = {part: f'{{ source = "{part}.en", target = "{part}.de" }}' for part in ("train", "test")}
    return train(
        folder,
        f'[data]\nfolder = "{folder}"\ntrain = {files["train"]}\nvalid = {files["test"]}\ntest = {files["test"]}\n'
        f'lowercase = true\ntokenized = {{ source = "en", target = "de" }}{TRAINING}[evaluate]\ndetokenize = true\n',
    )


def test_ordinary_text_goes_in_and_out(lower: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    type_in(monkeypatch, "Dog, CAT\n\neel, ant\n")
    assert translate(lower, "--raw") == 0
    assert capsys.readouterr().out.splitlines() == ["hund, katze", "", "aal, ameise"]
    type_in(monkeypatch, "Dog , CAT\n")
    assert translate(lower) == 0
    assert capsys.readouterr().out == "hund , katze\n"


def test_raw_translation_is_splitting_translating_and_joining(lower: Path) -> None:
    model = Translator.load(lower, "cpu")
    texts = ["Dog, cat, EEL", "An unknown word, bee.", "ant"]
    by_hand = model.translate([split_words(text, "en").lower() for text in texts])
    assert model.translate(texts, raw=True) == [join_words(text, "de") for text in by_hand]


def test_ordinary_text_is_scored_without_case(lower: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(lower), "--device", "cpu", "--json", "--output", str(tmp_path / "out.txt")]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["corpora"]
    outputs = (tmp_path / "out.txt").read_text().splitlines()
    references = [join_words(line, "de") for line in (lower.parent / "test.de").read_text().lower().splitlines()]
    assert scored["bleu"]["score"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert "|case:lc|" in scored["bleu"]["signature"]
    assert not any(" ," in output for output in outputs[1:] if not output.startswith(","))
    assert any("," in output for output in outputs)
