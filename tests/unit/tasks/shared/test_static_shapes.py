import pytest
import torch

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.tasks.translate.task import TranslateTask


def recipe_with(positions: str, width: int = 64, dropout_attention: float = 0.0) -> Recipe:
    model = TransformerModel.model_validate(
        {"width": width, "heads": 2, "positions": positions, "dropout_attention": dropout_attention}
    )
    return Recipe(
        data=Data(train=(AlignedFiles(source="a", target="b"),), batch_tokens=512, max_length=50), model=model
    )


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned", "rope"])
def test_batches_of_a_gpu_have_one_shape_where_attention_runs_straight_on_it(positions: str) -> None:
    recipe = recipe_with(positions)
    shape = TranslateTask().static_shape(recipe, torch.bfloat16)
    assert shape is not None
    assert shape.bound >= 51  # the longest pair with its end marker


@pytest.mark.parametrize(
    ("positions", "width", "precision"),
    [
        ("alibi", 64, torch.bfloat16),
        ("relative", 64, torch.bfloat16),
        ("sinusoidal", 64, torch.float32),
        ("sinusoidal", 68, torch.bfloat16),
    ],
)
def test_what_attends_on_padded_rows_has_ragged_batches(positions: str, width: int, precision: torch.dtype) -> None:
    assert TranslateTask().static_shape(recipe_with(positions, width), precision) is None


def test_dropped_weights_need_a_kernel_of_our_own_or_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in (True, False):
        monkeypatch.setattr("heedful.nn.attention.backends.kernels_enabled", lambda wanted=wanted: wanted)
        assert (
            TranslateTask().static_shape(recipe_with("learned", dropout_attention=0.1), torch.bfloat16) is not None
        ) is wanted
        assert TranslateTask().static_shape(recipe_with("learned"), torch.bfloat16) is not None
