"""`heedful tag` as a user sees it, and what `heedful evaluate` says of a tagger."""

import io
import json
import sys
from pathlib import Path

import pytest
from tests.models.text import classifier_recipe, fresh_classifier, written
from tests.shared.taggers import fresh_tagger, tagger_recipe, trained_tagger

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
TEXT = "the old dog sees a cat ."
LINES = "the\tB-NP\nold\tI-NP\ndog\tI-NP\nsees\tO\na\tB-NP\ncat\tI-NP\n.\tO\n"


@pytest.fixture(scope="module")
def phrases(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_tagger(tmp_path_factory.mktemp("tagger"), {"crf": True})


def tag(model: Path, *arguments: str | Path) -> int:
    return run(["tag", str(model), "--device", "cpu", *map(str, arguments)])


def refused(capsys: Capture) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("heedful: error: ")


def test_each_word_is_a_line_and_a_blank_line_follows_a_sentence(phrases: Path, capsys: Capture) -> None:
    assert tag(phrases, "--text", TEXT, "--text", "", "--text", TEXT) == 0
    assert capsys.readouterr().out == f"{LINES}\n\n{LINES}\n"


def test_files_and_standard_input_are_read_line_by_line(
    phrases: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text(f"{TEXT}\n{TEXT}\n")
    assert tag(phrases, tmp_path / "in.txt", "-o", tmp_path / "out.txt") == 0
    assert (tmp_path / "out.txt").read_text() == f"{LINES}\n{LINES}\n"
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{TEXT}\n".encode())))
    assert tag(phrases) == 0
    assert capsys.readouterr().out == f"{LINES}\n"


def test_json_has_words_labels_probabilities_and_spans(phrases: Path, tmp_path: Path, capsys: Capture) -> None:
    assert tag(phrases, "--json", TEXT, "--text", "sees") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["words"] == TEXT.split()
    assert len(first["probabilities"]) == len(first["labels"]) == 7
    assert first["spans"][0] == {"type": "NP", "start": 0, "end": 3, "text": "the old dog"}
    assert "spans" in second, "even where a sentence has none"
    speech = written(fresh_tagger(tagger_recipe(tmp_path), ("DT", "NN")), tmp_path / "speech")
    assert tag(speech, "--json", TEXT) == 0
    assert "spans" not in json.loads(capsys.readouterr().out)


def test_a_model_of_another_task_is_refused(tmp_path: Path, capsys: Capture) -> None:
    films = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "films")
    assert tag(films, TEXT) == 2
    assert refused(capsys) == f"{films} is a model that classifies: use `heedful classify`."


def test_evaluate_shows_accuracy_and_the_scores_of_spans(phrases: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(phrases), "--device", "cpu", "--outputs", str(tmp_path / "said.txt")]) == 0
    shown = capsys.readouterr().out
    for part in ("accuracy ", "words; 95% interval", "of 40 true spans", "type  precision", "NP  "):
        assert part in shown
    word, true, said = (tmp_path / "said.txt").read_text().splitlines()[0].split("\t")
    assert (word in ("a", "the"), true, said) == (True, "B-NP", "B-NP")
    assert run(["evaluate", str(phrases), "--device", "cpu", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["corpora"]
    assert {"accuracy", "precision", "recall", "f1", "loss", "types", "labels", "words", "sentences"} <= found.keys()
    assert [row["label"] for row in found["labels"]] == ["B-NP", "I-NP", "O"]


def test_evaluate_reads_words_and_labels_from_two_files(phrases: Path, tmp_path: Path, capsys: Capture) -> None:
    words, labels = tmp_path / "words", tmp_path / "labels"
    words.write_text("the dog\na cat\n")
    labels.write_text("B-NP I-NP\nB-NP\n")
    arguments = ["evaluate", str(phrases), "--device", "cpu", "--source", str(words), "--target", str(labels)]
    assert run(arguments) == 2
    assert refused(capsys) == f"{labels}, line 2 has 2 words but 1 label: each word needs one."
    labels.write_text("B-NP I-NP\nB-NP I-VP\n")
    assert run(arguments) == 2
    assert "line 2 has the label `I-VP`, which is not a label of the model. Did you mean `I-NP`?" in refused(capsys)
    labels.write_text("B-NP I-NP\nO I-NP\n")
    assert run(arguments) == 0
    assert "1 sentence with true labels that break the rules, the first at" in capsys.readouterr().out


def test_training_warns_of_labels_that_the_rules_forbid(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.conll").write_text("the\tB-NP\ndog\tI-NP\n\nsees\tO\ncat\tI-NP\n")
    (tmp_path / "r.toml").write_text(
        f'[data]\nfolder = "{tmp_path}"\ntrain = {{ conll = "t.conll" }}\n[tokenizer]\nkind = "word"\n'
        '[model]\nfamily = "tagger"\nencoder = { family = "recurrent", width = 4 }\ncrf = true\n'
        '[train]\nsteps = 1\ndevice = "cpu"\nprecision = "float32"\n'
    )
    assert run(["train", str(tmp_path / "r.toml"), "--out", str(tmp_path / "run")]) == 0
    assert (
        "warning: t.conll, line 5: sentences whose labels BIO forbids: 1 of 2; the first: I-NP follows O, which BIO "
        "forbids." in capsys.readouterr().err
    )
