"""A published model reveals nothing of the machine that trained it; `heedful doctor MODEL` says what others do."""

import json
import shutil
import socket
from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.runs.run_folders import same_bits

import heedful
from heedful.cli.main import run
from heedful.config.reading.places import PLACES, is_place, without_place

# Words that are nowhere else: folders, a user, a machine.
HOME, HOST, USER, TEACHER, OUT = "zanzibarhome", "kilimanjarohost", "quaggauser", "okapiteacher", "serengetiruns"
RECIPE = """
[data]
folder = "{folder}"
train = {{ source = "{folder}/train.en", target = "train.de" }}
valid = {{ source = "train.en", target = "{folder}/train.de" }}
test = {{ source = "{folder}/train.en", target = "train.de", references = ["{folder}/train.de"] }}
batch_tokens = 60
[model]
width = 8
heads = 2
layers = 1
inner = 8
[train]
steps = {steps}
checkpoint_every = 2
schedule = {{ kind = "constant", lr = 0.01 }}
device = "cpu"
precision = "float32"
threads = 1
log_every = 2
validation = {{ every = 2, metric = "bleu" }}
instruments = {{ every = 2 }}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of a user, with data, recipes, a teacher and its student, a run of two updates."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("machine") / HOME
        home.mkdir()
        for name, value in (("HOME", str(home)), ("HOSTNAME", HOST), ("LOGNAME", USER), ("USER", USER)):
            patch.setenv(name, value)
        patch.delenv("HEEDFUL_CACHE", raising=False)
        patch.delenv("XDG_CACHE_HOME", raising=False)
        patch.setattr(socket, "gethostname", lambda: HOST)
        for side in ("en", "de"):
            (home / f"train.{side}").write_text("".join(f"{side} {n} a b c\n" for n in range(20)))
        text = RECIPE.format(folder=home, steps=2)
        (home / "teacher.toml").write_text(text + '[tokenizer]\nkind = "word"\n')
        distill = f'distill = {{ teacher = "{home / TEACHER}" }}\n'
        (home / "student.toml").write_text(text + distill)
        (home / "longer.toml").write_text(RECIPE.format(folder=home, steps=4) + distill)
        assert run(["train", str(home / "teacher.toml"), "--out", str(home / TEACHER)]) == 0
        assert run(["train", str(home / "student.toml"), "--out", str(home / OUT / "student")]) == 0
    return home


@pytest.fixture
def student(home: Path) -> Path:
    return home / OUT / "student"


def publish(model: Path, folder: Path) -> Path:
    """Copy a model as docs/how-to/publish-a-model.md says."""
    folder.mkdir()
    for file in (*model.glob("*.json"), *model.glob("*.safetensors"), model / "README.md"):
        shutil.copy(file, folder)
    return folder


def test_a_published_model_has_no_word_of_the_machine_that_trained_it(
    home: Path, student: Path, tmp_path: Path
) -> None:
    published = publish(student, tmp_path / "published")
    assert sorted(path.name for path in published.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    words = [word.encode() for word in (HOME, HOST, USER, OUT, str(home.parent))]
    for file in published.iterdir():
        found = [word for word in words if word in file.read_bytes()]
        assert not found, file
    config = json.loads((published / "config.json").read_text())["recipe"]
    assert config["data"]["folder"] == ""
    assert config["data"]["test"][0]["references"] == ["train.de"]
    assert config["train"]["distill"]["teacher"] == TEACHER  # its name, not its place
    assert heedful.Translator.load(published, "cpu").translate(["en 1 a"])


def test_nor_have_its_run_and_its_report_but_for_the_file_that_is_there_for_them(home: Path, student: Path) -> None:
    words = [word.encode() for word in (HOME, HOST, USER, OUT)]
    files = [path for path in student.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"report.html", "metrics.jsonl", "instruments.jsonl", "samples.jsonl"}
    telling = [path.name for path in files if any(word in path.read_bytes() + path.name.encode() for word in words)]
    assert telling == [PLACES]
    assert json.loads((student / PLACES).read_text()) == {
        "data.folder": str(home),
        "data.train.0.source": f"{home}/train.en",
        "data.valid.0.target": f"{home}/train.de",
        "data.test.0.source": f"{home}/train.en",
        "data.test.0.references.0": f"{home}/train.de",
        "train.distill.teacher": f"{home / TEACHER}",
    }


def test_a_moved_run_is_evaluated_and_resumed_as_before(
    home: Path, student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(student, moved)
    capsys.readouterr()
    scores = []
    for model in (student, moved):
        assert run(["evaluate", str(model), "--device", "cpu", "--json"]) == 0
        scores.append(capsys.readouterr().out.partition('"seconds"')[0].replace(str(model), "MODEL"))
    assert scores[0] == scores[1]
    assert run(["train", str(home / "longer.toml"), "--out", str(moved), "--resume"]) == 0
    assert run(["train", str(home / "longer.toml"), "--out", str(tmp_path / "whole")]) == 0
    same_bits(tmp_path / "whole/model.safetensors", moved / "model.safetensors")


def test_the_doctor_lists_what_the_folder_of_a_run_would_reveal(
    home: Path, student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    capsys.readouterr()
    assert run(["doctor", str(student), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == str(student)
    assert found["files"] == ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    assert {PLACES, "checkpoints", "metrics.jsonl", "report.html"} <= set(found["others"])
    telling = [(finding["kind"], finding["file"]) for finding in found["findings"] if finding["severity"] == "warning"]
    assert telling == [("run", ""), ("name", PLACES), ("path", PLACES)]
    of_run = [finding["advice"] for finding in found["findings"] if finding["file"] == PLACES]
    assert of_run == ["It belongs to the run: leave it out."] * 2
    assert run(["doctor", str(student), "--strict"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"heedful: error: {student}: 3 warnings, listed in the report: mend them before publishing."
    )

    assert run(["doctor", str(student), "--quick"]) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: {student} is a model, but --set, --device, --precision and --quick are for recipes.\n"
    )

    published = publish(student, tmp_path / "published")
    assert run(["doctor", str(published), "--strict"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("A published model has README.md, config.json, model.safetensors, tokenizer.json.\n")
    assert "note     model: tokenizer.json has 29 pieces, learned from training data\n" in told
    assert "warning" not in told
    (data,) = told.partition("note     model: config.json has 3 names of files and folders\n")[2].splitlines()[1:2]
    assert data.strip() == f"“train.en, train.de, {TEACHER}”"
    (published / "config.json").write_text("[" * 100_000)  # what cannot be read has no names
    assert run(["doctor", str(published), "--strict"]) == 0
    assert "files and folders" not in capsys.readouterr().out


def test_the_doctor_finds_places_names_keys_and_addresses_in_any_model(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(student, tmp_path / "published")
    key = "AKIA" + "ABCDEFGH" * 2
    with (published / "README.md").open("a") as card:
        card.write(
            f"\nTrained by {USER} on {HOST}.\nPaths: /srv/secret/data and C:\\Users\\ann.\n{key} ann@example.org\n"
        )
    monkeypatch.setenv("LOGNAME", USER)
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    capsys.readouterr()
    assert run(["doctor", str(published), "--json"]) == 0
    found = [finding for finding in json.loads(capsys.readouterr().out)["findings"] if finding["file"] == "README.md"]
    assert [(finding["kind"], finding["severity"], finding["example"]) for finding in found] == [
        ("name", "warning", ""),
        ("path", "warning", "/srv/secret/data, C:\\Users"),
        ("key", "warning", key),
        ("address", "note", "ann@example.org"),
    ]
    assert found[0]["what"] == like(f"README.md has {HOST}, {USER}: names of this user or this machine")


def test_what_a_place_is() -> None:
    places = {"/a/b": "b", "~ann/b": "b", "C:\\a\\b": "b", "\\\\server\\share\\b": "b", "/a/b.zip:c/d": "b.zip:c/d"}
    assert {path: without_place(path) for path in places} == places
    for path in ("a/b", "../b", "~/a/b", "", "b.zip:c/d", "./b"):
        assert not is_place(path)
        assert without_place(path) == path


@pytest.mark.parametrize(
    "places", ["{", "[]", '{"data.folder": 3, "data.train.9.source": "/x", "a.b": "/y", "": "/z"}']
)
def test_a_damaged_file_of_places_is_as_good_as_none(student: Path, tmp_path: Path, places: str) -> None:
    published = publish(student, tmp_path / "published")
    (published / PLACES).write_text(places)
    model = heedful.load(published, device="cpu")
    assert model.recipe.data.folder == ""
