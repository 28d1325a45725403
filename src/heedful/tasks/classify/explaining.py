"""Explanations of classes: what a model attended to in a text or an image, co-attention, gradients, and the pool's
weights, the share of each token and of each sentence in a text's vector."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heedful.base.packed import Nested, Packed
from heedful.data.batches.images import AskedImages
from heedful.explain.capture import Capture, capture_weights
from heedful.explain.explanation import AttentionWeights, Explanation, TokenSequence
from heedful.explain.gradients import explain_by_gradients
from heedful.explain.images import ExplainedImage
from heedful.explain.texts import explain_reading, name_inputs, only_used
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.images import ImageAnswerer
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.classify.classification import classifications
from heedful.tasks.shared.loaded_model import LoadedModel


@torch.no_grad()
def explain_text(
    model: LoadedModel[Classifier], text: str, read: Packed | Nested, several: bool, gradients: bool
) -> Explanation:
    """Explain the classes of a text or a pair. Sequences: those of `name_inputs`, and `output`, the likeliest class."""
    with evaluation_mode(model.network), capture_weights(model.network) as captured:
        scores_BC: Tensor = model.network(read)
    labels = model.vocabularies.labels
    (found,) = classifications(scores_BC.float().cpu(), labels, several)
    best, attentions = int(scores_BC[0].argmax()), explain_reading(captured)
    if gradients:
        run = partial(model.network, read)
        attentions += (*explain_by_gradients(model.network, run, [best], "output", "text"),)
    named = name_inputs(model.vocabularies["text"], read)
    sequences = only_used(named | {"output": TokenSequence.named([labels[best]])}, attentions)
    gates = captured.explain_gates(named)
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        text,
        ", ".join(found.labels),
        sequences | {name: named[name] for name in {one.steps for one in gates}},
        attentions,
        classes=found.probabilities,
        gates=gates,
        states=captured.explain_states(named),
    )


@torch.no_grad()
def explain_image(model: LoadedModel[Classifier], image: ExplainedImage, name: str, gradients: bool) -> Explanation:
    """Explain the class of an image, which has this name. Sequences: `patches`, `vectors` of pools, `output`."""
    packed = image.packed().to(model.device)
    with evaluation_mode(model.network), capture_weights(model.network) as captured:
        scores_BC: Tensor = model.network(packed)
    attentions = (
        *captured.explain("encoder", "patches", "patches"),
        *captured.explain("pool", "vectors", "patches"),
    )
    sequences = {"vectors": TokenSequence.named(["image"])}
    run = partial(model.network, packed) if gradients else None
    return _explain_class(model, image, name, scores_BC, attentions, sequences, captured, run)


@torch.no_grad()
def explain_image_answer(
    model: LoadedModel[ImageAnswerer],
    image: ExplainedImage,
    name: str,
    asked: AskedImages,
    question: str,
    gradients: bool,
) -> Explanation:
    """Explain the answer to a question about an image. Sequences: `patches`; `text`, the question; `output`."""
    with evaluation_mode(model.network), capture_weights(model.network) as captured:
        scores_QC: Tensor = model.network(asked)
    sequences = {
        "text": TokenSequence.of(model.vocabularies["text"], asked.questions.values.tolist()),
        "vectors": TokenSequence.named(["answer"]),
    }
    run = partial(model.network, asked) if gradients else None
    found = _explain_class(model, image, name, scores_QC, _looking(captured), sequences, captured, run)
    return replace(found, question=question)


def _looking(captured: Capture) -> tuple[AttentionWeights, ...]:
    """Return how a question and an image were read together."""
    return (
        *captured.explain("patches", "vectors", "patches"),
        *captured.explain("words", "vectors", "text"),
        *captured.explain("cross", "text", "patches"),
        *captured.explain("question", "text", "text"),
        *captured.explain("encoder", "patches", "patches"),
    )


def _explain_class(
    model: LoadedModel[Any],
    image: ExplainedImage,
    text: str,
    scores_BC: Tensor,
    attentions: tuple[AttentionWeights, ...],
    sequences: Mapping[str, TokenSequence],
    captured: Capture,
    run: Callable[[], Tensor] | None,
) -> Explanation:
    """Explain the most likely class; `run` computes the scores again, for gradients."""
    labels, best = model.vocabularies.labels, int(scores_BC[0].argmax())
    if run is not None:
        attentions += (*explain_by_gradients(model.network, run, [best], "output", "patches"),)
    patches = {"patches": TokenSequence.named(image.names())}
    named = {**patches, **sequences, "output": TokenSequence.named([labels[best]])}
    read = {name: one for name, one in named.items() if name in ("patches", "text")}
    shares = scores_BC[0].float().softmax(dim=0).tolist()
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        text,
        labels[best],
        {**patches, **only_used(named, attentions)},
        attentions,
        classes=dict(zip(labels, shares, strict=True)),
        gates=captured.explain_gates(read),
        states=captured.explain_states(read),
        image=image,
    )


# --- weights of pools -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoolWeights:
    """Weights within a sentence of a document, or within a text or a pair that is read as one sequence."""

    pieces: tuple[str, ...]  # markers included, as the pool weights them too
    weights: tuple[float, ...]  # weight of each piece; they sum to one, unless the pool's own weights do not
    weight: float  # weight of the sentence in its document, which sum to one; 1 where the text is one sequence


@torch.inference_mode()
def pool_weights(
    network: Classifier, text: Packed | Nested, pieces_of: Callable[[Sequence[int]], list[str]]
) -> list[PoolWeights]:
    """Return the weights of one text, or of each text of a pair, the mean over features if a pool has one for each.

    The network must be in `eval` mode.
    """
    outer = network.pooled.weights(text).mean(dim=1).tolist()
    if isinstance(text, Packed):
        words, inner, outer = text, outer, [1.0] * text.layout.sentences
    else:
        assert isinstance(network.encoder, HierarchicalEncoder)
        words, inner = text.words, network.encoder.words.weights(text.words).mean(dim=1).tolist()
    pieces, ends = pieces_of(words.values.tolist()), words.layout.offsets.tolist()
    spans = zip(ends, ends[1:], outer, strict=False)
    return [PoolWeights(tuple(pieces[begin:end]), tuple(inner[begin:end]), weight) for begin, end, weight in spans]
