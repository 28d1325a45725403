"""Explanations of networks that read a text: classifiers, masked language models, taggers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor

from heedful.base.arguments import check_text, check_whole
from heedful.base.errors import UserError
from heedful.base.packed import Nested, Packed
from heedful.data.tokenize.tokenizer import END, Tokenizer
from heedful.explain.capture import Capture
from heedful.explain.explanation import AttentionWeights, Explanation, TokenPrediction, TokenSequence


def name_inputs(tokenizer: Tokenizer, inputs: Packed | Nested) -> dict[str, TokenSequence]:
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


def refuse_blank(text: str) -> None:
    """Refuse a text in which there is nothing to explain."""
    if not text.strip():
        raise UserError("The text is blank: there is nothing to explain.")


def explain_tokens(
    logits_NV: Float[Tensor, "N V"],
    tokens: Sequence[int | None],
    tokenizer: Tokenizer,
    top: int,
    indices: Sequence[int] | None = None,
    first: int = 0,
) -> tuple[TokenPrediction, ...]:
    """Return the probability of the token that follows at each position, and the `top` most likely others.

    Without a token, the most likely one from `first` on is taken. `indices` are those of the tokens in their sequence.
    """
    check_whole("top", top, least=0)
    shares_NV = logits_NV.float().softmax(dim=1)
    best = shares_NV[:, first:].topk(min(top + 1, shares_NV.shape[1] - first), dim=1)
    places = range(len(tokens)) if indices is None else indices
    found = []
    for row, (index, token) in enumerate(zip(places, tokens, strict=True)):
        ranked = list(zip((best.indices[row] + first).tolist(), best.values[row].tolist(), strict=True))
        chosen = ranked[0][0] if token is None else token
        others = [(number, share) for number, share in ranked if number != chosen][:top]
        names = tokenizer.pieces([chosen, *(number for number, _ in others)])
        runners_up = tuple(zip(names[1:], (share for _, share in others), strict=True))
        numbers = tuple(number for number, _ in others)
        found.append(TokenPrediction(index, names[0], float(shares_NV[row, chosen]), runners_up, numbers))
    return tuple(found)


def explain_swapped(explain: Callable[[str], Explanation], text: str, swapped: Mapping[str, str]) -> Explanation:
    """Return the explanation of the text with other words; its `before` is that of the text as it is."""
    other = swap_words(text, swapped)
    change = ", ".join(f"{old} \N{RIGHTWARDS ARROW} {new}" if new else f"without {old}" for old, new in swapped.items())
    return replace(explain(other), change=change, before=explain(text))


def swap_words(text: str, swapped: Mapping[str, str]) -> str:
    """Replace words, wherever a text has them, all at once; refuse a word that it does not have."""
    if not isinstance(swapped, Mapping) or not swapped:
        raise UserError("`swapped` must be a dictionary of words and what replaces them, at least one.")
    for old, new in swapped.items():
        check_text(new, f"`swapped`, `{check_text(old, '`swapped`')}`")
        if not old.strip():
            raise UserError("`swapped` has a blank word: name a word of the text.")
        if not re.search(_whole(old), text):
            raise UserError(f"The text has no word `{old}` to swap: words are case-sensitive, and whole.")
    pattern = "|".join(_whole(old) for old in sorted(swapped, key=len, reverse=True))
    return " ".join(re.sub(pattern, lambda found: swapped[found[0]], text).split())


def _whole(word: str) -> str:
    """Return the pattern of a word that is not a part of another."""
    return rf"(?<!\w){re.escape(word)}(?!\w)"
