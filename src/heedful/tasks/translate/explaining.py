"""Explanations of translations."""

from typing import Annotated, Protocol, Unpack, cast

from heedful.arguments import check_flag, check_text
from heedful.config.recipe import Recipe
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.explaining.explanation import Explanation
from heedful.tasks.shared.explaining.generators import explain_pair
from heedful.tasks.shared.explaining.texts import refuse_blank
from heedful.tasks.shared.sequences.search_options import SearchOptions
from heedful.tasks.shared.sequences.text_codec import Languages, TextCodec
from heedful.tasks.shared.shown_options import Option
from heedful.tasks.translate.translation import Translation


class ExplainOptions(SearchOptions, total=False):
    """Options of a search, and what else is explained."""

    gradients: Annotated[bool, Option("Also compute how much each source token would change each prediction.", False)]


class Translates(Protocol):
    """What is asked of a translator: see `Translator`."""

    wording: TextCodec

    @property
    def recipe(self) -> Recipe:
        """Recipe of the model."""
        ...

    @property
    def network(self) -> EncoderDecoder:
        """PyTorch module."""
        ...

    @property
    def vocabularies(self) -> Vocabularies:
        """Tokenizers by name."""
        ...

    def encode(self, texts: list[str], to: Languages = None, *, raw: bool = False) -> list[list[int]]:
        """Return the source pieces of texts."""
        ...

    def check_targets(self, targets: list[list[int]], name: str) -> None:
        """Refuse a target that is too long."""
        ...

    def translate_detailed(self, texts: list[str], **options: Unpack[SearchOptions]) -> list[list[Translation]]:
        """Return the translations of each text."""
        ...


def explain_translation(
    model: Translates, text: str, target: str | None, top: int, given: ExplainOptions
) -> Explanation:
    """Explain the best translation of a text, or a given one."""
    refuse_blank(check_text(text, "`text`"))
    gradients = check_flag("gradients", given.get("gradients", False))
    options = cast(SearchOptions, {name: value for name, value in given.items() if name != "gradients"})
    to, raw = options.get("to"), bool(options.get("raw"))
    if target is None:
        (best, *_), *_ = model.translate_detailed([text], **options)
    else:
        (tokens,) = model.wording.encode_target([check_text(target, "`target`")])
        model.check_targets([tokens], "`target`")
        best = Translation(target, 0.0, tuple(tokens), True)
    return explain_found(model, text, best, top, to, raw, gradients)


def explain_found(
    model: Translates,
    text: str,
    found: Translation,
    top: int = 5,
    to: Languages = None,
    raw: bool = False,
    gradients: bool = False,
) -> Explanation:
    """Explain a translation that a search found."""
    (source,) = model.encode([text], to, raw=raw)
    read = explain_pair(model.network, model.vocabularies, source, found.tokens, found.complete, top, gradients)
    return Explanation(
        model.recipe.rules.name,
        model.recipe.model.family,
        text,
        found.text,
        read.sequences,
        read.attentions,
        "output",
        read.predictions,
        alignment=read.alignment,
    )
