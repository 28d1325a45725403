"""Explanations of tags: what an encoder read, and the probabilities of each word's labels."""

from collections.abc import Sequence

import numpy as np
import torch

from heedful.data.batches.tagged import TaggedCollator
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, Tokenizer
from heedful.explain.capture import capture_weights, explain_by_gradients
from heedful.explain.explanation import Explanation, TokenPrediction, TokenSequence
from heedful.explain.texts import explain_reading
from heedful.models.networks import WordClassifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.tag.scoring import decide_labels, label_probabilities


@torch.no_grad()
def explain_tags(
    model: LoadedModel[WordClassifier], words: Sequence[str], store: TokenStore, top: int, gradients: bool
) -> Explanation:
    """Explain the labels of a sentence, whose words are in a store; a long one is several rows of it.

    Sequences: `text`, the pieces with markers; `words`. Its predictions are the labels.
    """
    network, labels = model.network, model.vocabularies.labels
    batch = TaggedCollator().batch([store], np.arange(len(store))).to(model.device)
    with evaluation_mode(network), capture_weights(network) as captured:
        scores_WC = network(batch).float().cpu()
    (decided_W,), (shares_WC,) = decide_labels(network, [scores_WC]), label_probabilities(network, [scores_WC])
    read, chosen = batch.text.values.tolist(), decided_W.tolist()
    text = _name_pieces(model.vocabularies["text"], read, batch.places.tolist(), words)
    attentions = explain_reading(captured)
    if gradients:
        attentions += (
            *explain_by_gradients(network, lambda: network(batch), chosen, "words", "text", length=len(read)),
        )
    predictions = []
    for index, (label, shares) in enumerate(zip(chosen, shares_WC.tolist(), strict=True)):
        others = sorted((other for other in range(len(labels)) if other != label), key=lambda one: -shares[one])
        runners_up = tuple((labels[other], shares[other]) for other in others[:top])
        predictions.append(TokenPrediction(index, labels[label], shares[label], runners_up))
    tagged = " ".join(f"{word}/{one.piece}" for word, one in zip(words, predictions, strict=True))
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        " ".join(words),
        tagged,
        {"text": text, "words": TokenSequence.named(words)},
        attentions,
        "words",
        tuple(predictions),
        gates=captured.explain_gates({"text": text}),
        states=captured.explain_states({"text": text}),
    )


def _name_pieces(
    tokenizer: Tokenizer, tokens: Sequence[int], first_pieces: Sequence[int], words: Sequence[str]
) -> TokenSequence:
    """Name pieces by the words that the tagger was given, which begin at these places; markers are on their own."""
    begins, numbers, texts = set(first_pieces), list[int](), list[str]()
    pieces, given = tokenizer.pieces(tokens), iter(words)
    for place, (token, piece) in enumerate(zip(tokens, pieces, strict=True)):
        if place in begins:
            texts.append(next(given))
        elif token in (BEGIN, END):
            texts.append(piece)
        numbers.append(len(texts) - 1)
    return TokenSequence(tuple(pieces), tuple(numbers), tuple(texts))
