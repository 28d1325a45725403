"""What every old model is asked over HTTP, and what the model answers to it in Python, alone."""

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from statistics import mean
from typing import Any, Final

import numpy as np
import pytest
from PIL import Image

import heedful
from heedful.config.tasks import TASKS

Json = dict[str, Any]
BUNDLES: Final = Path(__file__).parents[1] / "golden/bundles"
NAMES: Final = sorted(folder.name for folder in BUNDLES.iterdir() if folder.is_dir())

# Models of all tasks, and of the families that search in ways of their own: in every run, the others in the wide one.
COVERING: Final = (
    "answers-about-images", "bert", "captions-recurrent", "classifier-bert-several", "classifier-parallel-pairs",
    "images-numbers", "images-vit", "language-llama", "language-recurrent", "parser", "reader", "recurrent-bahdanau",
    "regressor-bag", "tagger-transformer", "transformer", "transformer-languages",
)  # fmt: skip
KINDS: Final = [pytest.param(name, marks=() if name in COVERING else pytest.mark.wide) for name in NAMES]

REVIEWS: Final = ["The film was great. The cast was funny.", "The ending was dull.", "A story"]
REPORT: Final = "On Monday, Clara Dale found 17 keys in the cave. It was Emil Holm who hid two cups at the zoo in June."
PIXELS: Final = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 48, 3)).astype(np.uint8)
# Sentences, each after its spacing: the last one is what follows them.
SPACED: Final = [
    ("", "the dog sees the tree today."),
    ("\n\n   ", "a bird likes a small fish."),
    ("\t ", "The girl sees a dog!"),
    (" \r\n", ""),
]
TEXT: Final = "".join(before + text for before, text in SPACED)
SHORT: Final = {"max_extra": 3}  # untrained models seldom end by themselves


def png(pixels: Any = PIXELS) -> bytes:
    """Return an image as a file of PNG."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


IMAGE: Final = base64.b64encode(png()).decode()
URI: Final = f"data:image/png;base64,{IMAGE}"


def load(name: str) -> Any:
    """Load an old model."""
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


def bodies(model: Any) -> list[Json]:
    """Return requests that a model can answer, with one input and with several, with options and without."""
    two = {"second": REVIEWS[::-1]} if getattr(model, "paired", False) else {}
    to = {"to": "de"} if model.recipe.rules.verb == "translate" and model.vocabularies["source"].tags else {}
    match model.recipe.rules.name:
        case "translate":
            texts = ["the dog sees the tree today.", "a bird likes a small fish."]
            return [
                {"text": texts[0], **to, **SHORT},
                {"text": texts, "beam": 1, **to, **SHORT},
                {"text": TEXT, "beam": 3, "alternatives": 2, "length_penalty": 0.6, **to, **SHORT},
            ]
        case "classify" | "regress":
            return [{"text": REVIEWS, **two}, {"text": REVIEWS[0], **{key: value[0] for key, value in two.items()}}]
        case "tag":
            return [{"text": ["a bird likes the songs .", "now the girl"]}, {"text": "the dog"}]
        case "fill":
            return [{"text": "The dog [MASK] the [MASK].", "top": 3}, {"text": ["A [MASK] likes it.", "[MASK]"]}]
        case "parse":
            return [{"text": "the dog sees a fish"}, {"text": ["the dog sees a fish", "now"], "beam": 2, "n_best": 2}]
        case "answer":
            return [
                {"question": "Who found keys?", "text": REPORT},
                {"question": ["Who hid cups?", "When?"], "text": REPORT, "n_best": 3, "max_answer": 4},
            ]
        case "answer_images":
            question = "is there a red circle ?"
            return [{"question": question, "image": IMAGE}, {"question": [question] * 2, "image": URI, "n_best": 2}]
        case "caption":
            return [{"image": URI, "beam": 2, **SHORT}, {"image": [IMAGE, IMAGE], "alternatives": 1, **SHORT}]
        case "generate":
            return [
                {"text": ["The dog", "A bird likes"], "max_tokens": 5, "temperature": 0},
                {"text": "The dog", "max_tokens": 6, "seed": 4, "temperature": 0.9, "top_k": 5},
                {"text": "The dog", "max_tokens": 4, "samples": 3, "seed": 1},
                {"text": "The dog", "max_tokens": 4, "samples": 2, "beam": 3},
            ]
        case "classify_images" | "regress_images":
            return [{"image": IMAGE}, {"image": [IMAGE, URI]}]
        case other:
            raise AssertionError(f"{other} of {TASKS} has no requests")


def answered_alone(model: Any, body: Mapping[str, Any]) -> list[Json]:
    """Return the results of a request, one input after the other, by calls in Python."""
    return [ALONE[model.recipe.rules.name](model, **one) for one in _each(body)]


def _each(body: Mapping[str, Any]) -> list[Json]:
    """Return the requests of single inputs, as calls in Python have them."""
    given = {key: body[key] for key in ("text", "second", "question", "image") if key in body}
    count = max(len(value) if isinstance(value, list) else 1 for value in given.values())
    rows = [
        {key: value[row] if isinstance(value, list) else value for key, value in given.items()} for row in range(count)
    ]
    options = {key: value for key, value in body.items() if key not in given}
    for row in rows:
        if "image" in row:
            row["image"] = base64.b64decode(row["image"].rpartition(",")[2])
    return [{**row, **options} for row in rows]


def _translated(model: Any, text: str, alternatives: int = 0, **options: Any) -> Json:
    pieces = SPACED if text == TEXT else [("", text)]
    found = [model.translate_detailed(sentence, nbest=alternatives + 1, **options) for _, sentence in pieces]
    most = max(map(len, found))
    ranked = [[(some[rank:] or some)[0] for some in found] for rank in range(most)]
    texts = ["".join(before + one.text for (before, _), one in zip(pieces, some, strict=True)) for some in ranked]
    result = {
        "text": texts[0],
        "score": mean(one.score for one in ranked[0]),
        "complete": all(one.complete for one in ranked[0]),
    }
    if alternatives:
        scores = [mean(one.score for one in some) for some in ranked]
        others = {one: score for one, score in zip(texts, scores, strict=True) if one != texts[0]}
        listed = [{"text": one, "score": score} for one, score in others.items()]
        result["alternatives"] = listed[:alternatives]
    return result


def _classified(model: Any, text: Any = None, second: Any = None, image: Any = None) -> Json:
    found = model.classify(image) if image else model.classify(text, *([second] if second else []))
    shares, cut = dict(found.probabilities), {"cut": True} if found.cut else {}
    if model.several:
        return {"labels": list(found.labels), "probabilities": shares, **cut}
    return {"label": found.label, "probability": shares[found.label], "probabilities": shares, **cut}


def _numbered(model: Any, text: Any = None, second: Any = None, image: Any = None) -> Json:
    return {"value": model.regress(image) if image else model.regress(text, *([second] if second else []))}


def _tagged(model: Any, text: str) -> Json:
    found = model.tag(text)
    spans = [{"type": one.type, "start": one.start, "end": one.end, "text": one.text} for one in found.spans()]
    return {"words": [*found.words], "labels": [*found.labels], "probabilities": [*found.probabilities], "spans": spans}


def _filled(model: Any, text: str, top: int = 5) -> Json:
    found = model.fill(text, top=top)
    masks = [
        [{"piece": one.piece, "text": one.text, "token": one.token, "probability": one.probability} for one in some]
        for some in found.masks
    ]
    return {"filled": found.text, "masks": masks}


def _parsed(model: Any, text: str, n_best: int = 1, **options: Any) -> Json:
    (parses,) = model.stream_detailed([text], nbest=n_best, **options)
    found = [
        {"tree": one.tree and str(one.tree), "log_probability": one.log_probability, "score": one.score}
        for one in parses
    ]
    return {"words": [*parses[0].words], **found[0], **({"nbest": found} if n_best > 1 else {})}


def _read(model: Any, question: str, text: str, **options: Any) -> Json:
    found = model.answer(question, text, **options)
    spans = [
        {"text": one.text, "start": one.start, "end": one.end, "probability": one.probability} for one in found.spans
    ]
    result = {"answer": found.text, "start": found.start, "end": found.end, "probability": found.probability}
    none = {} if found.no_answer is None else {"no_answer": found.no_answer}
    return {**result, **none, "spans": spans, **({"nbest": spans} if options.get("n_best", 1) > 1 else {})}


def _looked_at(model: Any, question: str, image: bytes, n_best: int = 1) -> Json:
    found = model.answer(question, image)
    best = [{"text": text, "probability": share} for text, share in [*found.probabilities.items()][:n_best]]
    result = {"answer": found.text, "probability": found.probability, "probabilities": dict(found.probabilities)}
    return {**result, **({"nbest": best} if n_best > 1 else {})}


def _captioned(model: Any, image: bytes, alternatives: int = 0, **options: Any) -> Json:
    if alternatives:
        options["beam"] = max(model.recipe.decode.beam, alternatives + 1)
    best, *others = model.caption_detailed(image, nbest=alternatives + 1, **options)
    listed = [{"text": one.text, "score": one.score} for one in others]
    result = {"text": best.text, "score": best.score, "complete": best.complete}
    return {**result, **({"alternatives": listed} if alternatives else {})}


def _continued(model: Any, text: str, **options: Any) -> Json:
    found: Any = model.generate_detailed(text, **options)
    found = found if isinstance(found, Sequence) and not hasattr(found, "text") else [found]
    texts = [{"text": one.text, "ended": one.ended, "tokens": len(one.tokens)} for one in found]
    return {**texts[0], **({"samples": texts} if options.get("samples", 1) > 1 else {})}


ALONE: Final[dict[str, Any]] = {
    "translate": _translated,
    "classify": _classified,
    "classify_images": _classified,
    "regress": _numbered,
    "regress_images": _numbered,
    "tag": _tagged,
    "fill": _filled,
    "parse": _parsed,
    "answer": _read,
    "answer_images": _looked_at,
    "caption": _captioned,
    "generate": _continued,
}
