"""What a recipe says of attention, in every family that attends.

Combinations of attention that make no sense are refused here, before anything is built: what an alignment or a
distribution demands stands next to it in `nn`, and a test compares the two.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from heedful.config.section import Section

AlignmentName = Literal[
    "content", "dot", "scaled_dot", "general", "biased_general", "activated_general", "kernel", "additive", "deep",
    "location", "area",
]  # fmt: skip


DistributionName = Literal[
    "softmax", "sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax", "de_attention"
]


Tie = Literal["all", "decoder", "none"]


EQUAL_WIDTHS: Final = ("content", "dot", "scaled_dot", "kernel", "area")  # alignments of queries with keys as they are


FIXED_LENGTH: Final = ("location",)  # alignments that know a fixed number of places


SEVERAL_PLACES: Final = ("area",)  # alignments whose candidates are more than single places


NEEDS_DISTANCE: Final = ("de_attention",)  # distributions that subtract keys from queries


SCORES_BY_PLACE: Final = ("alibi", "relative")  # positions that add to the score of a single place


class Attending(Section):
    """How attention scores, weighs and chooses, in every family that has it."""

    distribution: DistributionName = "softmax"
    alpha: Annotated[float, Field(gt=1, le=4)] = 1.5  # of the distribution "entmax"
    choice: Literal["soft", "hard", "gumbel"] = "soft"  # hard: one place is drawn, gradients go through the weights
    temperature: PositiveFloat = 1.0  # of the choice "gumbel"
    features: PositiveInt = 256  # random ones of the alignment "kernel"
    area: PositiveInt = 3  # of the alignment "area": the most places side by side
    max_places: PositiveInt | None = None  # of the alignment "location": the longest source, `</s>` included

    def check_attention(self, alignment: str) -> None:
        """Refuse what this alignment cannot do."""
        if alignment == "kernel" and (self.distribution != "softmax" or self.choice != "soft"):
            key = "distribution" if self.distribution != "softmax" else "choice"
            raise ValueError(
                f'`alignment = "kernel"` stands for a softmax over its features: `{key}` must be '
                f'"{"softmax" if key == "distribution" else "soft"}", but is "{getattr(self, key)}"; with '
                '`alignment = "scaled_dot"` it may stay'
            )
        if alignment in FIXED_LENGTH and self.max_places is None:
            raise ValueError(
                f'`alignment = "{alignment}"` scores a fixed number of places, and sentences have any length: '
                "set `max_places` to `data.max_length` + 1, or choose another alignment"
            )
        if self.choice != "soft" and self.distribution in (*NEEDS_DISTANCE, "sigmoid"):
            raise ValueError(
                f'`choice = "{self.choice}"` draws one place by weights that sum to 1, but those of '
                f'`distribution = "{self.distribution}"` do not: choose "softmax" or an entmax'
            )
