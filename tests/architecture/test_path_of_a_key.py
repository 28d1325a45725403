"""How many files of the source a reader opens to follow a key of a recipe to where it takes effect."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from heedful.cli.main import run
from heedful.config.train.optimizers import AdamW

SOURCE = Path(__file__).parents[2] / "src" / "heedful"
RECIPE = """
data = { train = { source = "a.en", target = "a.en" } }
tokenizer = { size = 300 }
model = { width = 16, heads = 2, layers = 1, inner = 16 }
[train]
steps = 1
device = "cpu"
optimizer = { kind = "adamw", weight_decay = 0.3 }
"""


def files_from_the_verb_to(frame: FrameType | None) -> Iterator[str]:
    """Yield the files of Heedful's functions on the stack below a frame, up to the verb."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(SOURCE):
            yield file.relative_to(SOURCE).as_posix()
            if file.parent.name == "verbs":
                return
        frame = frame.f_back


def test_weight_decay_passes_at_most_six_files_from_recipe_to_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the files of all functions on the stack, from the verb on, at the three moments that concern the key.

    They are when the recipe is read and checked (`load_recipe`), when defaults that follow the data may change it
    (`decide`), and when the optimizer is built (`build_optimizer`); and the file that declares the key. Counted in the
    same way, there were nine before: `config/reading/defaults.py`, `data/prepare/following.py`, `runs/run_folder.py`
    and `runs/job.py` were on the way too, and `defaults/apply.py` was not.
    """
    moments = {"load_recipe", "decide", "build_optimizer"}
    reached: dict[str, set[str]] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_name
        if event == "call" and name in moments and Path(frame.f_code.co_filename).is_relative_to(SOURCE):
            reached.setdefault(name, {*files_from_the_verb_to(frame)})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    Path("a.en").write_text("a dog\n" * 30)
    Path("my.toml").write_text(RECIPE)
    sys.setprofile(profile)
    try:
        assert run(["--quiet", "train", "my.toml", "--out", "run"]) == 0
    finally:
        sys.setprofile(None)

    assert reached.keys() == moments
    declared = Path(sys.modules[AdamW.__module__].__file__ or "").relative_to(SOURCE).as_posix()
    assert {declared}.union(*reached.values()) == {
        "config/train/optimizers.py",
        "cli/verbs/train.py",
        "config/reading/load.py",
        "defaults/apply.py",
        "runs/training_run.py",
        "training/optimizers/build.py",
    }
