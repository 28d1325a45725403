"""Explanations of networks that read a text: classifiers, masked language models, taggers."""

from collections.abc import Sequence
from itertools import pairwise

from heedful.data.tokenize.tokenizer import END
from heedful.errors import UserError
from heedful.packed import Nested, Packed
from heedful.tasks.shared.explaining.capture import Capture
from heedful.tasks.shared.explaining.explanation import AttentionWeights, ShowsPieces, TokenSequence


def name_inputs(tokenizer: ShowsPieces, inputs: Packed | Nested) -> dict[str, TokenSequence]:
    """Return the sequences of what a network reads: `text`; `sentences` of a document; `vectors` that pools make."""
    words = inputs.words if isinstance(inputs, Nested) else inputs
    tokens: list[int] = words.values.tolist()
    found = {"text": TokenSequence.of(tokenizer, tokens)}
    if isinstance(inputs, Nested):
        ends = words.layout.offsets.tolist()
        sentences = [tokens[begin:end] for begin, end in pairwise(ends)]
        spelled = [tokenizer.decode([token for token in sentence if token != END]).strip() for sentence in sentences]
        return found | {"sentences": TokenSequence.named(spelled), "vectors": TokenSequence.named(["document"])}
    names = ["text"] if words.layout.sentences == 1 else ["first text", "second text"]
    return found | {"vectors": TokenSequence.named(names)}


def explain_reading(captured: Capture) -> tuple[AttentionWeights, ...]:
    """Return the weights with which an encoder read a text, and those of its pools."""
    nested = "words" in captured.kinds
    return (
        *captured.explain("encoder", "text", "text"),
        *captured.explain("decoder", "text", "text"),
        *captured.explain("words", "sentences", "text"),
        *captured.explain("pool", "vectors", "sentences" if nested else "text"),
    )


def only_used(sequences: dict[str, TokenSequence], attentions: Sequence[AttentionWeights]) -> dict[str, TokenSequence]:
    """Return the sequences along which there are weights, and the text."""
    used = {"text", *(one.queries for one in attentions), *(one.keys for one in attentions)}
    return {name: one for name, one in sequences.items() if name in used}


def refuse_blank(text: str) -> None:
    """Refuse a text in which there is nothing to explain."""
    if not text.strip():
        raise UserError("The text is blank: there is nothing to explain.")
