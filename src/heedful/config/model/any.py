"""Every [model] table that a recipe can have, and a lower bound on the number of its parameters."""

from typing import Annotated, Final, assert_never

from pydantic import Field

from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.encoders import (
    BagEncoderTable,
    HierarchicalEncoderTable,
    RecurrentEncoderTable,
)
from heedful.config.model.images import (
    AnyImageEncoder,
    ImageAnswererModel,
    ImageConvolutionsTable,
    ImageTransformerTable,
)
from heedful.config.model.language import ConvolutionalDecoderTable, LanguageModelTable, RecurrentDecoderTable
from heedful.config.model.mixed import CaptionerModel, MixedModel
from heedful.config.model.pooled import (
    AnyEncoder,
    ClassifierModel,
    ImageClassifierModel,
    ImageModel,
    ImageRegressorModel,
    PooledModel,
    RegressorModel,
    TextModel,
)
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerBlocks, TransformerModel, TransformerStack

AnyModel = Annotated[
    TransformerModel
    | RecurrentModel
    | MixedModel
    | ClassifierModel
    | ImageClassifierModel
    | RegressorModel
    | ImageRegressorModel
    | CaptionerModel
    | ImageAnswererModel
    | TaggerModel
    | ReaderModel
    | BertModel
    | LanguageModelTable,
    Field(discriminator="family"),
]
MOST_PARAMETERS: Final = 100_000_000_000  # more are refused before anything is built: no machine holds them


def text_encoder(model: AnyModel) -> AnyEncoder | None:
    """Return the table of the encoder that reads texts, on which another head can be put; None where there is none."""
    match model:
        case TextModel() | TaggerModel() | ReaderModel():
            return model.encoder
        case BertModel() | LanguageModelTable():
            return model
        case TransformerModel() | RecurrentModel() | MixedModel() | CaptionerModel():
            return None
        case ImageModel() | ImageAnswererModel():
            return None
        case _:
            assert_never(model)


def check_size(model: AnyModel) -> None:
    """Refuse a model of more parameters than any machine holds."""
    least = least_parameters(model)
    if least > MOST_PARAMETERS:
        raise ValueError(
            f"`model` has at least {least:,} parameters, but no machine holds more than {MOST_PARAMETERS:,}: lower its "
            "layers and widths"
        )


def least_parameters(
    model: AnyModel
    | AnyEncoder
    | AnyImageEncoder
    | RecurrentDecoderTable
    | ConvolutionalDecoderTable
    | TransformerStack,
) -> int:
    """Return how many parameters the layers have at least, without the vocabulary's embeddings."""
    match model:
        case TransformerModel():
            return _blocks(model, model.layers + (model.decoder_layers or model.layers))
        case TransformerStack():  # BERT, and an encoder on its own
            return _blocks(model, model.layers)
        case ImageTransformerTable():
            return model.layers * model.width * (2 * model.inner + _read_width(model)) + model.grid**2 * model.width
        case ImageConvolutionsTable():
            return model.depth * model.width**2
        case RecurrentModel():
            encoder = model.layers * (model.encoder_width or model.width) ** 2
            return encoder + (model.decoder_layers or model.layers) * model.width**2
        case RecurrentEncoderTable() | RecurrentDecoderTable():
            return model.layers * model.width**2
        case ConvolutionalDecoderTable():
            return model.layers * model.kernel * model.width**2
        case HierarchicalEncoderTable():
            letters = model.letters.width * model.letters.embedding if model.letters else 0
            return letters + least_parameters(model.words) + least_parameters(model.sentences)
        case BagEncoderTable():
            return model.buckets * model.width if model.ngrams > 1 else 0
        case MixedModel():
            return sum(table.layers * table.width**2 for table in model.sides)
        case CaptionerModel():
            layers = model.decoder.decoder_layers or model.decoder.layers
            return least_parameters(model.encoder) + layers * model.decoder.width**2
        case LanguageModelTable():
            return least_parameters(model.decoder)
        case PooledModel() | TaggerModel() | ReaderModel():
            return least_parameters(model.encoder)
        case ImageAnswererModel():
            return least_parameters(model.encoder) + least_parameters(model.question)
        case _:
            assert_never(model)


def _blocks(stack: TransformerStack, count: int) -> int:
    """Return the weights of the feed-forward networks, of the outputs of attention, and of learned positions alone."""
    learned = stack.max_positions if stack.positions_kind.limited else 0
    return count * stack.width * (2 * stack.inner + _read_width(stack)) + learned * stack.width


def _read_width(blocks: TransformerBlocks) -> int:
    """Return the width of what all heads of a block read."""
    return blocks.heads * blocks.head_widths[1]
