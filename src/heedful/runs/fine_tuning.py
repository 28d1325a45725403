"""Fine-tuning: a run that starts from a trained model's weights and keeps its vocabulary."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.base.errors import UserError, alternatives, by_caller
from heedful.base.files import expand_user
from heedful.config.model.any import AnyModel, text_encoder
from heedful.config.reading.load import flat, recipe_from_json, recipe_to_json
from heedful.config.reading.toml import shown
from heedful.config.recipe import Recipe
from heedful.config.section import Section, merge_tables
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.models.adapters.low_rank import Adapter
from heedful.models.adapters.start import encoder_prefix, weights_for, with_new_pieces
from heedful.models.bundle import WEIGHTS, Bundle, adapt_network, base_of, read_bundle, read_description
from heedful.models.from_recipe.network import build_network
from heedful.models.weights import hash_of_weights, set_weights, shapes_of
from heedful.training.remedies import Teacher

# Keys that weights depend on but that their shapes do not show: with another value the weights are meaningless.
SHAPELESS: Final = (
    "family", "heads", "activation", "norm", "positions", "embedding_scale", "alignment", "wiring", "cell",
    "reverse_source", "input_feeding", "pool", "word_pool", "labels", "norm_kind", "rope_base", "feedback",
    "join", "mark_matches", "dilation",
)  # fmt: skip
_FREE: Final = ("dropout", "preset", "backend", "temperature", "variational")  # starts of keys that weights do not need
_TEXT_FORM: Final = ("nfc", "lowercase", "tokenized")  # keys of [data]


@dataclass(frozen=True, eq=False)
class StartModel:
    """The model that a run starts from, and the recipe adapted to it."""

    recipe: Recipe
    vocabularies: Vocabularies
    bundle: Bundle[nn.Module]
    differences: tuple[str, ...]  # settings in which the recipe differs from the start's, in words
    base: str | None = None  # sha256 of its weights, if they are adapted

    def adapter_of(self, model: nn.Module, seed: int) -> Adapter | None:
        """Give a network the weights, and make the adapter that the recipe asks for; None if it asks for none."""
        settings = self.recipe.train.adapter
        if settings is None:
            return None
        return adapt_network(model, self.bundle.model, settings, expand_user(self.recipe.train.start_from), seed)

    def into(self, model: nn.Module, vocabularies: Vocabularies) -> None:
        """Copy the weights; those that the start does not have keep their initial values.

        New pieces of vocabularies that have grown begin as means of old ones.
        """
        given = with_new_pieces(weights_for(model, self.bundle.model), model, vocabularies)
        set_weights(model, {**dict(model.named_parameters()), **given})


def read_start(recipe: Recipe, base: str | None = None) -> StartModel:
    """Read the model that a recipe starts from; refuse one with other shapes, or that computes something else.

    `base` is the sha256 of the weights that a resumed run adapts.
    """
    folder = expand_user(recipe.train.start_from)
    if not folder.exists():
        raise UserError(f"`train.start_from` is {folder}, which is not a folder: train that model first.")
    if recipe.train.adapter is not None and base_of(folder) is not None:
        raise UserError(
            f"`train.start_from` is {folder}, which is an adapter itself: make a model of it and its base by "
            f"{by_caller('`heedful merge`', '`heedful.merge`')}, and start from that."
        )
    bundle = read_bundle(folder, nn.Module)
    found = None if recipe.train.adapter is None else hash_of_weights(bundle.model, folder / WEIGHTS)
    if base not in (None, found):
        raise UserError(
            f"{folder} has other weights than the model that this run adapts: restore that model from a copy, or train "
            "into another folder."
        )
    checked = _together(recipe, bundle.recipe, folder)
    path, ours, theirs = _tables(checked, bundle.recipe)
    if other := _other_value(ours, theirs):
        key, now, was = other
        raise _other_function(path + key, now, was, folder)
    _refuse_other_shapes(checked, bundle, folder)
    return StartModel(checked, bundle.vocabularies, bundle, tuple(_differences(recipe, bundle.recipe)), found)


def start_as_student(model: nn.Module, recipe: Recipe, teacher: Teacher) -> None:
    """Copy a teacher's weights into its student; refuse one that differs in more than its number of layers.

    Of L layers, the student's S take those at evenly spaced places, the first and the last included: of 12, six take
    0, 2, 4, 7, 9 and 11, as in the released DistilBERT      Sanh et al. 2019, 3
    """
    if other := other_function(recipe, teacher.recipe):
        key, now, was = other
        raise _other_function(key, now, was, teacher.folder)
    given, wanted = dict(teacher.network.named_parameters()), dict(model.named_parameters())
    taken = {name: _layer_of_teacher(name, wanted, given) for name in wanted}
    shapes = shapes_of(given)
    different = next((name for name, theirs in taken.items() if shapes.get(theirs) != wanted[name].shape), None)
    if different is not None:
        raise UserError(
            f"`train.distill.start` needs a teacher that has the student's shapes and only more layers, but "
            f"`{different}` is {tuple(wanted[different].shape)} and {shapes.get(taken[different], 'missing')} in "
            f"{teacher.folder}: leave it out, or keys of [model] as they were there."
        )
    set_weights(model, {name: given[theirs] for name, theirs in taken.items()})


def _layer_of_teacher(name: str, ours: Iterable[str], theirs: Iterable[str]) -> str:
    """Return the teacher's name of a weight: that of the layer that its own layer begins with, or the same name."""
    found = re.match(r"(.*\bblocks\.)(\d+)(\..*)", name)
    if found is None:
        return name
    stack, layer, rest = found.groups()
    own, given = (sum(other.startswith(stack) and other.endswith(rest) for other in names) for names in (ours, theirs))
    return f"{stack}{round(int(layer) * (given - 1) / max(1, own - 1))}{rest}"


def with_start(recipe: Recipe) -> Recipe:
    """Return the recipe with the keys that it takes from the model that it starts from."""
    folder = expand_user(recipe.train.start_from)
    return _together(recipe, read_description(folder)[0], folder)


def _together(recipe: Recipe, start: Recipe, folder: Path) -> Recipe:
    """Merge a recipe with that of its start; refuse what does not fit together."""
    _refuse_other_family(recipe, start, folder)
    return recipe_from_json(
        recipe_to_json(adapt(recipe, start)), f"a recipe that starts from {folder}", recipe.given_rules
    )


def adapt(recipe: Recipe, start: Recipe) -> Recipe:
    """Return a recipe with the start's tokenizer, and with those of the start's other keys that it omits.

    They are those of [model], of the text's form, and of how the task reads text, if the task is the same.
    """
    keys = (*_TEXT_FORM, *_start_keys(recipe, start))
    form = {key: getattr(start.data, key) for key in keys if key not in recipe.data.model_fields_set}
    said = recipe.model if "model" in recipe.model_fields_set else None
    model: AnyModel
    if said is not None and said.family != start.model.family and recipe.rules.on_encoder_of is not None:
        model = recipe.rules.on_encoder_of(said, start.model)
    else:
        model = merge_tables(start.model, said)
    data = recipe.data.model_copy(update=form)
    tokenizer = start.tokenizer.model_copy(update={"extend": recipe.tokenizer.extend})
    return recipe.model_copy(update={"model": model, "data": data, "tokenizer": tokenizer})


def _start_keys(recipe: Recipe, start: Recipe) -> tuple[str, ...]:
    """Return the keys of [data] that depend on the task, if the recipe has the start's; it may leave [model] out."""
    same = "model" not in recipe.model_fields_set or recipe.model.family == start.model.family
    return start.rules.start_keys if same else ()


def other_function(one: Recipe, other: Recipe) -> tuple[str, object, object] | None:
    """Return the first key of SHAPELESS in which two [model] tables differ, with both values."""
    return _other_value(one.model, other.model)


def _other_value(one: Section, other: Section) -> tuple[str, object, object] | None:
    ours, theirs = _values(one), _values(other)
    keys = [key for shapeless in SHAPELESS for key in (*ours, *theirs) if key.split(".")[-1] == shapeless]
    return next(((key, ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)), None)


def _refuse_other_family(recipe: Recipe, start: Recipe, folder: Path) -> None:
    """Refuse a start of another family, whose [model] has other keys, before anything is taken from it.

    Another head may use the start's encoder, if the rules of the task allow it.
    """
    if "model" not in recipe.model_fields_set:
        return
    ours, theirs = recipe.model, start.model
    our_encoder, their_encoder = text_encoder(ours), text_encoder(theirs)
    same = ours.family == theirs.family
    if not same and recipe.rules.on_encoder_of is not None and theirs.family not in recipe.rules.other_starts:
        raise UserError(
            f'{recipe.rules.learner.capitalize()} cannot start from {folder}: its `model.family` is "{theirs.family}", '
            f"but must be {alternatives((*recipe.rules.other_starts, *recipe.rules.families))}."
        )
    if not same and recipe.rules.on_encoder_of is None:
        raise _other_function("family", ours.family, theirs.family, folder)
    if our_encoder is None or their_encoder is None or our_encoder is ours or "encoder" not in ours.model_fields_set:
        return
    if our_encoder.family != their_encoder.family:
        raise _other_function("encoder.family", our_encoder.family, their_encoder.family, folder)


def _other_function(key: str, now: object, was: object, folder: Path) -> UserError:
    table = f"in [model.{key.rpartition('.')[0]}] " if "." in key else ""
    way_out = f'Write `family = "{was}"` {table}'.rstrip() if key.endswith("family") else "Leave the key out"
    return UserError(
        f"`model.{key}` is {shown(now)}, but {folder} was trained with {shown(was)}: its weights would be meaningless. "
        f"{way_out} to use the start's."
    )


def _other_head(recipe: Recipe, start: Recipe) -> bool:
    """Whether the run puts another family's head on the start's encoder."""
    return recipe.model.family != start.model.family


def _refuse_other_shapes(recipe: Recipe, bundle: Bundle[nn.Module], folder: Path) -> None:
    with torch.device("meta"):
        vocabularies = replace(bundle.vocabularies, scale=bundle.vocabularies.scale or Scale(0.0, 1.0))
        if recipe.rules.labels:  # the start may have no classes; their number does not matter for the encoder
            vocabularies = replace(vocabularies, labels=vocabularies.labels or ("",))
        model = build_network(recipe.model, vocabularies)
        wanted = shapes_of(dict(model.named_parameters()))
        given = shapes_of(weights_for(model, bundle.model))
    fresh = _other_head(recipe, bundle.recipe)  # a head and a pooler that the start need not have
    encoder = encoder_prefix(model) if fresh else ""
    missing = {name for name in wanted.keys() - given.keys() if name.startswith(encoder)}
    if not missing and all(wanted.get(name) == shape for name, shape in given.items()):
        return
    path, *tables = _tables(recipe, bundle.recipe)
    ours, theirs = map(_values, tables)
    told = ", ".join(
        f"`model.{path}{key}` is {shown(theirs.get(key))} there and {shown(value)} in the recipe"
        for key, value in ours.items()
        if value != theirs.get(key) and not key.split(".")[-1].startswith(_FREE)
    )
    raise UserError(
        f"The shapes of {folder} are not those of the recipe: {told}. Leave keys of [model] out to use the start's."
    )


def _tables(recipe: Recipe, start: Recipe) -> tuple[str, Section, Section]:
    """Return the path in [model] of the table that the start's weights are for, that table, and the start's."""
    encoder = text_encoder(recipe.model)
    if encoder is not None and _other_head(recipe, start):
        return "encoder.", encoder, start.model
    return "", recipe.model, start.model


def _values(table: Section) -> dict[str, object]:
    """Return the values of a table by their paths; a pool that is not set is the usual one of the encoder.

    A pool with a table of its own is compared by its alignment.
    """
    pool = getattr(table, "pooled_by", None)
    return flat(table.model_dump() | ({} if pool is None else {"pool": getattr(pool, "alignment", pool)}))


def _differences(recipe: Recipe, start: Recipe) -> Iterator[str]:
    """Yield a line for each key in which the recipe differs from the start, other than those of data and training."""
    said: list[tuple[str, Section, Section, Iterable[str]]] = [
        ("data", recipe.data, start.data, (*_TEXT_FORM, *_start_keys(recipe, start)))
    ]
    if not _other_head(recipe, start):
        said.insert(0, ("model", recipe.model, start.model, type(recipe.model).model_fields))
    for section, ours, theirs, keys in said:
        for key in sorted(ours.model_fields_set.intersection(keys)):
            was, now = getattr(theirs, key), getattr(ours, key)
            if was != now:
                yield f"`{section}.{key}` was {shown(was)} and is {shown(now)}"
    if "tokenizer" in recipe.model_fields_set:
        was, now = start.tokenizer.model_dump(), recipe.tokenizer.model_dump()
        grows = recipe.tokenizer.extend is not None  # such a table need not have the other keys
        named = recipe.tokenizer.model_fields_set - {"kind"} if grows else was.keys() | now.keys()
        for key in sorted(key for key in named - {"extend"} if was.get(key) != now.get(key)):
            kept = f"stays {shown(was.get(key))}, as the vocabulary is kept"
            yield f"`tokenizer.{key}` {kept}; the recipe says {shown(now.get(key))}"
