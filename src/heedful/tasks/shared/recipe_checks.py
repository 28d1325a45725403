"""Rules for the recipes of models that read texts, and of models that read images."""

from heedful.config.corpora.any import SPLITS
from heedful.config.data import Data
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.images import AnyImageEncoder
from heedful.config.section import merge_tables
from heedful.config.tables import Tables


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


def check_patches(encoder: AnyImageEncoder, data: Data) -> None:
    """Refuse images with more patches than a batch may have, if their size is known."""
    size = data.images.size
    if size is not None:
        tokens = -(-size[0] // encoder.patch) * -(-size[1] // encoder.patch) + encoder.class_token
        if tokens > data.batch_tokens:
            raise ValueError(
                f"`data.batch_tokens` is {data.batch_tokens:,}, but an image of {size[0]} x {size[1]} pixels has "
                f"{tokens:,} patches: raise it"
            )


def on_bert(said: AnyModel, start: AnyModel) -> AnyModel:
    """Return a tagger or a reader with the encoder of a start that is a masked language model."""
    assert isinstance(said, TaggerModel | ReaderModel), f"{said.family} is neither a tagger nor a reader"
    assert isinstance(start, BertModel), f"{start.family} is not a masked language model"
    encoder = merge_tables(start, said.encoder if "encoder" in said.model_fields_set else None)
    return said.model_copy(update={"encoder": encoder})
