"""The shipped recipes are found, are correct, and can be copied away."""

import tomllib
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.model.transformer import TransformerModel
from heedful.config.reading import shipped_recipes as recipes
from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipe, shipped_recipes, summary
from heedful.config.train.optimizers import Adam

NAMES = sorted(shipped_recipes())


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_recipe_is_correct(name: str) -> None:
    load_recipe(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_recipe_says_what_it_is_how_to_run_it_and_what_was_measured(name: str) -> None:
    text = shipped_recipes()[name].read_text(encoding="utf-8")
    header = [line for line in text.partition("\n\n")[0].splitlines() if line.startswith("#")]
    assert summary(shipped_recipes()[name])
    assert any("Run: heedful " in line for line in header)
    assert any(line.startswith("# Measured: ") for line in header)


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_recipe_extends_by_name_so_that_a_copy_still_loads(name: str) -> None:
    values = tomllib.loads(shipped_recipes()[name].read_text(encoding="utf-8"))
    assert values.get("extends", name) in NAMES


def test_the_base_transformer_is_as_published() -> None:
    recipe = load_recipe("transformer-base-wmt14")
    model, train, decode = recipe.model, recipe.train, recipe.decode
    assert isinstance(model, TransformerModel)
    assert (model.width, model.heads, model.layers, model.inner) == (512, 8, 6, 2048)
    assert (model.dropout, model.norm, model.tie, train.label_smoothing) == (0.1, "post", "all", 0.1)
    assert (recipe.tokenizer.size, recipe.tokenizer.joint, recipe.data.batch_tokens) == (37000, True, 25000)
    assert (train.steps, train.schedule.kind, train.schedule.warmup) == (100_000, "noam", 4000)
    assert isinstance(train.optimizer, Adam)
    assert (train.optimizer.beta1, train.optimizer.beta2, train.optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert (decode.beam, decode.length_penalty, decode.max_extra) == (4, 0.6, 50)


def test_an_unknown_shipped_recipe_gets_the_nearest_name() -> None:
    with refuses("`transformer-base-wmt` is not a shipped recipe. Did you mean `transformer-base-wmt14`?"):
        shipped_recipe("transformer-base-wmt")


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("# Captions.  Run: heedful train x\n# Measured: 1\n", "Captions."),
        ("\n# Captions.\n[data]\n", "Captions."),
        ("[data]\n", ""),
    ],
)
def test_a_summary_is_the_first_line_of_the_header_without_the_command(tmp_path: Path, header: str, line: str) -> None:
    (tmp_path / "x.toml").write_text(header, encoding="utf-8")
    assert summary(tmp_path / "x.toml") == line


def test_an_installed_package_has_its_recipes_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heedful" / "recipes").mkdir(parents=True)
    (tmp_path / "heedful" / "recipes" / "mine.toml").touch()
    monkeypatch.setattr(recipes, "__file__", str(tmp_path / "heedful" / "config" / "reading" / "shipped_recipes.py"))
    assert recipes.shipped_recipes() == {"mine": tmp_path / "heedful" / "recipes" / "mine.toml"}
