"""What models of CTranslate2 cannot hold: without torch."""

from collections.abc import Iterator

from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.model.transformer import TransformerModel, TransformerStack
from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal
from heedful.interop.exports.stack_refusals import attention_of_sites, other_attention

_ATTENTION = "CTranslate2 has no attention but a softmax of scaled dot products"


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values CTranslate2 has no counterpart for, each with the reason."""
    match recipe.model:
        case TransformerModel() as model:
            if recipe.rules.name != "translate":
                yield Refusal("task", f"CTranslate2 has no rules for what a model that {recipe.rules.does} may output")
            yield from _of_translator(model)
            yield from _of_stack(model, "model")
        case LanguageModelTable(decoder=TransformerDecoderTable() as decoder):
            yield from other_attention(decoder, "model.decoder", _ATTENTION)
            yield from _of_stack(decoder, "model.decoder")
        case LanguageModelTable(decoder=decoder):
            yield Refusal("model.decoder.family", f"CTranslate2 has no language model that is {decoder.family}")
        case model:
            yield Refusal("model.family", f"CTranslate2 has no model like {model.family}")


def _of_translator(model: TransformerModel) -> Iterator[Refusal]:
    if model.encoder_layer != "attention":
        yield Refusal("model.encoder_layer", "CTranslate2 has no Transformer with convolutions")
    if model.word_positions:
        yield Refusal("model.word_positions", "CTranslate2 does not count words")
    yield from attention_of_sites(model, _ATTENTION)


def _of_stack(table: TransformerStack, prefix: str) -> Iterator[Refusal]:
    if table.positions == "alibi":
        yield Refusal(f"{prefix}.positions", "CTranslate2 computes other ALiBi biases: scores differ by about 1")
    if table.attention_radius is not None:
        yield Refusal(f"{prefix}.attention_radius", "CTranslate2 lets every token attend to all others")
    if table.norm not in ("post", "pre"):
        yield Refusal(f"{prefix}.norm", f"CTranslate2 has norms before or after sublayers, and no {table.norm}")
    if len(set(table.head_widths)) > 1:
        yield Refusal(f"{prefix}.key_width", "CTranslate2 has keys and values of one width")
