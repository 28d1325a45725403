"""What language models of `transformers` cannot hold: without torch."""

from collections.abc import Iterator, Mapping
from typing import Final

from heedful.config.model.language import LanguageModelTable
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.interop.exports.formats import Refusal
from heedful.interop.exports.stack_refusals import PLAIN, Allowed, other_heads, other_values
from heedful.interop.transformers.language.kinds import GPT2, decoder_of, kind_of

_WHERE: Final = "model.decoder"
_BOTH: Final[Allowed] = {
    **PLAIN,
    "norm": ("pre",),
    "final_norm": (None, True),
    "embedding_scale": (False,),
    "embedding_norm": (False,),
}
_GPT2: Final[Allowed] = {
    **_BOTH,
    "norm_kind": ("layer",),
    "bias": (True,),
    "projection_bias": (None, True),
    "activation": ("gelu", "gelu_tanh", "relu", "silu"),
    "positions": ("learned",),
    "attention_radius": (None,),
}
_LLAMA: Final[Allowed] = {**_BOTH, "norm_kind": ("rms",), "activation": ("swiglu",), "positions": ("rope",)}
_BIASES: Final[Mapping[str, Allowed]] = {  # of each type like Llama
    "mistral": {"bias": (False,), "projection_bias": (None, False)},
    "qwen2": {},
}


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values GPT-2, Llama and its kin do not have, each with the reason."""
    decoder, table = decoder_of(recipe), model_of(recipe, LanguageModelTable)
    if decoder.family != "transformer":
        why = f'transformers has decoders like "transformer" only, not like "{decoder.family}"'
        yield Refusal(f"{_WHERE}.family", why)
        return
    kind = kind_of(decoder)
    if kind is GPT2:
        yield from other_values(decoder, _WHERE, _GPT2, kind.title)
        yield from other_heads(decoder, _WHERE, kind.title, shared=False)
    else:
        llama: Allowed = {"projection_bias": (None, decoder.bias)}  # all maps of attention have biases, or none
        allowed = {**_LLAMA, **_BIASES.get(kind.model_type, llama)}
        yield from other_values(decoder, _WHERE, allowed, kind.title)
        if decoder.head_widths[0] != decoder.head_widths[1]:
            yield Refusal(f"{_WHERE}.value_width", f"in {kind.title} values are as wide as keys")
    # The bias of an imported model only keeps copies of markers from being predicted: see `writing.py`.
    imported = any(corpus.name == "imported" for corpus in recipe.data.train) or recipe.train.start_from
    if table.output_bias and not imported:
        yield Refusal("model.output_bias", f"in {kind.title} the output layer has no bias")
