"""What docs/how-to/serve.md and the files next to it say is so: requests, clients, limits, metrics, services."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from runpy import run_path
from shutil import which
from typing import Any

import pytest
from tests.docs.blocks import ROOT, blocks_of
from tests.serve.questions import load, png
from tests.serve.running import Running, running
from tests.shared.patience import PATIENCE

import heedful
from heedful.cli.main import run
from heedful.server import run as serving
from heedful.server.settings import ServeSettings

PAGE = "docs/how-to/serve.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
FILES = ROOT / "docs/how-to/serve"
BLOCKS = blocks_of(PAGE)
ADDRESS = "http://127.0.0.1:8000"
# The models that the page asks, by its names for them; of two for a verb the first one answers.
MODELS = {
    "demo": "transformer",
    "reviews": "classifier-transformer",
    "pairs": "classifier-parallel-pairs",
    "tags": "tagger-recurrent-letters-crf",
    "bert": "bert",
    "trees": "parser",
    "reader": "reader",
    "captions": "captions-transformer",
    "ratings": "regressor-bag",
    "text": "language-transformer",
}
LANGUAGES = ('"es"', '"de"')  # the translator of the tests writes German
REQUESTS = [line for block in BLOCKS if block.language == "bash" for line in block.text.splitlines() if "curl" in line]
CLIENTS = {name: block for block in BLOCKS for name in ("openai", "libretranslatepy") if f"from {name}" in block.text}


@pytest.fixture(scope="module")
def server(one_thread: None) -> Iterator[Running]:
    with running({name: load(bundle) for name, bundle in MODELS.items()}) as one:
        yield one


def here(text: str, server: Running) -> str:
    """Return what a page says for the server of the tests."""
    return text.replace(ADDRESS, server.url).replace(*LANGUAGES)


# --- requests and clients -----------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("command", REQUESTS)
def test_a_request_of_the_page_is_answered(command: str, server: Running, tmp_path: Path) -> None:
    (tmp_path / "curl").write_text(f'#!/bin/sh\nexec {which("curl")} --fail-with-body "$@"\n')
    (tmp_path / "curl").chmod(0o755)
    (tmp_path / "photo.png").write_bytes(png())
    (tmp_path / "keys").write_text("key-of-a-test\n")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", here(command, server)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if '"stream"' in command:
        assert '"type":"done"' in done.stdout
    elif '"page"' in command:
        assert "<!DOCTYPE html>" in (tmp_path / "explanation.html").read_text(encoding="utf-8")
    else:
        assert json.loads(done.stdout)


def run_example(text: str, folder: Path) -> None:
    """Run what the page shows, as a program of its own file."""
    file = folder / "shown.py"
    file.write_text(text, encoding="utf-8")
    run_path(str(file))


@pytest.mark.wide
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_the_page_is_answered(
    name: str, server: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip(name, reason="the client of another project, if it is installed")
    run_example(here(CLIENTS[name].text, server), tmp_path)
    assert capsys.readouterr().out


def test_the_page_shows_both_clients_and_a_request_for_every_verb(server: Running) -> None:
    verbs = set(re.findall(r"^\| `/v1/(\w+)`", TEXT, re.M))
    assert len(CLIENTS) == 2
    assert verbs | {"explain"} == {path.removeprefix("/v1/") for path in _task_paths(server)}
    assert not [verb for verb in verbs if not any(f"/v1/{verb} " in request for request in REQUESTS)]


def test_heedful_serve_in_python_takes_what_the_page_gives_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (block,) = [block for block in BLOCKS if "heedful.serve(" in block.text]
    asked: list[Any] = []
    monkeypatch.setattr(serving, "listen", lambda settings: nullcontext())
    monkeypatch.setattr(serving, "load_models", lambda models, *rest: models)
    monkeypatch.setattr(serving, "Models", lambda models: models)
    monkeypatch.setattr(serving, "run", lambda models, settings, listening: asked.append((models, settings)))
    monkeypatch.setattr(heedful, "load", lambda folder: folder)
    run_example(block.text, tmp_path)
    assert asked == [
        (["runs/demo"], ServeSettings(port=8080, queue=64)),
        ({"translator": "runs/demo", "reviews": "runs/imdb"}, ServeSettings()),
    ]


# --- what it says about the server --------------------------------------------------------------------------------


def test_the_limits_of_the_page_are_those_of_the_server() -> None:
    table = TEXT.split("## Limits\n")[1].split("\n\n")[0]
    found = {name.replace("-", "_"): value for name, value in re.findall(r"`(?:--)?([\w-]+)` \| ([\d,]+) \|", table)}
    usual = ServeSettings()
    assert found == {
        name: f"{getattr(usual, name):,.0f}" for name in ("queue", "timeout", "max_text", "max_inputs", "max_body")
    }
    assert f"for up to {usual.drain:.0f} seconds" in TEXT


def test_the_routes_and_metrics_of_the_page_exist(server: Running) -> None:
    known = {*server.client.get("/openapi.json").json()["paths"], "/openapi.json", "/v1/VERB"}
    absent = {"/translate_file"}  # which the page says is not there
    named = set(re.findall(r"`(?:GET |POST )?(/\w[\w/.]*)`", TEXT))
    assert len(named) > 20
    assert named - known == absent
    metrics = server.client.get("/metrics").text
    assert not [name for name in re.findall(r"`(heedful_\w+)`", TEXT) if name not in metrics]


def test_the_options_of_the_page_and_of_the_services_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--help"]) == 0
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    commands = [line for block in BLOCKS for line in block.text.splitlines() if line.startswith("heedful serve ")]
    commands += [_compose()["services"]["heedful"]["command"], _unit()["ExecStart"]]
    words = [word for command in commands for word in (shlex.split(command) if isinstance(command, str) else command)]
    words += re.findall(r"`(--[\w-]+)", TEXT)
    assert {word for word in words if word.startswith("--")} <= known | {"--json", "--workers"}


# --- services -----------------------------------------------------------------------------------------------------


def test_the_image_is_made_of_files_that_exist_and_has_no_rights() -> None:
    steps = _steps()
    copied = [word for step in steps if step.startswith("COPY ") for word in step.split()[1:-1]]
    assert copied
    assert not [name for name in copied if not (ROOT / name).exists()]
    (user,) = [step.split()[1] for step in steps if step.startswith("USER ")]
    assert any(f"useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin {user}" in step for step in steps)
    installs = [step for step in steps if "pip install" in step]
    assert all("--constraint constraints.txt" in step for step in installs)


def test_the_check_of_the_image_is_passed_by_a_server_that_takes_requests(server: Running) -> None:
    (check,) = [step for step in _steps() if step.startswith("HEALTHCHECK")]
    program, *arguments = json.loads(check[check.index("[") :])
    assert program == "python"

    def code() -> int:
        words = [word.replace(ADDRESS, server.url) for word in arguments]
        return subprocess.run([sys.executable, *words], capture_output=True, timeout=PATIENCE, check=False).returncode

    assert ADDRESS in " ".join(arguments)
    assert code() == 0
    server.asking.draining = True
    try:
        assert code() != 0
    finally:
        server.asking.draining = False


def test_the_services_of_compose_fit_together() -> None:
    compose = _compose()
    ours, proxy = compose["services"]["heedful"], compose["services"]["proxy"]
    assert (FILES / ours["build"]["context"] / ours["build"]["dockerfile"]).resolve() == FILES / "Dockerfile"
    assert ours["secrets"] == list(compose["secrets"])
    assert {volume.partition(":")[0] for volume in ours["volumes"] + proxy["volumes"]} >= set(compose["volumes"])
    assert float(ours["stop_grace_period"].removesuffix("s")) > ServeSettings().drain
    assert f"reverse_proxy heedful:{ServeSettings().port}\n" in (FILES / "Caddyfile").read_text(encoding="utf-8")
    assert proxy["environment"].keys() == {"SITE"}
    assert "{$SITE}" in (FILES / "Caddyfile").read_text(encoding="utf-8")


def test_the_unit_gives_the_server_time_to_end_and_no_rights() -> None:
    unit = _unit()
    assert float(unit["TimeoutStopSec"]) > ServeSettings().drain
    assert unit["CapabilityBoundingSet"] == ""
    assert {unit[name] for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome")} == {"yes"}
    assert unit["ProtectSystem"] == "strict"


def _task_paths(server: Running) -> list[str]:
    paths = server.client.get("/openapi.json").json()["paths"]
    tags = {path: next(iter(found.values()))["tags"] for path, found in paths.items()}
    return [path for path, some in tags.items() if {"tasks", "explanations"} & set(some)]


def _steps() -> list[str]:
    """Return the instructions of the Dockerfile, each on one line."""
    lines = (FILES / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _compose() -> Any:
    yaml = importlib.import_module("yaml")  # which has no types
    return yaml.safe_load((FILES / "compose.yaml").read_text(encoding="utf-8"))


def _unit() -> dict[str, str]:
    lines = (FILES / "heedful.service").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
