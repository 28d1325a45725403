"""The [model] table of a classifier."""

from typing import Annotated, Literal

from pydantic import Field

from heedful.config.model.bert import BertModel
from heedful.config.model.encoders import (
    HierarchicalEncoderTable,
    PoolName,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.section import Section, Share


class ClassifierModel(Section):
    """An encoder, a pool that reduces its output to one vector, and a linear map to classes."""

    family: Literal["classifier"]
    encoder: Annotated[
        TransformerEncoderTable | RecurrentEncoderTable | HierarchicalEncoderTable | BertModel,
        Field(discriminator="family"),
    ] = TransformerEncoderTable()  # family and shape of the encoder
    # Function from states to one vector; by default "first", the state of `<s>`; "max" for a recurrent encoder,
    # "attention" for a hierarchical one.
    pool: PoolName | None = None
    pooler: bool = False  # tanh(W y + b) after the pool, as in BERT
    dropout: Share = 0.1  # dropout before the linear map
    labels: Literal["one", "several"] = "one"  # whether a text has exactly one label, or any number of them

    @property
    def width(self) -> int:
        """Width of the encoder's states."""
        return self.encoder.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a text, markers included, and the key that sets it; None where there is no limit."""
        end = self.encoder.longest
        return end and (end[0], f"encoder.{end[1]}")

    @property
    def nested(self) -> bool:
        """Whether the encoder reads documents as sentences of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def pooled_by(self) -> PoolName:
        """Name of the pool, by default the usual one of the encoder."""
        usual: dict[str, PoolName] = {"recurrent": "max", "hierarchical": "attention"}
        return self.pool or usual.get(self.encoder.family, "first")
