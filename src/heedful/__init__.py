"""Heedful: train, evaluate and use attention models on your own files.

    import heedful
    model = heedful.load("runs/m30k", heedful.Translator)
    model.translate(["Ein Hund rennt."])
    heedful.TextClassifier.load("runs/imdb").classify("A wonderful film.")

Importing this package does not import torch; the first use does.
"""

# ruff: noqa: E402
from heedful.base.processes import leave_current_folder

leave_current_folder()  # before any other import: a module of the current folder could take its place

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.base.cores import limit_spinning
from heedful.base.errors import HeedfulError, MachineError, Stopped, UserError
from heedful.base.handed_down import hand_down
from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.base.trees import Leaf, Tree
    from heedful.config.decode import Sampling
    from heedful.config.recipe import Recipe
    from heedful.data.tokenize.own_tokenizer import TextTokenizer
    from heedful.data.tokenize.vocabularies import Vocabularies
    from heedful.explain.attribution import Attribution
    from heedful.explain.explanation import (
        AttentionWeights,
        Explanation,
        TokenPrediction,
        TokenSequence,
    )
    from heedful.explain.lens import Lens
    from heedful.explain.patching import Patches
    from heedful.lab.compare import Comparison, System
    from heedful.lab.comparing import compare
    from heedful.metrics.own_metrics import Metric
    from heedful.runs.averaging import average
    from heedful.runs.callbacks import Callback, Checkpoint, Validation
    from heedful.runs.merging import merge
    from heedful.runs.quantizing import quantize
    from heedful.runs.train import Run, train
    from heedful.server.app import asgi
    from heedful.server.run import serve
    from heedful.tasks.answer.answer import Answer, Span
    from heedful.tasks.answer.model import Reader
    from heedful.tasks.caption.model import Caption, Captioner
    from heedful.tasks.classify.classification import ImageAnswer
    from heedful.tasks.classify.image_models import ImageAnswerer, ImageClassifier
    from heedful.tasks.classify.model import Classification, TextClassifier
    from heedful.tasks.evaluate import evaluate
    from heedful.tasks.fill.model import Candidate, Filled, MaskFiller
    from heedful.tasks.generate.continuing import GenerationStream
    from heedful.tasks.generate.generation import GeneratedText, Generation
    from heedful.tasks.generate.model import TextGenerator
    from heedful.tasks.generate.predicted_text import TextScore
    from heedful.tasks.loading import load
    from heedful.tasks.parse.model import Parse, Parser
    from heedful.tasks.regress.model import ImageRegressor, TextRegressor
    from heedful.tasks.shared.embeddings import TokenVectors
    from heedful.tasks.tag.model import TaggedSpan, Tagger, Tagging
    from heedful.tasks.translate.learning import learn_shortlist
    from heedful.tasks.translate.model import Translation, Translator
    from heedful.tasks.translate.scoring import PairScore, Reranked
    from heedful.training.trainer import StepMetrics

hand_down("tasks", lambda: import_module("heedful.tasks.table").RULES)  # imported when a recipe is first read
limit_spinning()  # before anything imports torch, whose threads would otherwise spin while they wait

__all__ = [
    "Answer",
    "AttentionWeights",
    "Attribution",
    "Callback",
    "Candidate",
    "Caption",
    "Captioner",
    "Checkpoint",
    "Classification",
    "Comparison",
    "Explanation",
    "Filled",
    "GeneratedText",
    "Generation",
    "GenerationStream",
    "HeedfulError",
    "ImageAnswer",
    "ImageAnswerer",
    "ImageClassifier",
    "ImageRegressor",
    "Leaf",
    "Lens",
    "MachineError",
    "MaskFiller",
    "Metric",
    "PairScore",
    "Parse",
    "Parser",
    "Patches",
    "Reader",
    "Recipe",
    "Reranked",
    "Run",
    "Sampling",
    "Span",
    "StepMetrics",
    "Stopped",
    "System",
    "TaggedSpan",
    "Tagger",
    "Tagging",
    "TextClassifier",
    "TextGenerator",
    "TextRegressor",
    "TextScore",
    "TextTokenizer",
    "TokenPrediction",
    "TokenSequence",
    "TokenVectors",
    "Translation",
    "Translator",
    "Tree",
    "UserError",
    "Validation",
    "Vocabularies",
    "__version__",
    "asgi",
    "average",
    "compare",
    "evaluate",
    "learn_shortlist",
    "load",
    "merge",
    "quantize",
    "serve",
    "train",
]
_HOMES = {  # modules that are imported when a name is first used
    "Answer": "heedful.tasks.answer.answer",
    "AttentionWeights": "heedful.explain.explanation",
    "Attribution": "heedful.explain.attribution",
    "Callback": "heedful.runs.callbacks",
    "Candidate": "heedful.tasks.fill.model",
    "Caption": "heedful.tasks.caption.model",
    "Captioner": "heedful.tasks.caption.model",
    "Checkpoint": "heedful.runs.callbacks",
    "Classification": "heedful.tasks.classify.model",
    "Comparison": "heedful.lab.compare",
    "Explanation": "heedful.explain.explanation",
    "Filled": "heedful.tasks.fill.model",
    "GeneratedText": "heedful.tasks.generate.generation",
    "Generation": "heedful.tasks.generate.generation",
    "GenerationStream": "heedful.tasks.generate.continuing",
    "Leaf": "heedful.base.trees",
    "Lens": "heedful.explain.lens",
    "MaskFiller": "heedful.tasks.fill.model",
    "Metric": "heedful.metrics.own_metrics",
    "PairScore": "heedful.tasks.translate.scoring",
    "Parse": "heedful.tasks.parse.model",
    "Parser": "heedful.tasks.parse.model",
    "Patches": "heedful.explain.patching",
    "ImageAnswer": "heedful.tasks.classify.classification",
    "ImageAnswerer": "heedful.tasks.classify.image_models",
    "ImageClassifier": "heedful.tasks.classify.image_models",
    "ImageRegressor": "heedful.tasks.regress.model",
    "Reader": "heedful.tasks.answer.model",
    "Recipe": "heedful.config.recipe",
    "Reranked": "heedful.tasks.translate.scoring",
    "Run": "heedful.runs.train",
    "Sampling": "heedful.config.decode",
    "Span": "heedful.tasks.answer.answer",
    "StepMetrics": "heedful.training.trainer",
    "System": "heedful.lab.compare",
    "TaggedSpan": "heedful.tasks.tag.model",
    "Tagger": "heedful.tasks.tag.model",
    "Tagging": "heedful.tasks.tag.model",
    "TextClassifier": "heedful.tasks.classify.model",
    "TextGenerator": "heedful.tasks.generate.model",
    "TextRegressor": "heedful.tasks.regress.model",
    "TextScore": "heedful.tasks.generate.predicted_text",
    "TextTokenizer": "heedful.data.tokenize.own_tokenizer",
    "TokenPrediction": "heedful.explain.explanation",
    "TokenSequence": "heedful.explain.explanation",
    "TokenVectors": "heedful.tasks.shared.embeddings",
    "Translation": "heedful.tasks.translate.model",
    "Translator": "heedful.tasks.translate.model",
    "Tree": "heedful.base.trees",
    "Validation": "heedful.runs.callbacks",
    "Vocabularies": "heedful.data.tokenize.vocabularies",
    "asgi": "heedful.server.app",
    "average": "heedful.runs.averaging",
    "compare": "heedful.lab.comparing",
    "evaluate": "heedful.tasks.evaluate",
    "learn_shortlist": "heedful.tasks.translate.learning",
    "load": "heedful.tasks.loading",
    "merge": "heedful.runs.merging",
    "quantize": "heedful.runs.quantizing",
    "serve": "heedful.server.run",
    "train": "heedful.runs.train",
}


_OLD_NAMES = {
    "PictureAnswer": "ImageAnswer",
    "PictureAnswerer": "ImageAnswerer",
    "PictureClassifier": "ImageClassifier",
}


def __getattr__(name: str) -> Any:
    if name in _OLD_NAMES:
        message = (
            f"heedful.{name} is called heedful.{_OLD_NAMES[name]} now; the next version will not have the old name"
        )
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = _OLD_NAMES[name]
    if name in _HOMES:
        globals()[name] = found = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
