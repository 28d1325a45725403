"""What graphs over rows of one length cannot hold: without torch."""

from collections.abc import Iterator

from heedful.config.data import Data
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.encoders import TransformerEncoderTable
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.model.pooled import ImageModel, TextModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal
from heedful.interop.exports.stack_refusals import attention_of_sites, other_attention

_ATTENTION = "only a softmax of scaled dot products is exported"


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values no graph of ours has, each with the reason."""
    match recipe.model:
        case TransformerModel() as model:
            yield from _of_translator(model)
        case BertModel() as model:
            yield from other_attention(model, "model", _ATTENTION)
        case LanguageModelTable(decoder=TransformerDecoderTable() as decoder):
            yield from other_attention(decoder, "model.decoder", _ATTENTION)
        case LanguageModelTable(decoder=decoder):
            yield _other("model.decoder.family", decoder.family)
        case TextModel() as model:
            if model.joins_after_reading:
                yield Refusal("model.join", "texts that are read one by one are no graph of one sequence")
            if not isinstance(model.pooled_by, str):
                yield Refusal("model.pool", "a pool that attends by an alignment is not exported")
            yield from _of_encoder(model.encoder)
        case TaggerModel() as model:
            if model.crf:
                yield Refusal("model.crf", "a graph scores labels, but a CRF chooses them together")
            if model.letters is not None:
                yield Refusal("model.letters", "a graph reads pieces, and no letters")
            if model.feedback != "none":
                yield Refusal("model.feedback", "a graph scores all words at once, but these one after the other")
            yield from _of_encoder(model.encoder)
        case ReaderModel() as model:
            if model.mark_matches:
                yield Refusal("model.mark_matches", "a graph does not look up the words of a question")
            yield from _of_encoder(model.encoder)
        case ImageModel() as model:
            yield from _of_images(model, recipe.data)
        case model:
            yield _other("model.family", model.family)


def _other(key: str, family: str) -> Refusal:
    return Refusal(key, f"only Transformers and networks of images are exported as graphs, and this is {family}")


def _of_translator(model: TransformerModel) -> Iterator[Refusal]:
    if model.encoder_layer != "attention":
        yield Refusal("model.encoder_layer", "convolutions over packed tokens are not exported")
    if model.word_positions:
        yield Refusal("model.word_positions", "a graph does not count words")
    yield from attention_of_sites(model, _ATTENTION)


def _of_encoder(encoder: object) -> Iterator[Refusal]:
    if isinstance(encoder, TransformerEncoderTable | BertModel):
        yield from other_attention(encoder, "model.encoder", _ATTENTION)
    else:
        yield _other("model.encoder.family", str(getattr(encoder, "family", encoder)))


def _of_images(model: ImageModel, data: Data) -> Iterator[Refusal]:
    if not isinstance(model.pooled_by, str):
        yield Refusal("model.pool", "a pool that attends by an alignment is not exported")
    if isinstance(model.encoder, ImageTransformerTable):
        yield from other_attention(model.encoder, "model.encoder", _ATTENTION)
    elif data.images.size is None:
        yield Refusal("data.images", "a graph reads images of one size, but these have any")
