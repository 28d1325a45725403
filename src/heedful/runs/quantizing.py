"""A model with its matrices in int8: a folder of about a quarter of the size."""

from pathlib import Path

from torch import nn

from heedful.base.arguments import check_path
from heedful.base.devices import INT8
from heedful.base.errors import UserError
from heedful.base.files import expand_user, new_folder, output_folder, read_bytes, write_bytes
from heedful.config.recipe import Recipe
from heedful.models.bundle import SHORTLIST, read_bundle, refuse_used_folder, write_description, write_weights
from heedful.native.int8 import int8_weights
from heedful.native.int8 import quantize as quantize_rows
from heedful.runs.model_card import write_card
from heedful.tasks.shared.task import Task


def quantize(model: str | Path, out: str | Path, *, task: Task | None = None) -> Path:
    """Write a copy of a model whose matrices are stored in int8, and return its folder.

    It is a model like any other: on a CPU it computes in int8 unless another precision is chosen, to the same bits as
    the original does in int8; elsewhere its matrices are read as floats.
    """
    source, folder = expand_user(check_path("model", model)), output_folder(out)
    refuse_used_folder(folder)
    bundle = read_bundle(source, nn.Module, None if task is None else task.rules)
    recipe = _used_in_int8(bundle.recipe)
    in_int8 = {name: quantize_rows(weight) for name, weight in int8_weights(bundle.model).items()}
    if not in_int8:
        raise UserError(f"{source} has no linear maps of Heedful, and nothing else is stored in int8.")
    with new_folder(folder) as staged:
        write_description(staged, recipe, bundle.vocabularies)
        write_weights(staged, bundle.model, in_int8)
        if (source / SHORTLIST).is_file():  # what a shortlist is made of is about the vocabularies, which stay
            write_bytes(staged / SHORTLIST, read_bytes(source / SHORTLIST))
        stored = sum(matrix.q_NK.numel() for matrix in in_int8.values())
        whole = sum(parameter.numel() for parameter in bundle.model.parameters())
        made = (
            f"the weights of {source.absolute().name}, {stored / whole:.1%} of them quantized to int8 with one scale "
            "per row of a matrix"
        )
        write_card(staged, recipe, bundle.model, made, {}, named=folder, task=task)
    return folder


def _used_in_int8(recipe: Recipe) -> Recipe:
    """Return a recipe whose model is used in int8 where nobody says otherwise."""
    return recipe.model_copy(update={"decode": recipe.decode.model_copy(update={"precision": INT8})})
