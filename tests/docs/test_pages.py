"""What the pages tell a reader to type works: every command and every Python block of a page is run, in order."""

import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.docs.blocks import PAGES, ROOT, Block, blocks_of, statements_in

from heedful.cli.main import VERBS, run

NOT_RUN = {
    "make ": "builds an environment, or runs these tests",
    "pip install": "downloads",
    "python scripts/": "for contributors, and tested by tests/architecture",
    "awk ": "not ours: it reads what the command above it wrote",
    "mean of 3 models": "a part of an output, without its command",
    "accuracy ": "a part of an output, without its command",
    "macro F1 ": "a part of an output, without its command",
    "loss ": "a part of an output, without its command",
    "runs/mine/config.json": "a listing of a folder, not a command",
    "/": "a listing of a folder, not a command",
}
# In short form: what would train for hours takes three steps, and what has learned nothing need not write long texts.
# What is resumed takes two more.
SHORT = ["--set", "train.steps=3", "--set", "train.precision=float32"]
RESUMED = ["--set", "train.steps=5", "--set", "train.precision=float32"]
SHORT_TRANSLATOR = ["--set", "decode.max_extra=2", "--set", "decode.beam=2"]
# What the reader has at hand in a Python block.
AT_HAND: dict[str, Any] = {"texts": ["The film was great."], "premises": ["a dog"], "hypotheses": ["the dog"]}

TRACKERS = ("mlflow", "wandb")  # what pages import and Heedful does not need


@pytest.mark.wide
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language != "toml" for b in blocks_of(page))])
def test_a_page_can_be_followed_step_by_step(
    page: str, folder: Path, folders_to_import: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "heedful import" in "".join(block.text for block in blocks_of(page)):
        folders_to_import(folder)
    for tracker in TRACKERS:
        monkeypatch.setitem(sys.modules, tracker, MagicMock())
    names = dict(AT_HAND)
    recipe = ""
    for block in blocks_of(page):
        if block.language == "toml":
            recipe = block.text if "[data]" in block.text else recipe
        elif block.language == "python":
            exec(compile(statements_in(block.text), block.where, "exec"), names)
        elif not block.language:
            for command in filter(_is_run, block.commands):
                recipe = _write_recipe(command, recipe)
                assert _run(command, monkeypatch) == 0, f"{block.where}: {command}"


@pytest.mark.parametrize("page", PAGES)
def test_a_command_in_a_sentence_is_one_that_heedful_has(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    verbs = {span.split()[1] for span in re.findall(r"`(heedful [^`]+)`", text.replace("\n", " "))}
    assert not verbs - {*VERBS, "--help"}


@pytest.mark.parametrize("command", ["recipes list", "config show demo-en-es", *(f"{verb} --help" for verb in VERBS)])
def test_commands_that_need_no_data_just_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(f"heedful {command}", monkeypatch) == 0


def test_every_exception_is_still_needed() -> None:
    commands = [command.strip() for page in PAGES for b in blocks_of(page) if not b.language for command in b.commands]
    assert not [start for start in NOT_RUN if not any(command.startswith(start) for command in commands)]


def test_a_block_without_a_language_holds_commands() -> None:
    """What a program prints, shown without its command, is in a block of `text`."""
    commands = [(b.where, line) for page in PAGES for b in blocks_of(page) if not b.language for line in b.commands]
    assert not [where for where, line in commands if _is_run(line) and "heedful" not in line.split("|")[-1].split()[:1]]


def test_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1000


def test_most_commands_are_run() -> None:
    commands = [command for page in PAGES for b in blocks_of(page) if not b.language for command in b.commands]
    ours = [command for command in commands if "heedful " in command]
    assert len(ours) > 40
    assert all(map(_is_run, ours))


def test_a_command_that_fails_fails_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run("heedful translate runs/nowhere", monkeypatch) == 2
    block = Block("page.md", 1, "", "$ heedful one  # why\nits output\n$ heedful two\n")
    assert block.commands == ["heedful one  # why", "heedful two"]


@pytest.fixture
def folders_to_import() -> Callable[[Path], None]:
    """Writes Hugging Face folders of random weights, under the names that the pages use."""

    def write(folder: Path) -> None:
        from tests.unit.interop.bert.bert_folders import write_bert
        from tests.unit.interop.bert.encoder_folders import write_encoder
        from tests.unit.interop.images.vit_folders import write_vit
        from tests.unit.interop.language.language_folders import write_gpt2, write_llama
        from tests.unit.interop.marian_folders import write_marian
        from tests.unit.interop.pairs.theirs import write_nllb, write_pegasus

        write_marian(folder / "opus-mt-en-de")
        write_pegasus(folder / "pegasus-xsum")
        write_nllb(folder / "nllb-200-distilled-600M")
        write_bert(folder / "bert-base-uncased")
        write_encoder(folder / "my-sentiment-bert", "Bert", "SequenceClassification")
        write_gpt2(folder / "gpt2")
        write_llama(folder / "Llama-3-8B")
        write_vit(folder / "vit-base-patch16-224")

    return write


def _is_run(command: str) -> bool:
    return not command.strip().startswith(tuple(NOT_RUN))


def _write_recipe(command: str, recipe: str) -> str:
    """Write the recipe that a page has just shown under the name by which its command calls it."""
    name = re.search(r"\b[\w-]+\.toml\b", command)
    if name and recipe:
        Path(name[0]).write_text(recipe)
        return ""
    return recipe


def _run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a line of a shell in this process; what is before a pipe runs in a shell of its own."""
    first, _, last = command.rpartition("|") if "| heedful" in command else ("", "", command)
    words = shlex.split(last, comments=True)
    assert words[0] == "heedful", command
    typed = subprocess.run(first, shell=True, capture_output=True, check=True).stdout if first else b""
    if "<" in words:
        typed = Path(words.pop()).read_bytes()
        words.pop()
    if words[1] in ("train", "doctor"):
        words += RESUMED if "--resume" in words else SHORT
        words += SHORT_TRANSLATOR if {"my.toml", "fine.toml"} & set(words) else []
    begins = words[1] in ("train", "import") and "--resume" not in words
    if begins and "--out" in words:  # the folder may have one already that other pages use
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    return run(words[1:])
