"""From a recipe's [model] table to its network."""

from functools import partial
from typing import Final, assert_never

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from heedful.base.trees import closes, opens
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.mixed import CaptionerModel, MixedModel, PairModel
from heedful.config.model.pooled import ClassifierModel, ImageClassifierModel, ImageRegressorModel, RegressorModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.encoder_only import (
    build_classifier,
    build_masked_model,
    build_pooled,
    build_reader,
    build_tagger,
)
from heedful.models.from_recipe.images import (
    build_image_answerer,
    build_image_classifier,
    build_pooled_images,
    image_encoder,
    init_images,
)
from heedful.models.from_recipe.initialization import scale_embeddings, scale_initial_weights
from heedful.models.from_recipe.language import build_language_model
from heedful.models.from_recipe.recurrent import recurrent_decoder, recurrent_encoder
from heedful.models.from_recipe.transformer import transformer_decoder, transformer_encoder
from heedful.models.networks import EncoderDecoder, ImageCaptioner, Network, Regressor
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.embedding import make_table

WordEnds = tuple[Bool[Tensor, "V"], Bool[Tensor, "V2"]]  # of the source and the target vocabulary

_END: Final = "</w>"  # of pieces that end a word, in vocabularies that mark them


def build_network(config: AnyModel, vocabularies: Vocabularies) -> Network:
    """Make the network of a recipe with new weights, drawn from torch's global generator."""
    match config:
        case ClassifierModel():
            return build_classifier(config, vocabularies["text"].size, len(vocabularies.labels))
        case ImageClassifierModel():
            return build_image_classifier(config, len(vocabularies.labels))
        case RegressorModel() | ImageRegressorModel():
            assert vocabularies.scale is not None, "numbers without a scale"
            network = partial(Regressor, vocabularies.scale)
            if isinstance(config, ImageRegressorModel):
                return build_pooled_images(config, 1, network)
            return build_pooled(config, vocabularies["text"].size, 1, network)
        case CaptionerModel():
            return build_captioner(config, vocabularies["text"])
        case ImageAnswererModel():
            return build_image_answerer(config, vocabularies["text"].size, len(vocabularies.labels))
        case TaggerModel():
            return build_tagger(config, vocabularies["text"].size, vocabularies.labels)
        case ReaderModel():
            return build_reader(config, vocabularies["text"].size)
        case BertModel():
            return build_masked_model(config, vocabularies["text"].size)
        case LanguageModelTable():
            return build_language_model(config, vocabularies["text"].size)
        case TransformerModel() | RecurrentModel() | MixedModel():
            source, target = vocabularies["source"], vocabularies["target"]
            counts = any(isinstance(side, TransformerModel) and side.word_positions for side in config.sides)
            ends = (word_ends(source), word_ends(target)) if counts else None  # which takes long for large vocabularies
            return build_model(config, source.size, target.size, ends)
        case _:
            assert_never(config)


def build_model(config: PairModel, source_size: int, target_size: int, ends: WordEnds | None = None) -> EncoderDecoder:
    """Make an encoder-decoder with new weights: its vocabulary matrices, its encoder and its decoder.

    `ends` says which tokens of either side end a word, where words are counted; by default all do.
    """
    first, second = config.sides
    if config.tie == "all" and source_size != target_size:
        raise ValueError("one matrix for both embeddings needs one vocabulary")
    source = make_table(source_size, first.embedding_width)
    target = source if config.tie == "all" else make_table(target_size, second.embedding_width)
    output = make_table(target_size, second.width) if config.tie == "none" else target
    ends = ends or (torch.ones(source_size, dtype=torch.bool), torch.ones(target_size, dtype=torch.bool))
    encoder: nn.Module
    match first:
        case TransformerModel():
            encoder = transformer_encoder(first, source, ends_V=ends[0] if first.word_positions else None)
        case RecurrentModel():
            encoder = recurrent_encoder(first, source)
        case _:
            assert_never(first)
    model = EncoderDecoder(encoder, _decoder(second, target, output, first.memory_width, ends[1]))
    init_xavier(model)
    scale_initial_weights(model)
    if isinstance(config, TransformerModel):
        scale_embeddings(config, source, target)
    return model


def build_captioner(config: CaptionerModel, vocabulary: Tokenizer) -> ImageCaptioner:
    """Make a captioner with new weights, drawn from torch's global generator."""
    table = config.decoder
    words = make_table(vocabulary.size, table.embedding_width)
    output = make_table(vocabulary.size, table.width) if config.tie == "none" else words
    decoder = _decoder(table, words, output, config.memory_width, word_ends(vocabulary), table.dropout_words)
    init_xavier(decoder)
    encoder = image_encoder(config.encoder)
    init_images(encoder, config.encoder)
    model = ImageCaptioner(encoder, decoder)
    scale_initial_weights(model)
    return model


def _decoder(
    config: TransformerModel | RecurrentModel,
    weight: nn.Parameter,
    output: nn.Parameter,
    memory_width: int,
    ends_V: Bool[Tensor, "V"],
    dropout_words: float = 0.0,
) -> nn.Module:
    match config:
        case TransformerModel():
            counted = ends_V if config.word_positions else None
            return transformer_decoder(config, weight, output, memory_width, counted, dropout_words)
        case RecurrentModel():
            return recurrent_decoder(config, weight, output, memory_width, dropout_words)
        case _:
            assert_never(config)


def word_ends(tokenizer: Tokenizer) -> Bool[Tensor, "V"]:
    """Return for each token whether it ends a word; in vocabularies that mark where words begin, whether it begins one.

    Brackets of trees and markers do neither.
    """
    pieces = tokenizer.pieces(range(tokenizer.size))
    if any(piece.endswith(_END) for piece in pieces):
        marked = [piece.endswith(_END) or token == UNKNOWN for token, piece in enumerate(pieces)]
    else:
        marked = [not tokenizer.continues_word(token) for token in range(tokenizer.size)]
    ends = torch.tensor(
        [mark and not opens(piece) and not closes(piece) for mark, piece in zip(marked, pieces, strict=True)]
    )
    ends[[PAD, BEGIN, END, *tokenizer.tags.values()]] = False
    return ends
