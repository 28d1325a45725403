"""Completion scripts: what a shell offers after each word."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from heedful.cli.main import VERBS, run
from heedful.cli.verbs.completion import SHELLS, completed_verbs


@pytest.fixture(scope="module")
def script() -> str:
    return SHELLS["bash"](completed_verbs())


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tra"], {"trace", "train", "translate"}),
        (["config", "ch"], {"check"}),
        (["train", "demo-"], {"demo-en-es", "demo-scenes"}),
        (["recipes", "show", "demo-"], {"demo-en-es", "demo-scenes"}),
        (["translate", "runs/x", "--be"], {"--beam"}),
        (["-q", "train", "--res"], {"--resume"}),
        (["evaluate", "x", "--split", ""], {"valid", "test"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["--vers"], {"--version"}),
    ],
)
def test_bash_offers_verbs_options_their_values_and_recipes(
    script: str, tmp_path: Path, words: list[str], offered: set[str]
) -> None:
    ask = f'{script}\nCOMP_WORDS=(heedful "$@")\nCOMP_CWORD={len(words)}\n_heedful\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    shown = subprocess.run(["bash", "-c", ask, "-", *words], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert set(shown.stdout.split()) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_offers_files_after_a_verb(script: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").touch()
    ask = f'{script}\nCOMP_WORDS=(heedful train my)\nCOMP_CWORD=2\n_heedful\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    shown = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert shown.stdout.split() == ["my.toml"]


def test_fish_has_a_line_for_every_verb_and_option() -> None:
    lines = SHELLS["fish"](completed_verbs()).splitlines()
    for verb, (_, line) in VERBS.items():
        assert any(f"-a {verb} -d " in entry for entry in lines), (verb, line)
    assert any("__fish_seen_subcommand_from translate" in entry and "-l beam -r -d" in entry for entry in lines)
    assert any(
        "__fish_seen_subcommand_from evaluate" in entry and "-l split -x -a 'valid test'" in entry for entry in lines
    )


def test_zsh_runs_the_functions_of_bash(script: str) -> None:
    lines = SHELLS["zsh"](completed_verbs()).splitlines()
    assert lines[0] == "#compdef heedful"
    assert "autoload -U +X bashcompinit && bashcompinit" in lines
    assert lines[-1] == script.splitlines()[-1]


def test_the_script_is_printed_or_written(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    assert capsys.readouterr().out == script + "\n"
    assert run(["completion", "bash", "-o", str(tmp_path / "script")]) == 0
    assert (tmp_path / "script").read_text() == script + "\n"


def test_a_script_is_made_without_torch() -> None:
    code = (
        "import sys\nfrom heedful.cli.main import run\n"
        "assert run(['completion', 'fish']) == 0\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
