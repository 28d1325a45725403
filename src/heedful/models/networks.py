"""Networks: compositions of encoders, decoders, pools and heads."""

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from heedful.base.packed import Images, Nested, Packed
from heedful.data.batches.pairs import PairBatch
from heedful.data.batches.tagged import TaggedBatch
from heedful.data.batches.windows import StreamBatch, WindowBatch
from heedful.data.tokenize.tokenizer import END
from heedful.data.tokenize.vocabularies import Scale
from heedful.models.heads import Hidden, MaskedHead, Pooler
from heedful.models.hierarchical import Pooled
from heedful.models.images import ImageAnswerer
from heedful.models.protocols import Decoder, Encoder, Generator, HasPrecision
from heedful.nn.crf import LinearChain
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.layers.letters import LetterVectors
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pooling import FirstPool
from heedful.nn.per_sentence import ends_of_sentences
from heedful.nn.recurrent.output_feedback import OutputToHidden, TeacherForced


class EncoderDecoder(Generator):
    """Any encoder with any decoder over its memory: the Transformer, and every other sequence-to-sequence model."""

    encoder: Encoder  # there always is one

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder  # type: ignore[assignment]

    def forward(self, source: Packed | Images, target: Packed) -> Float[Tensor, "N V"]:
        """Return the scores of every next target token, given the target so far (teacher forcing)."""
        return self.decoder(target, self.encoder(source))

    def states(self, source: Packed | Images, target: Packed) -> Float[Tensor, "N E"]:
        """Return the vectors that the output layer scores: a loss need not hold the scores of the whole batch."""
        return self.decoder.states(target, self.encoder(source))

    @property
    def output(self) -> Output:
        """The layer that turns states into scores."""
        return self.decoder.output

    def next_token_states(self, batch: PairBatch) -> Float[Tensor, "N E"]:
        """Return one vector for each target token, to predict it by."""
        return self.states(batch.source, batch.target)


class ImageCaptioner(EncoderDecoder):
    """An encoder of images with any decoder over the vectors of their patches."""


class MemoryReader(Generator):
    """A decoder over memories that were encoded before: what a search is given where the source is not text."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Identity(), decoder  # type: ignore[assignment]


class LanguageModel(Generator):
    """A decoder without memory: it predicts every next token of a text from the tokens before it."""

    encoder: None = None

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder  # type: ignore[assignment]

    def forward(self, tokens: Packed) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, given the text so far."""
        return self.decoder(tokens, None)

    @property
    def output(self) -> Output:
        """The layer that turns states into scores."""
        return self.decoder.output

    def next_token_states(self, batch: StreamBatch | WindowBatch) -> Float[Tensor, "N E"]:
        """Return one vector for each token, to predict the next one by."""
        return self.decoder.states(batch.inputs, None)


class LanguageEncoder(nn.Module):
    """A language model as the encoder of texts `<s> text <extract>` or `<s> text <delimiter> second <extract>`

    Radford et al. 2018, 3.3. The last state, of `<extract>`, has read the whole text. Batches have `</s>` in place of
    both; the vocabulary stays as it is, and the two are vectors of their own, `markers`, which fine-tuning learns from
    random values. `<s>` is known to the language model, unlike in the paper.
    """

    def __init__(self, decoder: nn.Module, markers: nn.Parameter) -> None:
        super().__init__()
        embedding = decoder.embedding
        assert isinstance(embedding, Embedding)
        self.markers = embedding.markers = markers
        self.decoder: Decoder = decoder  # type: ignore[assignment]

    def forward(self, text: Packed) -> Packed:
        """Return the vectors of all tokens."""
        return text.with_values(self.decoder.states(self.marked(text), None))

    def marked(self, text: Packed) -> Packed:
        """Return the tokens with each `</s>` as one of the own markers: `<extract>` at the end, else `<delimiter>`."""
        delimiter = self.decoder.output.weight.shape[0]  # the first token after the vocabulary
        marker_N = delimiter + ends_of_sentences(text.layout).to(text.values.dtype)
        return text.with_values(torch.where(text.values == END, marker_N, text.values))


class PooledNetwork(nn.Module):
    """scores = W D(pool(encoder(x))) + b: any encoder, any pool, of a text, of the two of a pair, or of an image.

    A pooler, and then a hidden layer, may follow the pool.
    """

    def __init__(
        self, pooled: Pooled, pooler: Pooler | None, dropout: float, output: Linear, hidden: Hidden | None = None
    ) -> None:
        super().__init__()
        self.pooled, self.pooler, self.hidden = pooled, pooler or nn.Identity(), hidden or nn.Identity()
        self.drop, self.output = Dropout(dropout), output

    @property
    def encoder(self) -> nn.Module:
        """The part that reads the text or the image."""
        return self.pooled.encoder

    def forward(self, inputs: Packed | Nested | Images) -> Float[Tensor, "B C"]:
        """Score each text or image."""
        return self.scores(self.encoder(inputs))

    def scores(self, encoded: Packed) -> Float[Tensor, "B C"]:
        """Score each encoded text or image."""
        y_BE: Tensor = self.pooler(self.pooled.pool(encoded.values, encoded.layout))
        scores_BC: Tensor = self.output(self.drop(self.hidden(y_BE)))
        return scores_BC


class Classifier(PooledNetwork):
    """The scores of classes of a text, of a pair of texts, or of an image."""


class Regressor(PooledNetwork):
    """number = mean + deviation (w . D(pool(encoder(x))) + b), with the mean and the deviation of training numbers."""

    def __init__(self, scale: Scale, pooled: Pooled, pooler: Pooler | None, dropout: float, *head: Any) -> None:
        super().__init__(pooled, pooler, dropout, *head)
        self.scale = scale

    def scores(self, encoded: Packed) -> Float[Tensor, "B 1"]:
        """Return the number of each encoded text or image."""
        return self.scale.mean + self.scale.deviation * super().scores(encoded).float()


class WordClassifier(nn.Module):
    """scores = W D(encoder(text) at the first piece of each word) + b: one label per word, by any encoder.

    A hidden layer may come before W. With `letters`, a vector made of the letters of a word is added to the embedding
    of its first piece. The most likely label of each word is chosen by itself or, with a `chain`, together with those
    of its neighbours.
    """

    def __init__(
        self,
        encoder: nn.Module,
        dropout: float,
        output: Linear | OutputToHidden,
        chain: LinearChain | None = None,
        letters: LetterVectors | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.drop, self.output = encoder, Dropout(dropout), output
        self.chain, self.letters, self.hidden = chain, letters, hidden or nn.Identity()

    def forward(self, batch: TaggedBatch) -> Float[Tensor, "W C"]:
        """Score every label of each word."""
        scores_WC: Tensor = self.output(self.drop(self.hidden(self.states(batch))))
        return scores_WC

    def states(self, batch: TaggedBatch) -> Float[Tensor, "W E"]:
        """Return the encoder's state at the first piece of each word."""
        text = batch.text if self.letters is None else self.letters(batch.text)
        encoded: Packed = self.encoder(text)
        return encoded.values.index_select(0, batch.places)


class FedBackClassifier(WordClassifier):
    """h(t) = tanh(U D(x(t)) + W r(t-1) + b), scores(t) = V h(t) + c: a word reads what the word before was given.

    x(t) is the encoder's state at the first piece of word t. r is what the wiring feeds back: scores, or labels, which
    are the true ones in training.
    """

    output: OutputToHidden

    def forward(self, batch: TaggedBatch) -> Float[Tensor, "W C"]:
        """Score every label of each word: in training with true labels all at once, otherwise word by word."""
        x_WE = self.drop(self.states(batch))
        if not self.training or not isinstance(self.output, TeacherForced):
            return self.output(x_WE, batch.words)
        known_W = batch.labels.clamp(min=0)  # labels of dummies, IGNORED, are fed to dummies alone
        return self.output(x_WE, batch.words, one_hot(known_W, self.output.output_width).to(x_WE.dtype))


class SpanReader(nn.Module):
    """scores = W D(encoder(question and text)) + b, two per token: that an answer starts there, and that it ends there

    Devlin et al. 2019, 4.2. A hidden layer may come before W.
    """

    def __init__(self, encoder: nn.Module, dropout: float, output: Linear, hidden: Hidden | None = None) -> None:
        super().__init__()
        self.encoder, self.drop, self.output = encoder, Dropout(dropout), output
        self.hidden = hidden or nn.Identity()

    def forward(self, text: Packed) -> Float[Tensor, "N 2"]:
        """Score every token as the first and as the last one of an answer."""
        encoded: Packed = self.encoder(text)
        scores_N2: Tensor = self.output(self.drop(self.hidden(encoded.values)))
        return scores_N2


class MaskedModel(nn.Module):
    """BERT: an encoder that predicts masked tokens, and whether its second text follows the first

    Devlin et al. 2019. Without `follows` it predicts tokens alone, like RoBERTa (Liu et al. 2019).
    """

    optional_parts = ("pooler.", "follows.")  # the head for next sentences, which a model may go without

    def __init__(self, encoder: nn.Module, head: MaskedHead, pooler: Pooler | None, follows: Linear | None) -> None:
        super().__init__()
        self.encoder, self.head, self.pooler, self.follows = encoder, head, pooler, follows
        self._first = FirstPool()

    def forward(self, text: Packed) -> Packed:
        """Return the vectors of all tokens."""
        encoded: Packed = self.encoder(text)
        return encoded

    def masked(self, encoded: Packed, indices_P: Int[Tensor, "P"]) -> Float[Tensor, "P E"]:
        """Return the vectors that `head.output` scores, of the tokens at these packed indices."""
        return self.head.states(encoded.values.index_select(0, indices_P))

    def following(self, encoded: Packed) -> Float[Tensor, "B 2"]:
        """Return the scores that the second text follows the first, and that it was drawn from elsewhere."""
        assert self.pooler is not None, "a model without next-sentence prediction"
        assert self.follows is not None
        scores_B2: Tensor = self.follows(self.pooler(self._first(encoded.values, encoded.layout)))
        return scores_B2


Network = EncoderDecoder | PooledNetwork | ImageAnswerer | WordClassifier | SpanReader | MaskedModel | LanguageModel


def reader_of(network: nn.Module) -> nn.Module | None:
    """Return the part that reads texts, on which another head can be put; None in a network that has none.

    It is the encoder, or of a language model, alone or as an encoder, the decoder.
    """
    if isinstance(network, LanguageModel):
        return cast(nn.Module, network.decoder)
    encoder = getattr(network, "encoder", None)
    return cast(nn.Module, encoder.decoder) if isinstance(encoder, LanguageEncoder) else encoder


def set_precision(model: nn.Module, precision: torch.dtype) -> None:
    """Set the type in which the model computes; weights keep theirs."""
    for module in model.modules():
        if isinstance(module, HasPrecision):
            module.precision = precision


def precision_of(model: nn.Module) -> torch.dtype:
    """Return the type in which the model computes."""
    found = (module.precision for module in model.modules() if isinstance(module, HasPrecision))
    return next(found, torch.float32)


def store_in(network: nn.Module, precision: torch.dtype) -> None:
    """Store the matrices in the type they are used in, so that no step converts them; norms stay as they are."""
    for module in network.modules():
        if not isinstance(module, nn.LayerNorm | nn.RMSNorm):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(precision)
