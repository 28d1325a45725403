"""`heedful publish` as a user sees it: what it writes reveals nothing, and what it uploads is what it wrote."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.answering.batch_jobs import BUNDLES, told
from tests.shared.patience import PATIENCE
from tests.shared.refusals import like

import heedful
from heedful.cli.main import run
from heedful.config.reading.places import PLACES

Capture = pytest.CaptureFixture[str]
HOST, USER, HOME = "kilimanjarohost", "quaggauser", "/home/quaggauser"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of an earlier version, with paths in its recipe, on a machine with a name."""
    monkeypatch.setenv("LOGNAME", USER)
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    folder = tmp_path / "run"
    shutil.copytree(BUNDLES / "transformer", folder)
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["data"]["train"][0]["source"] = f"{HOME}/corpora/train.en"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / PLACES).write_text(json.dumps({"data.train.0.target": f"{HOME}/corpora/train.de"}))
    (folder / "checkpoints").mkdir()
    (folder / "metrics.jsonl").write_text(f'{{"host": "{HOST}"}}\n')
    return folder


def publish(model: Path, out: Path, *words: str | Path) -> int:
    return run(["publish", str(model), "-o", str(out), *map(str, words)])


def header_of(folder: Path) -> dict[str, Any]:
    _, header, _ = (folder / "README.md").read_text().split("---\n", 2)
    found = pytest.importorskip("yaml").safe_load(header)
    assert isinstance(found, dict)
    return found


def test_a_prepared_folder_is_the_model_without_anything_of_its_machine(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "de-en"
    assert publish(model, out, "--license", "apache-2.0", "--lang", "en, de", "--tags", "multi30k,tiny") == 0
    said = capsys.readouterr()
    assert said.out == f"{out} is ready to be published: README.md, config.json, model.safetensors, tokenizer.json\n"
    assert "config.json has 4 names of files and folders (train.en, train.de, valid.en, …). " in said.err
    assert "licence" not in said.err
    assert sorted(path.name for path in out.iterdir()) == said.out.split(": ")[1].strip().split(", ")
    for path in out.iterdir():
        assert not [word for word in (HOST, USER, HOME, str(tmp_path)) if word.encode() in path.read_bytes()]
    assert run(["doctor", str(out), "--strict"]) == 0
    assert header_of(out) == {
        "license": "apache-2.0",
        "language": ["en", "de"],
        "library_name": "heedful",
        "pipeline_tag": "translation",
        "tags": ["heedful", "translate", "transformer", "multi30k", "tiny"],
    }
    card = (out / "README.md").read_text()
    assert "# de-en\n" in card
    assert "    heedful translate de-en < text.txt\n" in card
    assert '    model = heedful.load("de-en")\n    model.translate(["..."])\n' in card
    original = heedful.Translator.load(BUNDLES / "transformer", "cpu").translate(["a dog"])
    assert heedful.Translator.load(out, "cpu").translate(["a dog"]) == original


def test_a_prepared_folder_is_prepared_again_with_one_header(model: Path, tmp_path: Path) -> None:
    assert publish(model, tmp_path / "one", "--license", "mit") == 0
    assert publish(tmp_path / "one", tmp_path / "two", "--license", "cc-by-4.0") == 0
    assert header_of(tmp_path / "two")["license"] == "cc-by-4.0"
    assert (tmp_path / "two/README.md").read_text().count("---\n") == 2
    assert '    model = heedful.load("two")\n' in (tmp_path / "two/README.md").read_text()


@pytest.mark.parametrize(
    ("bundle", "pipeline"),
    [("classifier-bag", "text-classification"), ("images-vit", "image-classification"), ("parser", None)],
)
def test_the_header_names_the_task_where_hubs_have_it(bundle: str, pipeline: str | None, tmp_path: Path) -> None:
    assert publish(BUNDLES / bundle, tmp_path / "x", "--json") == 0
    assert header_of(tmp_path / "x").get("pipeline_tag") == pipeline


def test_a_licence_of_ones_own_and_a_model_without_a_card(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "terms.txt").write_text("Do as you like: see https://example.org/terms/of/use.\n")
    (model / "README.md").unlink()
    (model / "shortlist.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    out = tmp_path / "out"
    assert publish(model, out, "--license", "other", "--license-file", tmp_path / "terms.txt", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    bundle = ["README.md", "config.json", "model.safetensors", "shortlist.safetensors", "tokenizer.json"]
    assert found["files"] == ["LICENSE", *bundle]
    assert (found["folder"], found["address"]) == (str(out), None)
    assert (out / "LICENSE").read_text() == (tmp_path / "terms.txt").read_text()
    assert (header_of(out)["license"], header_of(out)["license_link"]) == ("other", "LICENSE")
    assert (out / "README.md").read_text().endswith("# out\n\nA model that translates, made with Heedful.\n")


def test_without_a_licence_there_is_a_warning(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert publish(model, tmp_path / "out") == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "heedful: warning: the card has no licence, without which others may not use the model: add --license."
    )


def test_what_names_the_machine_elsewhere_is_refused(model: Path, tmp_path: Path, capsys: Capture) -> None:
    with (model / "README.md").open("a") as card:
        card.write(f"\nTrained on {HOST} from /srv/secret/data alone.\n")
    out = tmp_path / "out"
    assert publish(model, out) == 2
    assert told(capsys) == (
        f"{model} would reveal something private: README.md has {HOST}: names of this user or this machine, and 1 more "
        f"finding. `heedful doctor {model}` lists all of it; --despite-warnings publishes it all the same."
    )
    assert not out.exists()
    assert publish(model, out, "--despite-warnings", "--license", "mit") == 0
    assert "1 paths of a machine (/srv/secret/data). Replace it by hand" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--license", "apache2"),
            "`apache2` is not a licence that hubs know: use an identifier such as apache-2.0, mit or cc-by-4.0, or "
            "`other` with --license-file. Did you mean `apache-2.0`?",
        ),
        (
            ("--license", "other"),
            "The licence `other` says nothing by itself: add its text, by --license-file FILE.",
        ),
        (
            ("--license-file", "terms.txt"),
            "--license-file has the text of a licence: name it too, by --license (or `other`).",
        ),
        (("--license", "mit", "--license-file", "nowhere.txt"), "nowhere.txt: no such file..."),
        (
            ("--lang", "de,german"),
            "--lang: `german` is not the code of a language: use one such as de, en or pt-BR.",
        ),
        (
            ("--private",),
            "--private is for models that are uploaded: add --upload USER/NAME, or leave it out.",
        ),
        (
            ("--upload", "model"),
            "--upload is `model`, but must be USER/NAME, a name on the hub such as ann/de-en.",
        ),
    ],
)
def test_what_cannot_be_published_is_refused_in_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: Capture
) -> None:
    assert publish(BUNDLES / "transformer", tmp_path / "out", *words) == 2
    assert told(capsys) == like(message)
    assert not (tmp_path / "out").exists()


def test_folders_that_are_used_or_hold_no_model_are_refused(model: Path, tmp_path: Path, capsys: Capture) -> None:
    assert publish(model, model) == 2
    assert told(capsys) == like(f"{model} already holds a model: ...")
    assert publish(tmp_path / "nowhere", tmp_path / "out") == 2
    assert "nowhere" in told(capsys)
    (model / "model.safetensors").write_bytes(b"damaged")
    assert publish(model, tmp_path / "out") == 2
    assert "model.safetensors" in told(capsys)
    assert not (tmp_path / "out").exists()


# --- upload -----------------------------------------------------------------------------------------------------------


class FakeHub:
    """Stands for huggingface_hub: keeps what it is asked."""

    def __init__(self, token: str | None, fault: Exception | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._token, self._fault = token, fault

    def get_token(self) -> str | None:
        return self._token

    def HfApi(self, token: str) -> "FakeHub":
        assert token == self._token
        return self

    def create_repo(self, name: str, **options: Any) -> str:
        self.asked.append(("create_repo", {"name": name, **options}))
        if self._fault is not None:
            raise self._fault
        return f"https://hub.example.org/{name}"

    def upload_folder(self, **options: Any) -> None:
        self.asked.append(("upload_folder", options))


def test_nothing_is_uploaded_unless_it_is_asked_for(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    hub = FakeHub("hf_test")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert publish(model, tmp_path / "here", "--license", "mit") == 0
    assert hub.asked == []
    assert publish(model, tmp_path / "out", "--license", "mit", "--upload", "ann/de-en", "--private") == 0
    assert capsys.readouterr().out.endswith("It is at https://hub.example.org/ann/de-en\n")
    (_, created), (_, uploaded) = hub.asked
    assert created == {"name": "ann/de-en", "private": True, "exist_ok": True}
    assert (uploaded["repo_id"], uploaded["folder_path"]) == ("ann/de-en", str(tmp_path / "out"))
    assert uploaded["allow_patterns"] == sorted(path.name for path in (tmp_path / "out").iterdir())
    card = (tmp_path / "out/README.md").read_text()
    assert card.endswith("\nDownload it before:\n\n    hf download ann/de-en --local-dir de-en\n")
    assert "    heedful translate de-en < text.txt\n" in card


def test_an_upload_without_the_library_or_a_token_is_refused_before_anything_is_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    out = tmp_path / "out"
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert publish(model, out, "--upload", "ann/de-en") == 2
    assert told(capsys) == ("--upload needs huggingface_hub, which is not installed: `pip install 'heedful[publish]'`.")
    monkeypatch.setitem(sys.modules, "huggingface_hub", FakeHub(None))
    assert publish(model, out, "--upload", "ann/de-en") == 2
    assert told(capsys) == "--upload needs a token of the hub: log in with `hf auth login`, or set HF_TOKEN."
    assert not out.exists()


def test_what_the_hub_refuses_is_one_line_and_the_folder_stays(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    out = tmp_path / "out"
    fault = OSError("403 Forbidden:\n you may not write there")
    monkeypatch.setitem(sys.modules, "huggingface_hub", FakeHub("hf_test", fault))
    assert publish(model, out, "--upload", "ann/de-en") == 3
    assert told(capsys) == (
        f"ann/de-en was not uploaded (403 Forbidden: you may not write there): the folder {out} is complete, upload it "
        f"with `hf upload ann/de-en {out}`."
    )
    assert (out / "model.safetensors").is_file()


class _Handler(BaseHTTPRequestHandler):
    """A hub that takes one commit, of files as they are."""

    commits: list[bytes]
    tokens: set[str | None]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.tokens.add(self.headers.get("Authorization"))
        if self.path.endswith("/repos/create"):
            self._answer({"url": f"http://{self.headers['Host']}/ann/de-en"})
        elif "/preupload/" in self.path:
            files = [each["path"] for each in json.loads(body)["files"]]
            self._answer({"files": [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in files]})
        elif self.path.endswith("/validate-yaml"):
            assert json.loads(body)["content"].startswith('---\nlicense: "mit"\n')
            self._answer({"errors": [], "warnings": []})
        else:
            assert self.path == "/api/models/ann/de-en/commit/main"
            self.commits.append(body)
            at = f"http://{self.headers['Host']}/ann/de-en/commit/0"
            self._answer({"success": True, "commitOid": "0" * 40, "commitUrl": at, "hookOutput": ""})

    def do_GET(self) -> None:
        self._answer({"id": "ann/de-en", "sha": "0" * 40, "siblings": []})

    def _answer(self, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[SimpleNamespace]:
    commits: list[bytes] = []
    tokens: set[str | None] = set()
    handler = type("Handler", (_Handler,), {"commits": commits, "tokens": tokens})
    opened = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=opened.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(address=f"http://127.0.0.1:{opened.server_port}", commits=commits, tokens=tokens)
    opened.shutdown()
    opened.server_close()
    thread.join()


@pytest.mark.wide
def test_an_upload_sends_exactly_the_prepared_files(server: SimpleNamespace, tmp_path: Path) -> None:
    """The library itself, to a server on this machine."""
    pytest.importorskip("huggingface_hub")
    out = tmp_path / "out"
    words = ["publish", str(BUNDLES / "transformer"), "-o", str(out), "--license", "mit", "--upload", "ann/de-en"]
    settings = {"HF_ENDPOINT": server.address, "HF_TOKEN": "hf_test", "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "heedful", *words],
        env={**os.environ, **settings, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        timeout=PATIENCE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert server.tokens == {"Bearer hf_test"}
    (commit,) = server.commits
    sent = {}
    for line in map(json.loads, commit.splitlines()):
        if line["key"] == "file":
            assert line["value"]["encoding"] == "base64"
            sent[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        else:
            assert line["key"] == "header"
    assert sent == {path.name: path.read_bytes() for path in out.iterdir()}
