"""What a tiny run reads: digits and their words, or texts with labels."""

import json
from pathlib import Path

import pytest
from tests.unit.runs.run_folders import Make, write

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A tiny recipe on files of its own: digits in, the same digits as words out."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    numbers = [f"{n * 7919 % 10**5:05d}" for n in range(300)]
    write(tmp_path / "a.txt", [" ".join(number) for number in numbers])
    write(tmp_path / "b.txt", [" ".join(words[int(digit)] for digit in number) for number in numbers])

    def made(**train: object) -> Recipe:
        return recipe_from_json(
            {
                "data": {
                    "folder": str(tmp_path),
                    "train": [{"source": "a.txt", "target": "b.txt"}],
                    "valid": [{"source": "a.txt", "target": "b.txt", "lines": "1-20"}],
                    "batch_tokens": 200,
                },
                "tokenizer": {"kind": "word"},
                "model": {"width": 16, "heads": 2, "layers": 1, "inner": 32, "dropout": 0.1},
                "train": {
                    "steps": 12,
                    "schedule": {"kind": "constant", "lr": 0.01},
                    "precision": "float32",
                    "device": "cpu",
                    "log_every": 5,
                    "checkpoint_every": 5,
                    "validation": {"every": 6},
                    **train,
                },
            },
            "test recipe",
        )

    return made


@pytest.fixture
def labelled_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty texts, and second texts, of two classes, in `t.jsonl`."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    rows = [{"text": "ant bee", "second": "cat", "label": "pos"}, {"text": "dog", "second": "ant", "label": "neg"}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 10))
