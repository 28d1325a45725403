"""What a model answers to fixed questions, as JSON values, and how far two such answers are apart.

Models are used by the public surface alone, so that this outlives every change behind it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import heedful

Json = dict[str, Any]
TOLERANCE: Final = 1e-5  # of numbers, relative to those above 1; texts and tokens are equal
_NUMBERS: Final = 4  # of each vector
_NEW: Final = 12  # tokens of a continued text


def answers(folder: Path, asked: Mapping[str, Any]) -> Json:
    """Load the model in a folder and ask it."""
    model = heedful.load(folder, device="cpu", precision="float32")
    if "sources" in asked:
        return _translations(model, asked)
    if "generate" in asked:
        return _continuations(model, asked)
    if "about_pictures" in asked:
        return _picture_answers(model, asked)
    if "questions" in asked:
        return _stretches(model, asked)
    if "parse" in asked:
        return _trees(model, asked)
    if "pictures" in asked:
        return _picture_classes(model, asked)
    if "captions" in asked:
        return _captions(model, asked)
    if "regress" in asked:
        return _numbers(model, asked)
    if "numbers_of_pictures" in asked:
        return _numbers_of_pictures(model, asked)
    if "tag" in asked:
        return _labels(model, asked)
    return _classifications(model, asked) if "classify" in asked else _fillings(model, asked)


def differences(recorded: Any, found: Any, where: str = "") -> list[str]:
    """The places where answers differ, in words; none where they are alike."""
    match recorded, found:
        case float(), float() | int():
            close = abs(recorded - found) <= TOLERANCE * max(1.0, abs(recorded))
            return [] if close else [f"{where}: was {recorded}, is {found}"]
        case dict(), dict() if recorded.keys() == found.keys():
            return [line for key in recorded for line in differences(recorded[key], found[key], f"{where}.{key}")]
        case list(), list() if len(recorded) == len(found):
            both = enumerate(zip(recorded, found, strict=True))
            return [line for place, (old, new) in both for line in differences(old, new, f"{where}[{place}]")]
        case _:
            return [] if recorded == found else [f"{where}: was {recorded!r}, is {found!r}"]


def _translations(model: Any, asked: Mapping[str, Any]) -> Json:
    sources, to, aligned = asked["sources"], asked["to"], asked["aligned"]
    greedy = model.translate_detailed(sources, beam=1, to=to, aligned=aligned)
    beam = model.translate_detailed(sources, beam=4, nbest=3, to=to)
    return {
        "texts": model.translate(sources, to=to),
        "greedy": [[_translation(best) for best in found] for found in greedy],
        "beam": [[_translation(best) for best in found] for found in beam],
        "score": [
            {"pieces": [*pair.pieces], "log_probabilities": [*pair.log_probabilities]}
            for pair in model.score(sources, asked["targets"], to)
        ],
    }


def _translation(found: Any) -> Json:
    alignment = found.alignment and {
        "words": found.alignment.pharaoh(),
        "pieces": [[*pair] for pair in found.alignment.pieces],
        "source_pieces": [*found.alignment.source_pieces],
        "target_pieces": [*found.alignment.target_pieces],
    }
    return {
        "text": found.text,
        "tokens": [*found.tokens],
        "complete": found.complete,
        "score": found.score,
        "log_probability": found.log_probability,
        "alignment": alignment,
    }


def _classifications(model: Any, asked: Mapping[str, Any]) -> Json:
    texts, seconds = asked["classify"], asked["seconds"]
    said = model.classify(texts, seconds)
    looked = [model.weights(*pair) for pair in zip(texts, seconds or [None] * len(texts), strict=True)]
    return {
        "labels": [*model.labels],
        "classified": [{"labels": [*each.labels], "probabilities": dict(each.probabilities)} for each in said],
        "weights": [
            [{"pieces": [*part.pieces], "weights": [*part.weights], "weight": part.weight} for part in parts]
            for parts in looked
        ],
        "embedded": _few_numbers(model.embed(texts)),
    }


def _numbers(model: Any, asked: Mapping[str, Any]) -> Json:
    return {
        "numbers": model.regress(asked["regress"], asked["seconds"]),
        "embedded": _few_numbers(model.embed(asked["regress"])),
    }


def _pictures(sizes: Sequence[Sequence[int]]) -> list[Any]:
    """Return pictures of these sizes, whose pixels are made by a formula."""
    return [
        np.fromfunction(lambda y, x, c, n=number: (7 * y + (5 + n) * x + 60 * c) % 256, (*size, 3)).astype(np.uint8)
        for number, size in enumerate(sizes)
    ]


def _captions(model: Any, asked: Mapping[str, Any]) -> Json:
    pictures = _pictures(asked["captions"])
    beam = model.caption_detailed(pictures, beam=3, nbest=2, max_extra=12)
    return {
        "texts": model.caption(pictures, beam=1, max_extra=12),
        "beam": [
            [
                {"text": one.text, "tokens": [*one.tokens], "log_probability": one.log_probability, "score": one.score}
                for one in found
            ]
            for found in beam
        ],
    }


def _picture_answers(model: Any, asked: Mapping[str, Any]) -> Json:
    found = model.answer(asked["about_pictures"], _pictures(asked["pictures"]))
    return {"answers": [{"text": one.text, "probabilities": dict(sorted(one.probabilities.items()))} for one in found]}


def _picture_classes(model: Any, asked: Mapping[str, Any]) -> Json:
    said = model.classify(_pictures(asked["pictures"]))
    return {
        "labels": [*model.labels],
        "classified": [{"labels": [*each.labels], "probabilities": dict(each.probabilities)} for each in said],
    }


def _numbers_of_pictures(model: Any, asked: Mapping[str, Any]) -> Json:
    return {"numbers": model.regress(_pictures(asked["numbers_of_pictures"]))}


def _labels(model: Any, asked: Mapping[str, Any]) -> Json:
    said = model.tag(asked["tag"])
    return {
        "labels": [*model.labels],
        "tagged": [
            {"words": [*each.words], "labels": [*each.labels], "probabilities": [*each.probabilities]} for each in said
        ],
    }


def _trees(model: Any, asked: Mapping[str, Any]) -> Json:
    found = model.stream_detailed(asked["parse"], beam=4, nbest=2)
    return {
        "labels": [*model.labels],
        "greedy": [tree and str(tree) for tree in model.parse(asked["parse"], beam=1)],
        "parsed": [
            [
                {"tree": one.tree and str(one.tree), "log_probability": one.log_probability, "score": one.score}
                for one in parses
            ]
            for parses in found
        ],
    }


def _fillings(model: Any, asked: Mapping[str, Any]) -> Json:
    texts, seconds = asked["fill"], asked["seconds"]
    found = [*model.fill(texts, top=3), *model.fill(texts, top=3, second=seconds)]
    pieces, vectors = model.embed(asked["embed"], of="tokens", layer=1)[0]
    return {
        "filled": [
            {
                "text": filled.text,
                "second": filled.second,
                "masks": [
                    [
                        {"piece": one.piece, "text": one.text, "token": one.token, "probability": one.probability}
                        for one in candidates
                    ]
                    for candidates in filled.masks
                ],
            }
            for filled in found
        ],
        "embedded": _few_numbers(model.embed(asked["embed"])),
        "tokens": {"pieces": [*pieces], "vectors": _few_numbers(vectors)},
    }


def _continuations(model: Any, asked: Mapping[str, Any]) -> Json:
    evaluated = model.evaluate(asked["evaluate"]).to_json()
    return {
        "texts": model.generate(asked["generate"], max_tokens=_NEW, temperature=0),
        "evaluated": {key: evaluated[key] for key in ("loss", "perplexity", "word_perplexity", "tokens", "words")},
    }


def _stretches(model: Any, asked: Mapping[str, Any]) -> Json:
    found = model.answer(asked["questions"], asked["about"], max_answer=4)
    return {
        "answered": [
            {
                "text": one.text,
                "start": one.start,
                "no_answer": one.no_answer,
                "spans": [{"start": s.start, "end": s.end, "probability": s.probability} for s in one.spans],
            }
            for one in found
        ]
    }


def _few_numbers(vectors: Any) -> list[Sequence[float]]:
    return [row[:_NUMBERS].tolist() for row in vectors]
