"""What is asked of each sentence: refused before anything is decoded where it cannot be done."""

from dataclasses import replace
from typing import Any

import pytest
from tests.shared.refusals import refuses
from tests.shared.searching import search_texts

from heedful.config.model.transformer import TransformerModel
from heedful.decode.query import bounded, text_queries
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

SOURCES = [[5, 6, 7], [9]]


def model_of(**options: Any) -> EncoderDecoder:
    return build_model(TransformerModel(width=8, heads=2, layers=1, inner=8, **options), 20, 20).eval()


POSITIONS = {"positions": "learned", "max_positions": 4}


@pytest.mark.parametrize(
    ("model", "settings", "asked", "message"),
    [
        (
            {},
            SearchSettings(max_extra=3),
            {"prefixes": [[4] * 5, [4] * 4]},
            "The prefix of sentence 2 has 4 tokens, but its target may have at most 4 tokens with `</s>`: shorten the "
            "prefix or raise `max_extra`.",
        ),
        (
            {},
            SearchSettings(max_extra=3),
            {"prefixes": [[], [4] * 9], "numbers": [1204, 1205]},
            "The prefix of sentence 1,206 has 9 tokens, but its target may have at most 4 tokens with `</s>`: shorten "
            "the prefix or raise `max_extra`.",
        ),
        (
            POSITIONS,
            SearchSettings(),
            {"prefixes": [[4] * 4, []]},
            "The prefix of sentence 1 has 4 tokens, but its target may have at most 4 tokens with `</s>`: shorten the "
            "prefix, as the model has positions for no more (`model.max_positions`).",
        ),
        (
            {},
            SearchSettings(),
            {"prefixes": [[4, 2], []]},
            "The prefix of sentence 1 has token 2, but its tokens must be from 3 to 19: leave markers out.",
        ),
        (
            {},
            SearchSettings(),
            {"prefixes": [[], [20]]},
            "The prefix of sentence 2 has token 20, but its tokens must be from 3 to 19: leave markers out.",
        ),
        (
            {},
            SearchSettings(),
            {"prefixes": [[]]},
            "2 sources, but 1 prefix: each source needs one, which may be empty.",
        ),
        (
            {},
            SearchSettings(max_extra=3, min_length=4),
            {},
            "`min_length` is 4, but the target of sentence 2 may have at most 4 tokens with `</s>`: lower `min_length` "
            "or raise `max_extra`.",
        ),
        (
            POSITIONS,
            SearchSettings(min_length=9),
            {},
            "`min_length` is 9, but the target of sentence 1 may have at most 4 tokens with `</s>`: lower "
            "`min_length`, as the model has positions for no more (`model.max_positions`).",
        ),
        ({}, SearchSettings(never=(20,)), {}, "`never` has token 20, but tokens go from 0 to 19."),
        ({}, SearchSettings(never=(-1,)), {}, "`never` has token -1, but tokens go from 0 to 19."),
    ],
)
def test_what_cannot_be_done_is_refused(
    model: dict[str, Any], settings: SearchSettings, asked: dict[str, Any], message: str
) -> None:
    with refuses(message):
        search_texts(model_of(**model), SOURCES, settings, 4096, **asked)


def test_what_just_fits_is_done() -> None:
    settings = SearchSettings(max_extra=3, min_length=3)
    found = search_texts(model_of(), SOURCES, settings, 4096, prefixes=[[4] * 5, [3, 4, 19]])
    assert [list(best.tokens[: len(prefix)]) for (best,), prefix in zip(found, ([4] * 5, [3, 4, 19]), strict=True)] == [
        [4] * 5,
        [3, 4, 19],
    ]


def test_sentences_are_numbered_as_they_come_unless_they_are_a_part_of_more() -> None:
    assert [query.number for query in text_queries(SOURCES, 50)] == [0, 1]
    assert [query.number for query in text_queries(SOURCES, 50, first=8)] == [8, 9]


def test_bounded_queries_keep_room_for_their_prefix_and_the_shortest_target() -> None:
    queries = [replace(query, prefix=[4, 4]) for query in text_queries(SOURCES, 10)]
    assert [query.limit for query in bounded(queries, None)] == [13, 11]
    assert [query.limit for query in bounded(queries, 12)] == [12, 11]
    assert [query.limit for query in bounded(queries, 1)] == [3, 3]
    assert [query.limit for query in bounded(queries, 1, least=7)] == [8, 8]
