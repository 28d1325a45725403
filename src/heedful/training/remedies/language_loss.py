"""The loss of a language model besides that of the classes that it is fine-tuned for      Radford et al. 2018, 3.2"""

from jaxtyping import Int
from torch import Tensor

from heedful.base.packed import IGNORED, Packed
from heedful.data.batches.texts import TextBatch
from heedful.data.tokenize.tokenizer import PAD
from heedful.models.networks import Classifier, LanguageEncoder
from heedful.nn.losses.predictions import JointPrediction, TokenPrediction
from heedful.nn.per_sentence import ends_of_sentences
from heedful.training.objectives import OneLabel, PredictiveObjective, Sums, token_loss


class WithLanguageLoss(PredictiveObjective[TextBatch, JointPrediction]):
    """L = L_classes + factor * L_language, for a classifier whose encoder is a language model

    Radford et al. 2018, 3.2. L_language is the mean cross-entropy of the next token, over all tokens of the texts of a
    micro-batch and the `</s>` after each of them.
    """

    def __init__(self, classes: OneLabel, factor: float) -> None:
        self.classes, self.factor = classes, factor

    def predict(self, model: Classifier, batch: TextBatch) -> JointPrediction:
        """Predict the class of each text, and its tokens."""
        assert isinstance(model.encoder, LanguageEncoder)
        assert isinstance(batch.text, Packed)
        encoded, labels_N = model.encoder(batch.text), next_tokens(batch.text)
        classes = self.classes.of_classes(model.scores(encoded), batch.labels)
        tokens = TokenPrediction(encoded.values, model.encoder.decoder.output, labels_N)
        texts, count = self._counts(batch, labels_N)
        return JointPrediction([(1.0, classes), (self.factor * texts / count, tokens)])

    def score(self, predicted: JointPrediction, batch: TextBatch) -> Sums:
        """Sum the loss over the texts of a micro-batch."""
        (_, of_classes), (_, tokens) = predicted.parts
        classes, language = self.classes.score(of_classes, batch), token_loss(tokens, 0.0).loss
        texts, count = self._counts(batch, tokens.labels_N)
        return Sums(classes.loss + self.factor * language * texts / count, classes.likelihood)

    def units(self, batch: TextBatch) -> int:
        """Return the number of texts."""
        return self.classes.units(batch)

    def tokens(self, batch: TextBatch) -> int:
        """Return the number of tokens in the texts, including markers."""
        return self.classes.tokens(batch)

    def _counts(self, batch: TextBatch, labels_N: Int[Tensor, "N"]) -> tuple[Tensor, Tensor]:
        """Count texts and tokens on the device: a graph that was captured with one batch is replayed with others."""
        texts = (batch.labels.reshape(len(batch.labels), -1)[:, 0] != IGNORED).sum()
        return texts, (labels_N != IGNORED).sum().clamp(min=1)


def next_tokens(text: Packed) -> Int[Tensor, "N"]:
    """Return the token after each token of a text; IGNORED after the last one, and for what fills up a batch."""
    next_N = text.values.roll(-1)
    return next_N.masked_fill(ends_of_sentences(text.layout) | (next_N == PAD), IGNORED)
