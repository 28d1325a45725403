"""Keys of attention that all families with attention share, and pools, which may attend too.

Invalid combinations are refused here, before anything is built: the requirements of an alignment or a distribution are
stated next to it in `nn` too, and a test compares the two.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, PositiveFloat, Tag, model_validator

from heedful.config.section import Positions, Section

AlignmentName = Literal[
    "content", "dot", "scaled_dot", "general", "biased_general", "activated_general", "kernel", "additive", "deep",
    "location", "area",
]  # fmt: skip


DistributionName = Literal[
    "softmax", "sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax", "de_attention"
]


Site = Literal["encoder", "decoder", "cross"]  # where a Transformer attends


Tie = Literal["all", "decoder", "none"]


EQUAL_WIDTHS: Final = (
    "content",
    "dot",
    "scaled_dot",
    "kernel",
    "area",
)  # alignments of queries and keys without projections


FIXED_LENGTH: Final = ("location",)  # alignments with a fixed number of positions


SEVERAL_PLACES: Final = ("area",)  # alignments whose candidates are spans of positions


NEEDS_DISTANCE: Final = ("de_attention",)  # distributions that subtract keys from queries


NOT_REWARDED: Final = (
    '`choice = "reinforce"` rewards patches in the recurrent decoder of a captioner: use "hard" or "gumbel" here'
)


_WITH_MATRIX: Final = ("general", "biased_general", "activated_general")
# Keys of single alignments and distributions: what they need, as a test and in words.
_NEEDS: Final[Mapping[str, tuple[Callable[[str, str], bool], str]]] = {
    "feature_map": (lambda alignment, _: alignment == "kernel", 'the alignment "kernel"'),
    "score_scale": (
        lambda alignment, _: alignment in _WITH_MATRIX,
        'the alignments "general", "biased_general" and "activated_general"',
    ),
    "score_activation": (
        lambda alignment, _: alignment in ("activated_general", "deep"),
        'the alignments "activated_general" and "deep"',
    ),
    "score_depth": (lambda alignment, _: alignment == "deep", 'the alignment "deep"'),
    "gate": (lambda _, distribution: distribution == "de_attention", 'the distribution "de_attention"'),
}


class Weighting(Section):
    """How attention turns scores into weights and chooses values, wherever it is."""

    rewards: ClassVar[bool] = False  # whether the choice "reinforce" may be possible

    distribution: DistributionName = "softmax"
    """Function from scores to weights."""
    alpha: Annotated[float, Field(gt=1, le=4)] = 1.5
    """Alpha of the distribution "entmax"."""
    choice: Literal["soft", "hard", "gumbel", "reinforce"] = "soft"
    """What attention reads by its weights.

    soft: the weighted mean of all values; hard: one position is sampled, and gradients flow through the weights;
    gumbel: one position is sampled by Gumbel-softmax; reinforce: one patch is sampled, and rewarded if the target
    becomes more probable (Xu et al. 2015), in the recurrent decoder of a captioner.
    """
    temperature: PositiveFloat = 1.0
    """Temperature of the choice "gumbel"."""
    features: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Number of random features of the alignment "kernel"."""
    feature_map: Literal["exp", "relu"] = "exp"
    """Features of the alignment "kernel": exp, which approximates a softmax, or relu (Choromanski et al. 2021, 4.2)."""
    area: Annotated[int, Field(ge=1, le=100)] = 3
    """Maximum number of adjacent positions of the alignment "area"."""
    score_scale: bool = False
    """Whether the alignments with a matrix divide by the root of the key's width: q . W k / sqrt(D).

    They are "general", "biased_general" and "activated_general". Scores are the same at the start, but Adam's updates
    of W change them less, which helps in Transformers with high learning rates.
    """
    score_activation: Literal["tanh", "relu", "sigmoid"] | None = Field(default=None, examples=["tanh"])
    """Activation of "activated_general", by default tanh, or inside of "deep", by default the ReLU."""
    score_depth: Annotated[int, Field(ge=2, le=100)] = 4
    """Number of layers of the alignment "deep", its output included."""
    gate: Literal["centred", "doubled", "plain"] = "centred"
    """Gate of the distribution "de_attention": sigmoid(n - mean n), 2 sigmoid(n) or sigmoid(n) (Tay et al. 2019)."""

    def check_weighting(self, alignment: str) -> None:
        """Refuse a distribution or a choice that this alignment cannot have, or that do not fit together."""
        if self.choice == "reinforce" and not self.rewards:
            raise ValueError(NOT_REWARDED)
        if alignment == "kernel" and (self.distribution != "softmax" or self.choice != "soft"):
            key = "distribution" if self.distribution != "softmax" else "choice"
            raise ValueError(
                f'`alignment = "kernel"` approximates a softmax with random features: `{key}` must be '
                f'"{"softmax" if key == "distribution" else "soft"}", but is "{getattr(self, key)}"; use '
                '`alignment = "scaled_dot"` to keep it'
            )
        for key, (fits, what) in _NEEDS.items():
            unusual = getattr(self, key) != type(self).model_fields[key].default
            if unusual and not fits(alignment, self.distribution):
                raise ValueError(f"`{key}` belongs to {what}: leave it out, or choose that")
        if self.choice != "soft" and self.distribution in (*NEEDS_DISTANCE, "sigmoid"):
            raise ValueError(
                f'`choice = "{self.choice}"` samples one position by weights that sum to 1, but those of '
                f'`distribution = "{self.distribution}"` do not: choose "softmax" or an entmax'
            )


class Attending(Weighting):
    """How queries attend to the positions of a sequence, in every family that has attention."""

    max_places: Positions | None = Field(default=None, examples=[257])
    """Maximum source length of the alignment "location", `</s>` included; required by it."""

    def check_attention(self, alignment: str) -> None:
        """Refuse what this alignment cannot do."""
        self.check_weighting(alignment)
        if alignment in FIXED_LENGTH and self.max_places is None:
            raise ValueError(
                f'`alignment = "{alignment}"` scores a fixed number of positions, but sentences have any length: '
                "set `max_places` to `data.max_length` + 1, or choose another alignment"
            )


class SiteAttention(Attending):
    """Attention at one site of a Transformer; the keys that it leaves out are those of the whole model."""

    alignment: AlignmentName | None = Field(default=None, examples=["additive"])
    """Score of a query and a key at this site."""

    def over(self, model: Attending, alignment: str) -> dict[str, Any]:
        """Return the values of all keys of attention at this site of a model with this alignment.

        Keys of single alignments and distributions are not taken from a model that has others.
        """
        said = {key: getattr(self, key) for key in self.model_fields_set if getattr(self, key) is not None}
        whole = {key: getattr(model, key) for key in Attending.model_fields} | {"alignment": alignment} | said
        for key, (fits, _) in _NEEDS.items():
            if key not in said and not fits(whole["alignment"], whole["distribution"]):
                whole[key] = Attending.model_fields[key].default
        return whole


PoolName = Literal["first", "mean", "max", "last", "attention", "multi_dimensional"]


class AttentionPoolTable(Weighting):
    """A pool that attends: an alignment scores each token for one learned query, a distribution weights them by it."""

    alignment: AlignmentName = "additive"
    """Function from the query and a token to a score."""

    @model_validator(mode="after")
    def _fits_one_query(self) -> Self:
        if self.alignment in FIXED_LENGTH:
            raise ValueError(
                f'`alignment = "{self.alignment}"` scores positions whatever their tokens are, and a pool has one '
                "query for all texts: choose another alignment"
            )
        self.check_weighting(self.alignment)
        return self


def _pool_form(value: Any) -> str:
    return "table" if isinstance(value, dict | AttentionPoolTable) else "name"


AnyPool = Annotated[
    Annotated[PoolName, Tag("name")] | Annotated[AttentionPoolTable, Tag("table")], Discriminator(_pool_form)
]
