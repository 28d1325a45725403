"""From packed images to packed vectors of their patches."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Images
from heedful.nn.evaluation_mode import WithPrecision
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.images.stems import Stem


class ImageEmbedding(WithPrecision):
    """x = D([c; S(image) + P]): a class token c, then the patches of the image      Dosovitskiy et al. 2021, 3.1

    S is a stem, and P are positions on a grid. Without `class_token` there are patches only; without `positions`
    nothing is added to them. With `class_position`, it is added to c. Images may have different sizes. Pixels from 0 to
    255 become values from -1 to 1, in `precision`, and all later modules compute in the dtype of their input.
    """

    def __init__(
        self,
        stem: nn.Module,
        positions: nn.Module | None,
        class_token: nn.Parameter | None,
        dropout: float,
        class_position: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.stem: Stem = stem  # type: ignore[assignment]
        self.positions, self.class_token, self.drop = positions, class_token, Dropout(dropout)
        self.class_position = class_position
        self.precision = next(stem.parameters()).dtype

    def forward(self, images: Images) -> Float[Tensor, "N E"]:
        """Embed all patches of all images."""
        parts = [self._same_size(pixels) for pixels in images.by_run()]
        dropped: Tensor = self.drop(parts[0] if len(parts) == 1 else torch.cat(parts))
        return dropped

    def _same_size(self, pixels: Tensor) -> Float[Tensor, "N E"]:
        """Embed images of one size."""
        count, height, width, _ = pixels.shape
        x = self.stem((pixels.to(torch.float32) / 127.5 - 1).to(self.precision))
        if self.positions is not None:
            x = x + self.positions(*(-(-side // self.stem.patch) for side in (height, width))).to(x.dtype)
        if self.class_token is not None:
            token = self.class_token if self.class_position is None else self.class_token + self.class_position
            x = torch.cat([token.to(x.dtype).expand(count, 1, -1), x], dim=1)
        return x.flatten(0, 1)
