"""Rules for the recipes of models that read texts, and of models that read images."""

from typing import Any, Final

from heedful.config.corpora.containers import SPLITS
from heedful.config.data import Data
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.images import AnyImageEncoder
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import ClassifierModel, RegressorModel, TextModel
from heedful.config.section import merge_tables
from heedful.config.task_rules import Tables
from heedful.config.tokenizer import ByteBpe

_OF_TEXTS: Final = ("max_length", "max_line", "max_ratio", "nfc", "lowercase", "tokenized")  # keys of [data]


def check_texts(recipe: Tables) -> None:
    """Refuse keys that apply to translators only."""
    if recipe.tokenizer.target is not None:
        raise ValueError("`tokenizer.target` applies to translators only, as texts have one vocabulary: leave it out")
    if not recipe.tokenizer.joint:
        raise ValueError("`tokenizer.joint` must be true, as texts have one vocabulary: leave it out")
    if recipe.data.tokenized is not None:
        raise ValueError("`data.tokenized` applies to translators only: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(recipe.data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")


def check_longest(recipe: Tables) -> None:
    """Refuse texts longer than the model has positions for."""
    end, data = recipe.model.longest, recipe.data
    if end is not None and data.max_length > end[0]:
        raise ValueError(
            f"`data.max_length` ({data.max_length}), markers included, must fit into `model.{end[1]}`, "
            f"but that is {end[0]}"
        )


def check_room(recipe: Tables, pairs: bool) -> None:
    """Refuse a length at which texts would be cut to markers only."""
    length, (least, read) = recipe.data.max_length, (5, "<s> A </s> B </s>") if pairs else (3, "<s> A </s>")
    if length < least:
        raise ValueError(
            f"`data.max_length` ({length}), markers included, must be at least {least}: a text is read as `{read}`"
        )


def check_patches(encoder: AnyImageEncoder, data: Data, asked: bool = False) -> None:
    """Refuse images with more patches than a batch may have, if their size is known; with questions if `asked`."""
    size = data.images.size
    if size is not None:
        tokens = -(-size[0] // encoder.patch) * -(-size[1] // encoder.patch) + encoder.class_token
        question = f" and a question up to {data.max_length:,} tokens (`data.max_length`)" if asked else ""
        if tokens + (data.max_length if asked else 0) > data.batch_tokens:
            raise ValueError(
                f"`data.batch_tokens` is {data.batch_tokens:,}, but an image of {size[0]} x {size[1]} pixels has "
                f"{tokens:,} patches{question}: raise it"
            )


def on_bert(said: AnyModel, start: AnyModel) -> AnyModel:
    """Return a tagger or a reader with the encoder of a start that is a masked language model."""
    assert isinstance(said, TaggerModel | ReaderModel), f"{said.family} is neither a tagger nor a reader"
    assert isinstance(start, BertModel), f"{start.family} is not a masked language model"
    encoder = merge_tables(start, said.encoder if "encoder" in said.model_fields_set else None)
    return said.model_copy(update={"encoder": encoder})


def check_pooled_texts(recipe: Tables, model: TextModel, learner: str) -> None:
    """Refuse texts, or pairs of texts, that a model with one output for each cannot read."""
    if not model.nested:
        check_longest(recipe)
    check_texts(recipe)
    corpora = [corpus for split in SPLITS for corpus in getattr(recipe.data, split)]
    pairs = ["second" in corpus.roles for corpus in corpora]
    if any(pairs) and not all(pairs):
        raise ValueError(f"`second` must be set in all corpora or in none: {learner} reads pairs or single texts")
    if any(pairs) and model.nested:
        raise ValueError(
            '`second` makes pairs of texts, which `encoder.family = "hierarchical"` does not read: leave it out, or '
            "use another encoder"
        )
    if model.joins_after_reading and not any(pairs):
        raise ValueError(
            f'`model.join = "{model.join}"` joins pairs of texts, but `data.train` has single texts: set `second`, or '
            "leave `join` out"
        )
    if any(pairs) and not model.joins_after_reading and getattr(model.encoder, "segments", 0) == 1:
        raise ValueError(
            "`model.encoder.segments` must be 2 where `second` makes pairs of texts, or 0 to tell them apart by their "
            "markers alone, but is 1"
        )
    if not model.nested:
        check_room(recipe, any(pairs) and not model.joins_after_reading)


def refuse_text_keys(recipe: Tables, learner: str, encoder: AnyImageEncoder) -> None:
    """Refuse keys of texts for a model that reads images, and images that do not fit into a batch."""
    data = recipe.data
    if recipe.tokenizer != ByteBpe():
        raise ValueError(f"`tokenizer` applies to texts, and {learner} reads none: leave it out")
    for key in _OF_TEXTS:
        if getattr(data, key) != Data.model_fields[key].default:
            raise ValueError(f"`data.{key}` applies to texts, and {learner} reads none: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")
    check_patches(encoder, data)


def put_on_encoder(said: AnyModel, start: AnyModel) -> AnyModel:
    """Return a model with the start's encoder, and with its pooler if it has one and `pooler` is not set."""
    assert isinstance(said, ClassifierModel | RegressorModel), f"{said.family} does not pool texts"
    assert isinstance(start, BertModel | LanguageModelTable), f"{start.family} is not in `other_starts`"
    update: dict[str, Any] = {
        "encoder": merge_tables(start, said.encoder if "encoder" in said.model_fields_set else None)
    }
    pooled = said.pooled_by == "first" and not said.joins_after_reading
    if isinstance(start, BertModel) and pooled and "pooler" not in said.model_fields_set:
        update["pooler"] = start.next_sentence
    return said.model_copy(update=update)
