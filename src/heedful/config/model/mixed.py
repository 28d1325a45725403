"""The [model] table of an encoder of one family with a decoder of another."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_serializer, model_validator

from heedful.config.model.attention import Tie
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section


class MixedModel(Section):
    """The encoder of one family with the decoder of another; each table has the keys of its own family."""

    family: Literal["mixed"]
    encoder: Annotated[TransformerModel | RecurrentModel, Field(discriminator="family")]
    """Model table of the encoder."""
    decoder: Annotated[TransformerModel | RecurrentModel, Field(discriminator="family")]
    """Model table of the decoder."""
    tie: Tie = "none"
    """Shared matrices: both embeddings and the output layer, the target embedding and it, or none."""

    @field_serializer("encoder", "decoder")
    def _without_tie(self, table: TransformerModel | RecurrentModel) -> dict[str, Any]:
        """Leave out `tie`, which belongs to the whole model: a table that sets it would be refused when read again."""
        return table.model_dump(exclude={"tie"})

    @property
    def sides(self) -> tuple[TransformerModel | RecurrentModel, TransformerModel | RecurrentModel]:
        """The tables of the encoder and the decoder."""
        return self.encoder, self.decoder

    @property
    def width(self) -> int:
        """Width of the decoder's states."""
        return self.decoder.width

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a token."""
        return self.encoder.memory_width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a sentence, `</s>` included, and the key that sets it; None where there is no limit."""
        both = (("encoder", self.encoder.longest), ("decoder", self.decoder.longest))
        ends = [(end[0], f"{side}.{end[1]}") for side, end in both if end is not None]
        return min(ends, default=None)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for side, table in (("encoder", self.encoder), ("decoder", self.decoder)):
            if "tie" in table.model_fields_set:
                raise ValueError(f"`tie` belongs to the whole model: move it out of `{side}`")
            if isinstance(table, TransformerModel) and table.norm in ("tfixup", "deepnorm"):
                raise ValueError(
                    f'`{side}.norm` is "{table.norm}", whose constants are those of two Transformers: use "rezero" '
                    'or "pre"'
                )
        if self.tie == "all" and self.encoder.embedding_width != self.decoder.embedding_width:
            raise ValueError(
                f'`tie` must be "decoder" or "none" where embeddings are {self.encoder.embedding_width} and '
                f'{self.decoder.embedding_width} wide, but is "all"'
            )
        if isinstance(self.decoder, RecurrentModel):
            if self.tie != "none" and self.decoder.embedding_width != self.decoder.width:
                raise ValueError(
                    f'`tie` must be "none" where the decoder\'s embeddings ({self.decoder.embedding_width}) are not as '
                    f'wide as its states ({self.decoder.width}), but is "{self.tie}"'
                )
            self.decoder.check_widths(self.memory_width)
        return self


PairModel = TransformerModel | RecurrentModel | MixedModel  # tables of networks that map one sequence to another
