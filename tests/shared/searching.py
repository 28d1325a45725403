"""Searches as tests ask for them: texts as token ids without markers."""

from collections.abc import Sequence
from dataclasses import replace

from heedful.data.tokenize.tokenizer import BEGIN
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries
from heedful.decode.scorer import Scorer
from heedful.decode.search import ProgressCallback, search
from heedful.decode.settings import SearchSettings
from heedful.models.networks import EncoderDecoder


def search_texts(
    model: EncoderDecoder | Scorer,
    sources: Sequence[Sequence[int]],
    settings: SearchSettings,
    batch_tokens: int,
    progress: ProgressCallback = lambda ready: None,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Search as a translator does."""
    queries = text_queries(sources, settings.max_extra, prefixes)
    if numbers is not None:
        queries = [replace(query, number=number) for query, number in zip(queries, numbers, strict=True)]
    return search(model, queries, settings, batch_tokens, progress)


def prompt_queries(prompts: Sequence[Sequence[int]], limit: int) -> list[Query]:
    """Queries for texts to continue by at most `limit` tokens, given as token ids without markers."""
    return [Query([BEGIN, *prompt], limit, (), number) for number, prompt in enumerate(prompts)]
