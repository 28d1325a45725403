"""The line that a captioner has to beat: the caption of the training image that is nearest in its pixels.

Images are averaged to at most 32 x 32 pixels; the distance is the square of the difference, summed over pixels and
colours. Of equally near images the first is taken, and of its captions the first. Nothing is drawn at random.
"""

from collections.abc import Sequence

import numpy as np

from heedful.data.collate import gather
from heedful.data.epochs.plan import Indices
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.images import image_streams
from heedful.data.token_store import TokenStore
from heedful.tasks.caption.data import CaptionStore
from heedful.tasks.shared.pixels import pixels_of, sample_images, side_of


def nearest_captions(train: Sequence[TokenStore], images: Sequence[Pixels]) -> tuple[list[list[int]], str]:
    """Return the tokens of the caption of the training image nearest to each image; say which images these were."""
    stores = [store for store in train if isinstance(store, CaptionStore)]
    shown = [store.images for store in stores]
    captions = _first_captions(stores)
    sampled, sample = sample_images(shown)
    described = captions >= 0  # not all are: captions that are too long are left out
    known = sampled[described[sampled]] if described[sampled].any() else np.flatnonzero(described)[:1]
    nearest = known[_nearest(shown, known, images, side_of(shown))]
    tokens, lengths = gather(stores, "text", captions[nearest])
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])], sample


def _first_captions(stores: Sequence[CaptionStore]) -> Indices:
    """Return the row of the first caption of each image, both counted through all stores; -1 where it has none."""
    found, before = [], 0
    for store in stores:
        rows, numbers = np.full(len(store.images), -1, np.int64), store.streams["picture"].values.astype(np.int64)
        rows[numbers[::-1]] = before + np.arange(len(numbers))[::-1]  # of several, the first is written last
        found.append(rows)
        before += len(store)
    return np.concatenate(found)


def _nearest(shown: Sequence[TokenStore], known: Indices, images: Sequence[Pixels], side: tuple[int, int]) -> Indices:
    """Return the number of the known image that is nearest to each image."""
    known_BJ = pixels_of(shown, known, side)
    asked_AJ = pixels_of([TokenStore(image_streams(images))], np.arange(len(images)), side)
    # ||a - b||^2 = ||a||^2 - 2 a b + ||b||^2, of which the first is the same for all known images.
    distance_AB = known_BJ.square().sum(1) - 2 * asked_AJ @ known_BJ.T
    nearest: Indices = distance_AB.argmin(dim=1).numpy()
    return nearest
