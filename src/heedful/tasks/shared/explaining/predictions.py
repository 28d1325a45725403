"""Probabilities of tokens, with the runners-up."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from heedful.arguments import check_whole
from heedful.tasks.shared.explaining.explanation import ShowsPieces, TokenPrediction


def explain_tokens(
    logits_NV: Float[Tensor, "N V"],
    tokens: Sequence[int | None],
    tokenizer: ShowsPieces,
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
        found.append(TokenPrediction(index, names[0], float(shares_NV[row, chosen]), runners_up))
    return tuple(found)
