"""Explanations of translations."""

from collections.abc import Mapping
from typing import Annotated

from heedful.base.options import Option
from heedful.config.decode import SearchOptions
from heedful.decode.query import text_queries
from heedful.decode.scorer import Scorer
from heedful.explain.explanation import Explanation, SearchNode
from heedful.explain.generators import explain_pair, explain_search
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.sequences.model import SequenceModel
from heedful.tasks.shared.sequences.search_options import SearchRequest
from heedful.tasks.shared.sequences.text_codec import Languages
from heedful.tasks.translate.translation import Translation


class ExplainOptions(SearchOptions, total=False):
    """Options of a search, and what else is explained."""

    gradients: Annotated[bool, Option("Also compute how much each source token would change each prediction.", False)]
    search: Annotated[bool, Option("Also record the life of the beam: all hypotheses, and where they died.", False)]
    swapped: Annotated[Mapping[str, str] | None, Option("What if: words of the text, and those that replace them.")]


def record_search(
    model: SequenceModel, scorer: Scorer, text: str, best: Translation, request: SearchRequest
) -> tuple[SearchNode, ...]:
    """Record the search that found a translation; none but a plain beam search is recorded."""
    if request.risk is not None or request.terms or request.require or request.forbid:
        return ()
    sources = model.wording.encode([text], request.to, request.raw, "texts", 1)
    prefixes = None if request.prefix is None else model.wording.encode_prefixes(request.prefix, 1, 1)
    (query,) = text_queries(sources, request.settings.max_extra, prefixes, [0])
    with evaluation_mode(*model.networks):
        return explain_search(scorer, query, request.settings, model.vocabularies["target"], best.tokens)


def explain_found(
    model: SequenceModel,
    text: str,
    found: Translation,
    top: int = 5,
    to: Languages = None,
    raw: bool = False,
    gradients: bool = False,
) -> Explanation:
    """Explain a translation that a search found."""
    (source,) = model.wording.encode([text], to, raw, "texts", 1)
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
