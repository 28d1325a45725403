"""What a language model made of a prompt."""

from dataclasses import dataclass
from typing import Literal

Ended = Literal["end", "stop", "length"]


@dataclass(frozen=True)
class Generation:
    """One continuation of a prompt."""

    text: str  # what follows the prompt, without the stop string
    tokens: tuple[int, ...]  # tokens of the text; the last one may reach into a stop string
    pieces: tuple[str, ...]  # the same tokens in readable form (see `Tokenizer.pieces`)
    log_probabilities: tuple[
        float, ...
    ]  # log probability that the model gives to each token, before any sampling option
    ended: Ended  # why it ended: the model ended the text, a stop string occurred, or it has the maximum length
    slid: bool = False  # whether the window slid, so that the model no longer saw the start of the text

    @property
    def log_probability(self) -> float:
        """Log probability of all tokens."""
        return sum(self.log_probabilities)
