"""The names of classes in a config.json: `id2label`, and `label2id` beside it."""

from collections.abc import Sequence
from typing import Any

from heedful.base.errors import UserError
from heedful.interop.transformers.model_folder import CheckedConfig


def read_labels(config: CheckedConfig, least: int = 2) -> tuple[str, ...]:
    """Return the names of the classes, by their numbers."""
    names = config.values.get("id2label")
    if names is None:
        return ("LABEL_0", "LABEL_1")  # what `transformers` takes where a config does not name its classes
    numbers = [str(number) for number in range(len(names))] if isinstance(names, dict) else []
    sound = len(numbers) >= least and sorted(names) == sorted(numbers)
    if not sound or not all(isinstance(names[number], str) for number in numbers):
        raise UserError(f"{config.where}: `id2label` must name at least two classes by their numbers from 0 on.")
    labels = tuple(names[number] for number in numbers)
    if len(set(labels)) < len(labels):
        raise UserError(f"{config.where}: `id2label` names two classes alike, but each needs a name of its own.")
    return labels


def label_entries(labels: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a config.json for these classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
