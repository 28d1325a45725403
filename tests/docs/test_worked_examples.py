"""The worked examples of CONTRIBUTING.md: their edits, made in a copy of the source tree, are all that is needed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def edited_tree(title: str, folder: Path) -> tuple[Path, list[str]]:
    """Copy the source tree into a folder and make the edits of an example; return the copy and the edited files."""
    section = re.search(rf"^### {title}\n(.*?)(?=^##)", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    assert section is not None, title
    copy = shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    edited = []
    for name, hunks in re.findall(r"^```diff\n--- (.*?)\n@@\n(.*?)^```", section[1], re.M | re.S):
        file = folder / name
        text = file.read_text()
        for hunk in hunks.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
            assert text.count(before) == 1, f"CONTRIBUTING.md, {title}: these lines of {name} have changed:\n{before}"
            text = text.replace(before, after)
        file.write_text(text)
        edited.append(name)
    return copy, edited


def run_in(tree: Path, program: str, folder: Path) -> str:
    """Run a program with an edited tree and return what it prints."""
    environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "HEEDFUL_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


POSITIONS = """
import heedful
from heedful.base.errors import UserError

rows = [(f"a dog {n}", f"ein Hund {n}") for n in range(9)]
shape = {"positions": "kerple", "width": 16, "heads": 2, "layers": 1, "inner": 16}
recipe = {
    "data": {"train": {"source": "-", "target": "-"}},
    "tokenizer": {"size": 300},
    "model": shape,
    "train": {"steps": 2, "device": "cpu", "schedule": {"kind": "constant", "lr": 0.01}},
}
run = heedful.train(recipe, "run", train=rows, quiet=True)
print(type(run.model.network.encoder.blocks[0].attention.positions).__name__, len(run.model.translate(["a dog"])))
try:
    heedful.train({**recipe, "model": {**shape, "attention_radius": 3}}, "other", train=rows, quiet=True)
except UserError as error:
    print(error)
"""


def test_a_kind_of_positions_is_two_edits(tmp_path: Path) -> None:
    tree, edited = edited_tree("A kind of positions", tmp_path)
    assert len(edited) == 2
    printed = run_in(tree, POSITIONS, tmp_path)
    assert printed.startswith("LogarithmicBias 1\n")
    assert '`positions = "kerple"` adds to the scores of' in printed


METRIC = """
import heedful
from heedful.config.tasks import TASKS

words, labels = "the dog sees the cat".split(), ["O", "B-X", "O", "O", "B-X"]
rows = [(words[:n], labels[:n]) for n in range(1, 6)] * 4
recipe = {
    "data": {"train": {"jsonl": "-", "text": "text", "label": "label"}},
    "tokenizer": {"kind": "word"},
    "model": {"family": "tagger", "encoder": {"family": "recurrent", "width": 8}},
    "train": {
        "steps": 2,
        "device": "cpu",
        "schedule": {"kind": "constant", "lr": 0.01},
        "validation": {"every": 1, "metric": "exact_sentences"},
    },
}
run = heedful.train(recipe, "run", train=rows, valid=rows, quiet=True)
print(*run.validations[-1])
found = run.model.evaluate(rows)
share = sum(said == true for said, true in zip(found.result.said, found.result.true)) / len(rows)
assert found.to_json()["exact_sentences"] == share
print([f"{score.label} {score.value == share}" for score in found.scores() if score.name == "exact_sentences"])
print([score.name for score in found.item_scores().scores], "exact_sentences" in TASKS["tag"].scores)
"""

COMPARE = """
import sys
from heedful.cli.main import main

sys.argv = "heedful compare run run --metric exact_sentences --source s --target t".split()
sys.exit(main())
"""


def test_a_metric_of_taggers_is_one_edit(tmp_path: Path) -> None:
    tree, edited = edited_tree("A metric of taggers", tmp_path)
    assert len(edited) == 1
    validated, shown, compared = run_in(tree, METRIC, tmp_path).splitlines()
    assert validated.split()[1] == "exact_sentences"  # after the step: the metric that decides comes first
    assert shown == "['right sentences True']"
    assert compared == "['f1', 'accuracy', 'exact_sentences'] True"
    (tmp_path / "s").write_text("the dog\nthe cat\n")
    (tmp_path / "t").write_text("O B-X\nO B-X\n")
    assert "sentences without a wrong label" in run_in(tree, COMPARE, tmp_path)


def test_an_edit_of_lines_that_are_not_there_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "CONTRIBUTING.md").write_text("### A\n```diff\n--- src/a.py\n@@\n one\n+two\n```\n## B\n")
    (tmp_path / "src/a.py").write_text("three\n")
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    with pytest.raises(AssertionError, match=r"these lines of src/a\.py have changed"):
        edited_tree("A", tmp_path / "copy")
