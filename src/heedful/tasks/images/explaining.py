"""Explanations of what models see in images: attention over patches, co-attention, gradients."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heedful.data.images.questions.batches import AskedImages
from heedful.explain.capture import Capture, capture_weights
from heedful.explain.explanation import AttentionWeights, Explanation, TokenSequence
from heedful.explain.gradients import explain_by_gradients
from heedful.explain.images import ExplainedImage
from heedful.explain.texts import only_used
from heedful.models.images import ImageAnswerer
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel


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
