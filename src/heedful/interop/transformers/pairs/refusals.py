"""What MarianMT and Pegasus cannot hold of a translator: without torch.

MarianMT has norms after residual sums, Pegasus before sublayers and after the last block. Apart from that they are one
model: sinusoidal positions with all sines before all cosines, layer norms, heads of equal widths, and a network of two
layers. Shared heads of keys and values can be written out, and missing biases are zeros.
"""

from collections.abc import Iterator
from typing import Final

from heedful.config.model.transformer import SITE_KEYS, SITES, TransformerModel
from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal

KINDS: Final = {"post": "MarianMT", "pre": "Pegasus"}  # by `model.norm`
POSITIONS: Final = ("sinusoidal", "sinusoidal_halves")
EPSILON: Final = 1e-5  # of all norms


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys of a recipe that neither model can hold."""
    model = recipe.model
    assert isinstance(model, TransformerModel), "chosen by its family"
    if recipe.rules.name != "translate":
        yield Refusal("task", f"transformers has no search for a model that {recipe.rules.does}")
    if model.norm not in KINDS:
        yield Refusal("model.norm", 'transformers has encoder-decoders with the norms "post" and "pre" only')
        return
    kind = KINDS[model.norm]
    yield from _of_blocks(model, kind)
    yield from _of_attention(model, kind)
    yield from _of_embeddings(recipe, model, kind)


def _of_blocks(model: TransformerModel, kind: str) -> Iterator[Refusal]:
    if model.norm_kind != "layer":
        yield Refusal("model.norm_kind", f"{kind} has layer norms only")
    if model.norm_epsilon != EPSILON:
        yield Refusal("model.norm_epsilon", f"the epsilon of {kind} is always {EPSILON}")
    if model.final_norm not in (None, model.norm == "pre"):
        yield Refusal("model.final_norm", f"{kind} always has {'one' if model.norm == 'pre' else 'none'}")
    if model.activation == "swiglu":
        yield Refusal("model.activation", f"{kind} has no gated networks")
    if model.encoder_layer != "attention":
        yield Refusal("model.encoder_layer", f"{kind} has self-attention in every layer")


def _of_attention(model: TransformerModel, kind: str) -> Iterator[Refusal]:
    only = f"{kind} has softmax attention by scaled dot products only"
    for site, key in zip(SITES, SITE_KEYS, strict=True):
        if getattr(model, key) is not None and not model.at(site).plain:
            yield Refusal(f"model.{key}", only)
    usual = type(model).model_fields
    for key in ("alignment", "distribution", "choice"):
        # Sites with tables of their own may be plain where the model is not.
        if getattr(model, key) != usual[key].default and not all(model.at(site).plain for site in SITES):
            yield Refusal(f"model.{key}", only)
    share = model.width / model.heads
    for key in ("key_width", "value_width"):
        if getattr(model, key) not in (None, share):
            yield Refusal(f"model.{key}", f"the heads of {kind} share its width evenly")
    if model.attention_radius is not None:
        yield Refusal("model.attention_radius", f"every token of {kind} attends to all tokens")


def _of_embeddings(recipe: Recipe, model: TransformerModel, kind: str) -> Iterator[Refusal]:
    if model.positions not in POSITIONS:
        yield Refusal("model.positions", f"{kind} has sinusoidal positions only")
    if recipe.data.target_tags:
        yield Refusal("data.target_tags", f"{kind} starts all translations alike")
    if model.word_positions:
        yield Refusal("model.word_positions", f"{kind} counts tokens, not words")
    if model.embeddings > 1:
        yield Refusal("model.embeddings", f"{kind} has one embedding for each token")
    if model.embedding_norm:
        yield Refusal("model.embedding_norm", f"{kind} has no norm after the embedding")
    if model.norm == "pre" and recipe.tokenizer.why_separate is not None:
        separate = "joint" if recipe.tokenizer.target is None else "target"
        yield Refusal(f"tokenizer.{separate}", f"{kind} has one vocabulary for source and target")
    elif model.norm == "pre" and model.tie != "all":
        yield Refusal("model.tie", f"{kind} has one matrix for both embeddings and the output layer")
