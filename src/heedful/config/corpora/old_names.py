"""Names of earlier versions: recipes, bundles and runs that have them still load, and cache keys keep them."""

from collections.abc import Mapping
from typing import Any, Final

OLD_KEYS: Final = {"picture": "image", "pictures": "images"}  # of [data] and of corpora
OLD_KINDS: Final = {  # values of `task` and `model.family`
    "classify_pictures": "classify_images",
    "answer_pictures": "answer_images",
    "picture_classifier": "image_classifier",
    "picture_answerer": "image_answerer",
}
_FIRST_KEYS: Final = {new: old for old, new in OLD_KEYS.items()}


def with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's values, unchecked, with the names of this version."""
    current = dict(values)
    if isinstance(values.get("task"), str):
        current["task"] = OLD_KINDS.get(values["task"], values["task"])
    model, data = values.get("model"), values.get("data")
    if isinstance(model, Mapping) and isinstance(model.get("family"), str):
        current["model"] = {**model, "family": OLD_KINDS.get(model["family"], model["family"])}
    if isinstance(data, Mapping):
        current["data"] = {OLD_KEYS.get(key, key): _renamed(key, value) for key, value in data.items()}
    return current


def with_first_names(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a corpus with the names that they had first, which cache keys keep."""
    return {_FIRST_KEYS.get(key, key): value for key, value in keys.items()}


def _renamed(split: str, value: Any) -> Any:
    """Rename the keys of corpora."""
    if split not in ("train", "valid", "test"):
        return value
    if isinstance(value, list):
        return [_renamed(split, corpus) for corpus in value]
    return {OLD_KEYS.get(key, key): item for key, item in value.items()} if isinstance(value, Mapping) else value
