"""The constraint that a target is a tree over the words of its source: see `heedful.trees.linearize`.

A target is a sequence of opening brackets, closing brackets that name what they close, and one symbol for each word.
With n words of which r were read, and d brackets open, these tokens may follow:

    (X      if a word is left for it, nothing was closed for good yet, and there is room for what must follow
    word    if r < n and d > 0
    )X      if X is what was opened last, it has at least one part, and d > 1 or r = n
    </s>    if the tree is complete

What must follow takes n - r + d + 1 tokens: the words, the closing brackets and `</s>`. Room for it is kept, so every
prefix that is allowed can be completed within the limit; and every tree over the words that fits is allowed. Without
words the target is empty.

Shape letters of this file: D  brackets that can be open at once    X  labels
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.errors import UserError

_NEEDED = 3  # tokens of a target besides those of the words: an opening bracket, a closing one and `</s>`


@dataclass(frozen=True)
class TreeTokens:
    """The tokens of linearised trees in a vocabulary."""

    opening: Sequence[int]  # one for each label
    closing: Sequence[int]  # those of the same labels
    word: int


@dataclass(frozen=True, eq=False)
class Brackets:
    """Targets are trees over exactly the words of their sources."""

    opening_X: Int[Tensor, "X"]
    closing_X: Int[Tensor, "X"]
    word: int
    label_V: Int[Tensor, "V"]  # the label that a token opens; minus 2 minus the label that it closes; -1 for others
    words_B: Int[Tensor, "B"]
    limits_B: Int[Tensor, "B"]  # tokens of a target, `</s>` included
    open_BKD: Int[Tensor, "B K D"]  # the labels of the brackets that are open, from the outermost
    depth_BK: Int[Tensor, "B K"]  # how many they are
    read_BK: Int[Tensor, "B K"]  # words
    used_BK: Int[Tensor, "B K"]  # tokens
    filled_BK: Bool[Tensor, "B K"]  # whether the innermost bracket has a part

    @classmethod
    def of(
        cls,
        tokens: TreeTokens,
        vocabulary: int,
        words: Sequence[int],
        limits: Sequence[int],
        device: torch.device,
        numbers: Sequence[int] | None = None,
    ) -> "Brackets":
        """Make the constraint of a batch: with the number of words of each source, and the limit of its target."""
        for number, count, limit in zip(numbers or range(len(words)), words, limits, strict=True):
            if count and limit < count + _NEEDED:
                raise UserError(
                    f"Sentence {number + 1:,} has {count:,} words, but its tree may have {limit:,} tokens only, and "
                    f"needs at least {count + _NEEDED:,}: raise `max_extra`."
                )
        label_V = torch.full((vocabulary,), -1)
        label_V[list(tokens.opening)] = torch.arange(len(tokens.opening))
        label_V[list(tokens.closing)] = -2 - torch.arange(len(tokens.closing))
        deepest = max(1, *((limit - count - 1) // 2 for limit, count in zip(limits, words, strict=True)))
        none_BK = torch.zeros(len(words), 1, dtype=torch.int64, device=device)
        return cls(
            opening_X=torch.tensor(tokens.opening, device=device),
            closing_X=torch.tensor(tokens.closing, device=device),
            word=tokens.word,
            label_V=label_V.to(device),
            words_B=torch.tensor(words, device=device),
            limits_B=torch.tensor(limits, device=device),
            open_BKD=none_BK.unsqueeze(2).expand(-1, -1, deepest),
            depth_BK=none_BK,
            read_BK=none_BK,
            used_BK=none_BK,
            filled_BK=none_BK.bool(),
        )

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what cannot be part of a tree over the words."""
        rows = scores_RV.shape[0]
        state = self._spread(rows // self.words_B.shape[0])
        words_BK, limits_BK = self.words_B.unsqueeze(1), self.limits_B.unsqueeze(1)
        left_BK = words_BK - state.read_BK
        begun_BK, whole_BK = state.used_BK > 0, (left_BK == 0) & (state.depth_BK == 0)
        room_BK = state.used_BK + 1 + left_BK + (state.depth_BK + 1) + 1 <= limits_BK
        opens_BK = (left_BK > 0) & (~begun_BK | (state.depth_BK > 0)) & room_BK
        reads_BK = (left_BK > 0) & (state.depth_BK > 0)
        closes_BK = state.filled_BK & ((state.depth_BK > 1) | ((left_BK == 0) & (state.depth_BK == 1)))
        allowed_RV = torch.zeros_like(scores_RV, dtype=torch.bool)
        allowed_RV[:, self.opening_X] = opens_BK.reshape(rows, 1)
        allowed_RV[:, self.word] = reads_BK.flatten()
        allowed_RV[:, END] = whole_BK.flatten()
        closing_BK = self.closing_X[state._innermost()]
        allowed_RV.scatter_(1, closing_BK.reshape(rows, 1), closes_BK.reshape(rows, 1))
        scores_RV.masked_fill_(~allowed_RV, -math.inf)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Brackets":
        """Return the rule for the next step."""
        state = self._spread(last_BK.shape[1])
        if parents_BK is not None:
            state = state._rows(parents_BK)
        label_BK = self.label_V[last_BK]
        opens_BK, closes_BK, reads_BK = label_BK >= 0, label_BK < -1, last_BK == self.word
        at_BK1 = state.depth_BK.clamp(0, state.open_BKD.shape[2] - 1).unsqueeze(2)  # impossible rows may be anywhere
        pushed_BK1 = torch.where(opens_BK.unsqueeze(2), label_BK.unsqueeze(2), state.open_BKD.gather(2, at_BK1))
        return replace(
            state,
            open_BKD=state.open_BKD.scatter(2, at_BK1, pushed_BK1),
            depth_BK=state.depth_BK + opens_BK.long() - closes_BK.long(),
            read_BK=state.read_BK + reads_BK.long(),
            used_BK=state.used_BK + 1,
            filled_BK=(state.filled_BK | reads_BK | closes_BK) & ~opens_BK,
        )

    def select(self, sentences: Int[Tensor, "A"]) -> "Brackets":
        """Keep only these sentences."""
        names = ("words_B", "limits_B", "open_BKD", "depth_BK", "read_BK", "used_BK", "filled_BK")
        return replace(self, **{name: getattr(self, name)[sentences] for name in names})

    def _innermost(self) -> Int[Tensor, "B K"]:
        """Return the label of the bracket that was opened last; of any, if none is open."""
        place_BK = (self.depth_BK - 1).clamp(0, self.open_BKD.shape[2] - 1)
        return self.open_BKD.gather(2, place_BK.unsqueeze(2)).squeeze(2)

    def _spread(self, beams: int) -> "Brackets":
        """Return the state with this number of rows per sentence: at the start there is one for all."""
        if self.depth_BK.shape[1] == beams:
            return self
        if self.depth_BK.shape[1] != 1:
            raise ValueError(f"the rule has {self.depth_BK.shape[1]} rows per sentence, not {beams}")
        names = ("open_BKD", "depth_BK", "read_BK", "used_BK", "filled_BK")
        return replace(self, **{name: getattr(self, name).repeat_interleave(beams, 1) for name in names})

    def _rows(self, parents_BK: Int[Tensor, "B K"]) -> "Brackets":
        """Return the states of these rows of each sentence."""
        names = ("depth_BK", "read_BK", "used_BK", "filled_BK")
        parents_BKD = parents_BK.unsqueeze(2).expand(-1, -1, self.open_BKD.shape[2])
        return replace(
            self,
            open_BKD=self.open_BKD.gather(1, parents_BKD),
            **{name: getattr(self, name).gather(1, parents_BK) for name in names},
        )
