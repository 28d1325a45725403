"""How the answers of an exported model compare with those of the original."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Answers of an exported model next to those of the original, on the same inputs."""

    count: int  # inputs
    unequal: int  # whose greedy tokens, or labels, are not equal
    difference: float  # greatest difference of log probabilities of tokens or labels, or of numbers
    of: str  # what the inputs are: "32 sentences of valid.en"
    lost: float | None = None  # BLEU against references, original less exported, where weights are less precise

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        lost = {} if self.lost is None else {"lost_bleu": self.lost}
        return {
            "count": self.count,
            "unequal": self.unequal,
            "difference": self.difference,
            "inputs": self.of,
            **lost,
        }
