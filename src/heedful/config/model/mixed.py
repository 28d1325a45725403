"""The [model] tables of an encoder of one family with a decoder of another: of texts, and of images to texts."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_serializer, model_validator

from heedful.config.model.attention import FIXED_LENGTH, SEVERAL_PLACES, Tie
from heedful.config.model.images import AnyImageEncoder, ImageTransformerTable
from heedful.config.model.parts import OnPart
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel

Half = Annotated[TransformerModel | RecurrentModel, Field(discriminator="family")]  # the table of an encoder or decoder


class MixedModel(OnPart):
    """The encoder of one family with the decoder of another; each table has the keys of its own family."""

    part = "decoder"
    family: Literal["mixed"]
    encoder: Half = Field(examples=[{"family": "transformer", "preset": "small"}])
    """Model table of the encoder."""
    decoder: Half = Field(examples=[{"family": "recurrent", "width": 256}])
    """Model table of the decoder."""
    tie: Tie = "none"
    """Shared matrices: both embeddings and the output layer, the target embedding and it, or none."""

    @field_serializer("encoder", "decoder")
    def _without_tie(self, table: Half) -> dict[str, Any]:
        """Leave out `tie`, which belongs to the whole model: a table that sets it would be refused when read again."""
        return table.model_dump(exclude={"tie"})

    @property
    def sides(self) -> tuple[Half, Half]:
        """The tables of the encoder and the decoder."""
        return self.encoder, self.decoder

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
            _check_part(side, table)
        if self.tie == "all" and self.encoder.embedding_width != self.decoder.embedding_width:
            raise ValueError(
                f'`tie` must be "decoder" or "none" where embeddings are {self.encoder.embedding_width} and '
                f'{self.decoder.embedding_width} wide, but is "all"'
            )
        _check_decoder(self.decoder, self.tie, self.memory_width)
        return self


_OF_AN_ENCODER: Final = ("encoder_width", "bidirectional", "reverse_source")  # keys of a recurrent encoder


class CaptionerModel(OnPart):
    """An encoder of images with a decoder of texts, which attends to the patches, or starts from their mean.

    A recurrent decoder of the wiring "sutskever", "vector" or "cho" gets one vector, the mean of the patches.
    """

    part = "decoder"
    family: Literal["captioner"]
    encoder: AnyImageEncoder = Field(
        default=ImageTransformerTable(),
        examples=[{"family": "convolutional", "width": 128, "positions": "sinusoidal"}],
    )
    """Family and shape of the encoder of images."""
    decoder: Half = Field(
        default=TransformerModel(), examples=[{"family": "recurrent", "wiring": "luong", "width": 256}]
    )
    """Model table of the decoder."""
    tie: Literal["decoder", "none"] = "none"
    """Shared matrices: the decoder's embedding and the output layer, or none."""

    @field_serializer("decoder")
    def _without_tie(self, table: Half) -> dict[str, Any]:
        """Leave out `tie`, which belongs to the whole model: a table that sets it would be refused when read again."""
        return table.model_dump(exclude={"tie"})

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a patch."""
        return self.encoder.memory_width

    @model_validator(mode="after")
    def _decoder_fits_images(self) -> Self:
        decoder = self.decoder
        _check_part("decoder", decoder)
        if isinstance(decoder, RecurrentModel):
            defaults = {key: type(decoder).model_fields[key].default for key in _OF_AN_ENCODER}
            for key, default in defaults.items():
                if getattr(decoder, key) != default:
                    raise ValueError(
                        f"`decoder.{key}` applies to a recurrent encoder, but this one reads images: leave it out"
                    )
            if decoder.window != "global":
                raise ValueError(
                    f'`decoder.window = "{decoder.window}"` moves along a sentence, not over patches: leave it out'
                )
        aligned_by = decoder.aligned_by if isinstance(decoder, RecurrentModel) else decoder.at("cross").alignment
        if aligned_by in (*FIXED_LENGTH, *SEVERAL_PLACES):
            raise ValueError(
                f'`decoder.alignment = "{aligned_by}"` scores places in a sentence, not patches: choose another'
            )
        _check_decoder(decoder, self.tie, self.memory_width)
        return self


def _check_part(side: str, table: Half) -> None:
    """Refuse keys that a part of a model cannot have."""
    if "tie" in table.model_fields_set:
        raise ValueError(f"`tie` belongs to the whole model: move it out of `{side}`")
    other = ("decoder_attention", "cross_attention") if side == "encoder" else ("encoder_attention",)
    for key in other:
        if getattr(table, key, None) is not None:
            raise ValueError(f"`{side}.{key}` is a site that the {side} does not have: leave it out")
    if isinstance(table, TransformerModel) and table.norm in ("tfixup", "deepnorm"):
        raise ValueError(
            f'`{side}.norm` is "{table.norm}", whose constants are those of two Transformers: use "rezero" or "pre"'
        )


def _check_decoder(decoder: Half, tie: Tie, memory_width: int) -> None:
    """Refuse a recurrent decoder whose widths do not fit its output layer or the memory."""
    if not isinstance(decoder, RecurrentModel):
        return
    if tie != "none" and decoder.embedding_width != decoder.width:
        raise ValueError(
            f'`tie` must be "none" where the decoder\'s embeddings ({decoder.embedding_width}) are not as wide as its '
            f'states ({decoder.width}), but is "{tie}"'
        )
    decoder.check_widths(memory_width)


PairModel = TransformerModel | RecurrentModel | MixedModel  # tables of networks that map one sequence to another
