"""Explanations of translations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Protocol, Unpack, cast

from heedful.base.arguments import check_flag, check_text
from heedful.base.options import Option
from heedful.config.decode import SearchOptions
from heedful.config.recipe import Recipe
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.ensemble import Ensemble
from heedful.decode.query import text_queries
from heedful.decode.scorer import SingleModel
from heedful.explain.explanation import Explanation, SearchNode
from heedful.explain.generators import explain_pair, explain_search
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.models.networks import EncoderDecoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.sequences.search_options import resolve
from heedful.tasks.shared.sequences.text_codec import Languages, TextCodec
from heedful.tasks.translate.translation import Translation


class ExplainOptions(SearchOptions, total=False):
    """Options of a search, and what else is explained."""

    gradients: Annotated[bool, Option("Also compute how much each source token would change each prediction.", False)]
    search: Annotated[bool, Option("Also record the life of the beam: all hypotheses, and where they died.", False)]
    swapped: Annotated[Mapping[str, str] | None, Option("What if: words of the text, and those that replace them.")]


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
    def networks(self) -> Sequence[EncoderDecoder]:
        """The network, and those of the other models of an ensemble."""
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
    swapped = given.get("swapped")
    if swapped is not None:
        plain = cast(ExplainOptions, {name: value for name, value in given.items() if name != "swapped"})
        return explain_swapped(lambda other: explain_translation(model, other, target, top, plain), text, swapped)
    gradients = check_flag("gradients", given.get("gradients", False))
    recorded = check_flag("search", given.get("search", False))
    own = ExplainOptions.__annotations__.keys() - SearchOptions.__annotations__.keys()
    options = cast(SearchOptions, {name: value for name, value in given.items() if name not in own})
    to, raw = options.get("to"), bool(options.get("raw"))
    if target is None:
        (best, *_), *_ = model.translate_detailed([text], **options)
    else:
        (tokens,) = model.wording.encode_target([check_text(target, "`target`")])
        model.check_targets([tokens], "`target`")
        best = Translation(target, 0.0, tuple(tokens), True)
    found = explain_found(model, text, best, top, to, raw, gradients)
    return replace(found, search=_record(model, text, best, options)) if recorded and target is None else found


def _record(model: Translates, text: str, best: Translation, options: SearchOptions) -> tuple[SearchNode, ...]:
    """Record the search that found a translation; none but a plain beam search is recorded."""
    request = resolve(options, model.recipe.decode, 1, model.vocabularies["target"].tags.values())
    if request.risk is not None or request.terms or request.require or request.forbid:
        return ()
    sources = model.encode([text], request.to, raw=request.raw)
    prefixes = None if request.prefix is None else model.wording.encode_prefixes(request.prefix, 1, 1)
    (query,) = text_queries(sources, request.settings.max_extra, prefixes, [0])
    with evaluation_mode(*model.networks):
        scorer = Ensemble(model.networks) if len(model.networks) > 1 else SingleModel(model.network)
        return explain_search(scorer, query, request.settings, model.vocabularies["target"], best.tokens)


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
        gates=read.gates,
        states=read.states,
    )
