"""The [model] table of a classifier."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.attention import AnyPool, PoolName
from heedful.config.model.bert import BertModel
from heedful.config.model.encoders import (
    BagEncoderTable,
    HierarchicalEncoderTable,
    OnEncoder,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.model.language import LanguageModelTable
from heedful.config.section import Section, Share, Width


class ClassifierModel(OnEncoder, Section):
    """An encoder, a pool that reduces its output to one vector, and a linear map to classes."""

    family: Literal["classifier"]
    encoder: Annotated[
        TransformerEncoderTable
        | RecurrentEncoderTable
        | HierarchicalEncoderTable
        | BagEncoderTable
        | BertModel
        | LanguageModelTable,
        Field(discriminator="family"),
    ] = TransformerEncoderTable()
    """Family and shape of the encoder; "language" is a language model, which reads a text from left to right."""
    pool: AnyPool | None = None
    """Function from states to one vector: a name, or a table of attention with a learned query.

    By default "first", the state of `<s>`; "max" for a recurrent encoder, "attention" for a hierarchical one, "mean"
    for a bag of n-grams, and "last" for a language model.
    """
    join: Literal["sequence", "parallel", "alternating"] = "sequence"
    """How the texts of a pair are joined.

    sequence: they are read as one sequence, `<s> text </s> second </s>`; parallel, alternating: each is read by itself,
    and co-attention pools both, at once or in turns (Lu et al. 2016).
    """
    pooler: bool = False
    """Whether tanh(W y + b) follows the pool, as in BERT."""
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""
    labels: Literal["one", "several"] = "one"
    """Whether a text has exactly one label, or any number of them."""

    @model_validator(mode="after")
    def _co_attention_pools(self) -> Self:
        if self.joins_after_reading and self.pool is not None:
            raise ValueError(f'`join = "{self.join}"` pools both texts by co-attention: leave `pool` out')
        return self

    @property
    def joins_after_reading(self) -> bool:
        """Whether the texts of a pair are read one by one, and joined by co-attention."""
        return self.join != "sequence"

    @property
    def nested(self) -> bool:
        """Whether the encoder reads documents as sentences of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def reads_letters(self) -> bool:
        """Whether the encoder reads the letters of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable) and self.encoder.letters is not None

    @property
    def pooled_by(self) -> AnyPool:
        """Name or table of the pool, by default the usual one of the encoder."""
        usual: dict[str, PoolName] = {
            "recurrent": "max",
            "hierarchical": "attention",
            "bag": "mean",
            "language": "last",
        }
        return self.pool or usual.get(self.encoder.family, "first")

    @model_validator(mode="after")
    def _first_state_knows_the_text(self) -> Self:
        if self.pool in ("first", "last") and isinstance(self.encoder, BagEncoderTable):
            raise ValueError(
                f'`pool` is "{self.pool}", but the state of a token in a bag knows its n-grams alone: leave it out, or '
                'use "mean", "max" or "attention"'
            )
        if self.pool == "first" and isinstance(self.encoder, LanguageModelTable):
            raise ValueError(
                '`pool` is "first", but the first state of a language model is the same for every text: leave it out, '
                'or use "last" or "mean"'
            )
        return self
