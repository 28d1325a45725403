"""Explanations of numbers: what a model attended to in a text or an image, and gradients."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from heedful.base.packed import Nested, Packed
from heedful.explain.capture import capture_weights
from heedful.explain.explanation import Explanation, TokenSequence
from heedful.explain.gradients import explain_by_gradients
from heedful.explain.images import ExplainedImage
from heedful.explain.texts import explain_reading, name_inputs, only_used
from heedful.models.networks import Regressor
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel


@torch.no_grad()
def explain_number(
    model: LoadedModel[Regressor], name: str, read: Packed | Nested | ExplainedImage, gradients: bool
) -> Explanation:
    """Explain the number of a text, a pair or an image. Sequences: those of what is read, and `output`, the number."""
    image = read if isinstance(read, ExplainedImage) else None
    inputs: Any = read.packed().to(model.device) if isinstance(read, ExplainedImage) else read
    with evaluation_mode(model.network), capture_weights(model.network) as captured:
        number_B1: Tensor = model.network(inputs)
    named: Mapping[str, TokenSequence]
    if image is None:
        attentions, named = explain_reading(captured), name_inputs(model.vocabularies["text"], inputs)
    else:
        attentions = (
            *captured.explain("encoder", "patches", "patches"),
            *captured.explain("pool", "vectors", "patches"),
        )
        named = {"patches": TokenSequence.named(image.names()), "vectors": TokenSequence.named(["image"])}
    if gradients:
        run, part = partial(model.network, inputs), "text" if image is None else "patches"
        attentions += (*explain_by_gradients(model.network, run, [0], "output", part),)
    number = f"{float(number_B1[0, 0]):.4g}"
    gates = captured.explain_gates(dict(named))
    kept = {name: named[name] for name in {"patches" if image else "text", *(one.steps for one in gates)}}
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        name,
        number,
        {**only_used({**named, "output": TokenSequence.named([number])}, attentions), **kept},
        attentions,
        gates=gates,
        states=captured.explain_states(dict(named)),
        image=image,
    )
