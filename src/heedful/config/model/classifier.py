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
    """An encoder, a pool that makes one vector of what it puts out, and a linear map to classes."""

    family: Literal["classifier"]
    encoder: Annotated[
        TransformerEncoderTable | RecurrentEncoderTable | HierarchicalEncoderTable | BertModel,
        Field(discriminator="family"),
    ] = TransformerEncoderTable()
    pool: PoolName | None = (
        None  # by default that of the class token `<s>`, recurrent: "max", hierarchical: "attention"
    )
    pooler: bool = False  # tanh(W y + b) behind the pool, as BERT has it
    dropout: Share = 0.1  # before the linear map
    labels: Literal["one", "several"] = "one"  # of a text: classes that exclude each other, or any number of them

    @property
    def width(self) -> int:
        """Of the encoder's states."""
        return self.encoder.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a text, markers included, and the key that says so; None where there is no end."""
        end = self.encoder.longest
        return end and (end[0], f"encoder.{end[1]}")

    @property
    def nested(self) -> bool:
        """Whether it reads words in sentences in documents."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def pooled_by(self) -> PoolName:
        """The pool, by default the encoder's usual one."""
        usual: dict[str, PoolName] = {"recurrent": "max", "hierarchical": "attention"}
        return self.pool or usual.get(self.encoder.family, "first")
