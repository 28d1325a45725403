"""The options of a call that parses."""

from typing import Annotated

from heedful.decode.settings import Sampling
from heedful.tasks.shared.sequences.search_options import DecodeOptions
from heedful.tasks.shared.shown_options import Option


class ParseOptions(DecodeOptions, total=False):
    """Keys of the recipe's [decode], and options that a recipe does not have."""

    sampling: Annotated[Sampling | None, Option("Sample trees at random instead of searching for the best.")]
    unconstrained: Annotated[
        bool, Option("Also allow sequences that are not trees over the words, which then give no tree.", False)
    ]
