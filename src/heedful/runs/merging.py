"""A model with an adapter as a model of its own."""

from pathlib import Path

from torch import nn

from heedful.base.arguments import check_path
from heedful.base.files import expand_user, new_folder, output_folder, read_bytes, write_bytes
from heedful.models.bundle import SHORTLIST, read_bundle, refuse_used_folder, write_description, write_weights
from heedful.runs.model_card import write_card
from heedful.tasks.shared.task import Task


def merge(base: str | Path, adapter: str | Path, out: str | Path, *, task: Task | None = None) -> Path:
    """Write a model whose matrices are those of a base with what an adapter adds to them, and return its folder.

    It is a model like any other, and answers to the same bits as the base with the adapter does: it can be quantized,
    exported, and trained further.
    """
    source, adapted = expand_user(check_path("base", base)), expand_user(check_path("adapter", adapter))
    folder = output_folder(out)
    refuse_used_folder(folder)
    bundle = read_bundle(source, nn.Module, None if task is None else task.rules, adapted)
    with new_folder(folder) as staged:
        write_description(staged, bundle.recipe, bundle.vocabularies)
        write_weights(staged, bundle.model)
        if (source / SHORTLIST).is_file():  # what a shortlist is made of is about the vocabularies, which stay
            write_bytes(staged / SHORTLIST, read_bytes(source / SHORTLIST))
        made = f"the weights of {source.absolute().name} with the adapter {adapted.absolute().name}"
        write_card(staged, bundle.recipe, bundle.model, made, {}, named=folder, task=task)
    return folder
