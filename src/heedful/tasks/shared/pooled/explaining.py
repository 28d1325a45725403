"""Explanations of one output: what a model attended to in a text, an image or a question about one, and gradients."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heedful.base.packed import Nested, Packed
from heedful.explain.capture import Capture, capture_weights, explain_by_gradients
from heedful.explain.explanation import AttentionWeights, ExplainedImage, Explanation, TokenSequence
from heedful.explain.readings import Reading
from heedful.explain.texts import explain_reading, name_inputs
from heedful.models.networks import PooledNetwork
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel


class Output(NamedTuple):
    """An output of a network as an explanation shows it."""

    score: int  # number of the score that gradients explain
    name: str  # of that score: the most likely class, or the number
    said: str  # what the model predicts
    classes: Mapping[str, float] = {}  # probability of each


Outputs = Callable[[Tensor], Output]  # from a network's outputs, of one row


def explain_text(
    model: LoadedModel[Any], text: str, read: Packed | Nested, output: Outputs, gradients: bool
) -> Explanation:
    """Explain the output for a text or a pair. Sequences: those of `name_inputs`, and `output`."""
    named = name_inputs(model.vocabularies["text"], read)
    return explain_output(model, text, read, named, explain_reading, output, gradients)


def explain_image(
    model: LoadedModel[Any], name: str, image: ExplainedImage, output: Outputs, gradients: bool
) -> Explanation:
    """Explain the output for an image, which has this name. Sequences: `patches`, `vectors` of pools, `output`."""

    def looking(captured: Capture) -> tuple[AttentionWeights, ...]:
        return (
            *captured.explain("encoder", "patches", "patches"),
            *captured.explain("pool", "vectors", "patches"),
        )

    named = {"patches": TokenSequence.named(image.names()), "vectors": TokenSequence.named(["image"])}
    return explain_output(model, name, image.packed().to(model.device), named, looking, output, gradients, image=image)


@torch.no_grad()
def explain_output(
    model: LoadedModel[Any],
    text: str,
    inputs: Any,
    sequences: Mapping[str, TokenSequence],
    attention: Callable[[Capture], tuple[AttentionWeights, ...]],
    output: Outputs,
    gradients: bool,
    **further: Any,
) -> Explanation:
    """Explain the output for what a network reads; `attention` tells which weights are between which sequences.

    `further` are fields of the explanation.
    """
    with evaluation_mode(model.network), capture_weights(model.network) as captured:
        outputs_BC: Tensor = model.network(inputs)
    found, attentions = output(outputs_BC.float().cpu()), attention(captured)
    if gradients:
        run, read = partial(model.network, inputs), "patches" if "patches" in sequences else "text"
        attentions += (*explain_by_gradients(model.network, run, [found.score], "output", read),)
    gates = captured.explain_gates(sequences)
    along = [*(one.queries for one in attentions), *(one.keys for one in attentions), *(one.steps for one in gates)]
    named = {**sequences, "output": TokenSequence.named([found.name])}
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        text,
        found.said,
        {name: one for name, one in named.items() if name in {"text", "patches", *along}},
        attentions,
        classes=found.classes,
        gates=gates,
        states=captured.explain_states(sequences),
        **further,
    )


def read_pooled(
    model: LoadedModel[Any],
    batch: Callable[[int], Packed | Nested],
    chosen: int,
    names: Callable[[Sequence[int]], Sequence[str]],
    scale: Callable[[Tensor], Tensor] | None,
) -> Reading:
    """Return how a text, a pair or a document is read and its output is predicted; `batch` makes copies of it.

    `scale` turns scores into log probabilities; without one, the output is a number.
    """
    network, read = model.network, batch(1)

    def run(copies: int) -> Tensor:
        scores_BC: Tensor = network(batch(copies))
        return scores_BC.unsqueeze(1)

    def head(states_NE: Tensor) -> Tensor:
        assert isinstance(read, Packed)
        scores_BC: Tensor = network.scores(read.with_values(states_NE))
        return scores_BC

    layered = isinstance(read, Packed) and isinstance(network, PooledNetwork) and scale is not None
    return Reading(
        network,
        run,
        {"text": name_inputs(model.vocabularies["text"], read)["text"]},
        TokenSequence.named(names([chosen])),
        (chosen,),
        names,
        scale=scale or torch.Tensor.float,
        head=head if layered else None,
        reader=network.get_submodule("pooled.encoder") if layered else None,
    )
