"""A lower bound on the number of a model's parameters, to refuse what no machine holds before it is built."""

from typing import Final, assert_never

from heedful.config.model.any import AnyEncoder, AnyModel
from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.encoders import HierarchicalEncoderTable, RecurrentEncoderTable
from heedful.config.model.language import ConvolutionalDecoderTable, LanguageModelTable, RecurrentDecoderTable
from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.tagger import TaggerModel
from heedful.config.model.transformer import TransformerModel, TransformerStack

MOST_PARAMETERS: Final = 100_000_000_000


def check_size(model: AnyModel) -> None:
    """Refuse a model of more parameters than any machine holds."""
    least = least_parameters(model)
    if least > MOST_PARAMETERS:
        raise ValueError(
            f"`model` has at least {least:,} parameters, but no machine holds more than {MOST_PARAMETERS:,}: lower its "
            "layers and widths"
        )


def least_parameters(
    model: AnyModel | AnyEncoder | RecurrentDecoderTable | ConvolutionalDecoderTable | TransformerStack,
) -> int:
    """Return how many parameters the layers have at least, without the vocabulary's embeddings."""
    match model:
        case TransformerModel():
            return _blocks(model, model.layers + (model.decoder_layers or model.layers))
        case TransformerStack():  # BERT, and an encoder on its own
            return _blocks(model, model.layers)
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
        case MixedModel():
            return sum(table.layers * table.width**2 for table in model.sides)
        case LanguageModelTable():
            return least_parameters(model.decoder)
        case ClassifierModel() | TaggerModel():
            return least_parameters(model.encoder)
        case _:
            assert_never(model)


def _blocks(stack: TransformerStack, count: int) -> int:
    """Return the weights of the feed-forward networks, of the outputs of attention, and of learned positions alone."""
    learned = stack.max_positions if stack.positions == "learned" else 0
    return count * stack.width * (2 * stack.inner + stack.width) + learned * stack.width
