"""From a recipe's [model] table to a network that reads one sequence: classifiers, taggers, readers, masked models."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar, assert_never

import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.base.label_schemes import allowed_transitions, scheme_of
from heedful.config.model.attention import AnyPool
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.encoders import (
    AnyLetters,
    BagEncoderTable,
    ConvolutionalLettersTable,
    HierarchicalEncoderTable,
    RecurrentEncoderTable,
    RecurrentLettersTable,
    TransformerEncoderTable,
)
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import AnyEncoder, ClassifierModel, PooledModel, TextModel
from heedful.data.prepare.letters import LETTERS
from heedful.models.from_recipe.attention import build_alignment, build_distance, build_distribution
from heedful.models.from_recipe.initialization import scale_initial_weights
from heedful.models.from_recipe.language import init_language, language_decoder
from heedful.models.from_recipe.recurrent import encoder_stack, letters_stack, lone_encoder
from heedful.models.from_recipe.transformer import build_norm, transformer_encoder
from heedful.models.heads import Hidden, MaskedHead, OneScore, Pooler
from heedful.models.hierarchical import HierarchicalEncoder, LetteredEncoder, Pooled, VectorEncoder
from heedful.models.networks import (
    Classifier,
    FedBackClassifier,
    LanguageEncoder,
    MaskedModel,
    SpanReader,
    WordClassifier,
)
from heedful.nn.attention.aligned_pooling import AlignedPool
from heedful.nn.attention.pair_pooling import COATTENTIONS, PairPool
from heedful.nn.crf import LinearChain, transition_matrix
from heedful.nn.initialization import init_normal, init_xavier
from heedful.nn.layers.embedding import Embedding, make_table
from heedful.nn.layers.letters import ConvolutionalLetters, LetterVectors
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.ngrams import NgramBag
from heedful.nn.layers.pooling import POOLS, Pool
from heedful.nn.recurrent.letters import RecurrentLetters
from heedful.nn.recurrent.output_feedback import OutputToHidden, TeacherForced, one_hot_argmax

_SMALL: Final = 0.02
Kind = TypeVar("Kind", bound=nn.Module)


def build_classifier(config: ClassifierModel, vocabulary: int, classes: int) -> Classifier:
    """Make a classifier with new weights, drawn from torch's global generator."""
    return build_pooled(config, vocabulary, classes, Classifier)


def build_pooled(config: TextModel, vocabulary: int, scores: int, network: Callable[..., Kind]) -> Kind:
    """Make a network that reads texts and gives each this number of scores, with new weights."""
    table, width = config.encoder, config.encoder.memory_width
    weight = make_table(vocabulary, table.embedding_width)
    encoder, pool = _encoder(table, weight), _pool(config, width)
    pooled_width = PairPool.vectors * width if config.joins_after_reading else width
    pooler, head_width = (Pooler(width, pooled_width), width) if config.pooler else (None, pooled_width)
    head = build_head(config, head_width, scores)
    model = network(Pooled(encoder, pool), pooler, config.dropout, *head)
    _initialize(model, table)
    return model


def build_tagger(config: TaggerModel, vocabulary: int, labels: Sequence[str]) -> WordClassifier:
    """Make a tagger with new weights, drawn from torch's global generator."""
    table = config.encoder
    weight = make_table(vocabulary, table.embedding_width)
    letters = None if config.letters is None else build_letters(config.letters, table.embedding_width)
    if config.feedback == "none":
        output, hidden = build_head(config, table.memory_width, len(labels))
        model = WordClassifier(_encoder(table, weight), config.dropout, output, letters=letters, hidden=hidden)
    else:
        wiring = _fed_back(config.feedback, table.memory_width, config.head_hidden or table.memory_width, len(labels))
        model = FedBackClassifier(_encoder(table, weight), config.dropout, wiring, letters=letters)
    _initialize(model, table)
    if config.crf:
        # Which label may follow which, where labels mark spans, depends on their names: it is not a weight.
        scheme = scheme_of(labels)
        allowed = None if scheme is None else transition_matrix(allowed_transitions(labels, scheme))
        model.chain = LinearChain(len(labels), allowed)  # it begins with zeros
    return model


def _fed_back(feedback: Literal["output", "target"], input_width: int, width: int, labels: int) -> OutputToHidden:
    match feedback:
        case "output":
            return OutputToHidden(input_width, width, labels)
        case "target":
            return TeacherForced(input_width, width, labels, feedback=one_hot_argmax)
        case _:
            assert_never(feedback)


def build_reader(config: ReaderModel, vocabulary: int) -> SpanReader:
    """Make a reader with new weights, drawn from torch's global generator."""
    table, width = config.encoder, config.encoder.memory_width
    weight = make_table(vocabulary, table.embedding_width)
    model = SpanReader(_encoder(table, weight), config.dropout, *build_head(config, width, 2))
    _initialize(model, table)
    return model


def build_head(
    config: PooledModel | TaggerModel | ReaderModel, width: int, scores: int
) -> tuple[Linear, Hidden | None]:
    """Make the linear map from vectors of this width to scores, and the hidden layer before it, if there is one."""
    inner = config.head_hidden
    hidden = None if inner is None else Hidden(width, inner, config.dropout)
    if isinstance(config, ClassifierModel) and config.one_score:
        if scores != 2:
            raise UserError(
                f"`model.one_score` decides between two classes, but the training data has {scores}: leave it out."
            )
        return OneScore(inner or width), hidden
    return Linear(inner or width, scores), hidden


def build_masked_model(config: BertModel, vocabulary: int) -> MaskedModel:
    """Make a masked language model with new weights, drawn from torch's global generator."""
    width, weight = config.width, make_table(vocabulary, config.width)
    activation = "silu" if config.activation == "swiglu" else config.activation  # without its gate
    head = MaskedHead(width, weight, nn.Parameter(torch.zeros(vocabulary)), build_norm(config), activation)
    pooler, follows = (Pooler(width), Linear(width, 2)) if config.next_sentence else (None, None)
    model = MaskedModel(_encoder(config, weight), head, pooler, follows)
    _initialize(model, config)
    return model


def _pool(config: TextModel, width: int) -> Pool:
    """Make the pool of a text, or the co-attention of a pair."""
    if config.joins_after_reading:
        return PairPool(COATTENTIONS[config.join](width, width))
    return build_pool(config.pooled_by, width)


def build_pool(said: AnyPool, width: int) -> Pool:
    """Make a pool of vectors of this width from its name or its table."""
    if isinstance(said, str):
        return POOLS[said](width)
    alignment = build_alignment(said, said.alignment, width, width)
    return AlignedPool(width, alignment, build_distribution(said, width), build_distance(said))


def _encoder(config: AnyEncoder, weight: nn.Parameter) -> nn.Module:
    match config:
        case TransformerEncoderTable() | BertModel():
            return transformer_encoder(config, weight, config.segments)
        case RecurrentEncoderTable():
            return lone_encoder(config, weight)
        case HierarchicalEncoderTable():
            encoder = _encoder(config.words, weight)
            if config.letters is not None:
                encoder = LetteredEncoder(encoder, build_letters(config.letters, config.embedding_width))
            words = Pooled(encoder, build_pool(config.word_pool, config.words.memory_width))
            stack = encoder_stack(config.sentences, config.words.memory_width)
            return HierarchicalEncoder(words, VectorEncoder(stack))
        case BagEncoderTable():
            return _bag(config, weight)
        case LanguageModelTable():
            return LanguageEncoder(language_decoder(config, weight), make_table(2, config.embedding_width))
        case _:
            assert_never(config)


def _bag(config: BagEncoderTable, weight: nn.Parameter) -> NgramBag:
    """Make a bag of n-grams; the vectors of tokens are not scaled, so that they do not outweigh those of n-grams."""
    dropouts: dict[str, Any] = {"dropout": config.dropout, "dropout_words": config.dropout_words, "scaled": False}
    hashed = None
    if config.ngrams > 1:
        hashed = Embedding(nn.Parameter(torch.zeros(config.buckets, config.width)), None, **dropouts)
    tokens, weighted = Embedding(weight, None, **dropouts), config.weighting == "rarity"
    bag = NgramBag(tokens, hashed, config.ngrams, weighted, config.weights_per_bucket)
    if bag.weights is not None:
        weight.data.mul_(_SMALL)  # values besides those of a regression
    return bag


def _initialize(model: nn.Module, encoder: AnyEncoder) -> None:
    """Initialize the weights: with BERT and GPT as their papers do, with others as in all other networks."""
    match encoder:
        case BertModel():
            if encoder.norm == "deepnorm":  # whose gains are those of Xavier's weights
                init_xavier(model)
            else:
                init_normal(model)
            scale_initial_weights(model)
        case LanguageModelTable():
            init_language(model, encoder)
        case TransformerEncoderTable() | RecurrentEncoderTable() | HierarchicalEncoderTable() | BagEncoderTable():
            init_xavier(model)
            scale_initial_weights(model)
        case _:
            assert_never(encoder)


def build_letters(config: AnyLetters, width: int) -> LetterVectors:
    """Make a reader of letters, whose vectors are added to embeddings of this width, with new weights."""
    embedding = Embedding(make_table(LETTERS, config.embedding), positions=None, dropout=config.dropout)
    reader: nn.Module
    match config:
        case ConvolutionalLettersTable():
            reader = ConvolutionalLetters(embedding, config.width, config.kernel)
        case RecurrentLettersTable():
            reader = RecurrentLetters(embedding, letters_stack(config))
        case _:
            assert_never(config)
    return LetterVectors(reader, config.width, width)
