"""What a model did with a text or an image: arrays of numpy, with names for their axes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.arguments import warn_of_old_name
from heedful.base.errors import UserError
from heedful.base.packed import Images
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.explain.recorded_states import GateValues, LayerStates

Array = NDArray[np.float32]
# Self-attention of an encoder; of the encoder of a question about an image; causal self-attention; attention over the
# encoder's memory; the weights of words in their sentence, text or question, of patches in their image, and of tokens
# or sentences in their text or document. `gradient` and `span` are not attention: see `gradients`, `Reader.explain`.
AttentionKind = Literal["encoder", "question", "decoder", "cross", "words", "patches", "pool", "gradient", "span"]


@dataclass(frozen=True)
class TokenSequence:
    """The tokens along an axis of weights, and the words that they are parts of."""

    pieces: tuple[str, ...]  # tokens in readable form: see `Tokenizer.pieces`
    words: tuple[int, ...]  # index of each piece's word; a marker is a word of its own
    texts: tuple[str, ...]  # the words themselves

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "TokenSequence":
        """Name token ids, markers among them."""
        numbers: list[int] = []
        for is_text, group in groupby(ids, key=lambda token: token >= tokenizer.markers or token == UNKNOWN):
            run, first = list(group), numbers[-1] + 1 if numbers else 0
            numbers += [first + number for number in (tokenizer.words(run) if is_text else range(len(run)))]
        places = {number: place for place, number in enumerate(dict.fromkeys(numbers))}  # without gaps
        pieces, words = tokenizer.pieces(ids), [places[number] for number in numbers]
        texts = []
        for word in range(max(words, default=-1) + 1):
            own = [index for index, number in enumerate(words) if number == word]
            texts.append(tokenizer.decode([ids[index] for index in own]).strip() or "".join(pieces[i] for i in own))
        return cls(tuple(pieces), tuple(words), tuple(texts))

    @classmethod
    def named(cls, names: Sequence[str]) -> "TokenSequence":
        """Make a sequence whose every item is a word: sentences of a document, patches of an image."""
        return cls(tuple(names), tuple(range(len(names))), tuple(names))

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """The weights of all layers and heads of one kind of attention. `queries` and `keys` name their sequences.

    A row, the weights of one query, sums to 1 where the distribution is normalised, as a softmax is. Where sequences
    are several texts or sentences that do not see each other, the weights between them are 0.
    """

    kind: AttentionKind
    weights: Array  # layer x head x query x key
    queries: str
    keys: str

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.weights.shape[0]

    @property
    def heads(self) -> int:
        """The number of heads of a layer."""
        return self.weights.shape[1]

    def head_means(self) -> Array:
        """Return the mean over heads: layer x query x key."""
        return self.weights.mean(axis=1)

    def rollout(self) -> Array:
        """Return how much of each input token reaches each token, layer by layer: layer x query x key

        R_l = normalised((A_l + I) / 2) R_(l-1), A_l the mean over heads      Abnar and Zuidema 2020, 3
        """
        if self.queries != self.keys:
            raise UserError(f"Rollout is for self-attention, but `{self.kind}` attends from one sequence to another.")
        mixed = (self.head_means() + np.eye(self.weights.shape[2], dtype=np.float32)) / 2
        found = [np.eye(self.weights.shape[2], dtype=np.float32)]
        for layer in mixed / mixed.sum(axis=2, keepdims=True):
            found.append(layer @ found[-1])
        return np.stack(found[1:])


@dataclass(frozen=True)
class TokenPrediction:
    """A token that a model predicted or was given, and the most likely other ones."""

    index: int  # in the sequence `Explanation.predicted`
    piece: str
    probability: float
    runners_up: tuple[tuple[str, float], ...]  # other pieces with their probabilities, most likely first
    others: tuple[int, ...] = ()  # tokens of these pieces


@dataclass(frozen=True)
class SearchNode:
    """One more token of a hypothesis of a beam search: see `decode.recording.BeamNode`."""

    parent: int | None  # index of the node before it; None after the start
    piece: str
    step: int  # tokens so far, this one included
    log_probability: float
    score: float  # log P over the length penalty of this length
    fate: str  # "continued", "finished", "died", "open" when the search was done, or "dropped" at once
    best: bool  # whether it is a part of the output


CLASS: Final = "class"  # name of the class token


@dataclass(frozen=True, eq=False)
class ExplainedImage:
    """An image as the model read it: resized, in gray or colour, and cut into square patches, row by row."""

    pixels: NDArray[np.uint8]  # height x width x channels
    patch: int  # pixels on each side
    class_token: bool  # whether a token for the whole image comes before the patches

    @property
    def rows(self) -> int:
        """The number of patches from top to bottom; those at the edge may be cut."""
        return -(-self.pixels.shape[0] // self.patch)

    @property
    def columns(self) -> int:
        """The number of patches from left to right."""
        return -(-self.pixels.shape[1] // self.patch)

    def names(self) -> list[str]:
        """Return the name of each token: the class token, then row and column of each patch, counted from 1."""
        grid = [f"{row + 1},{column + 1}" for row in range(self.rows) for column in range(self.columns)]
        return [CLASS, *grid] if self.class_token else grid

    def packed(self) -> Images:
        """Return the image as a network reads it."""
        return Images.of([torch.from_numpy(self.pixels)], self.patch, self.class_token)

    def on_grid(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return weights of tokens, the last axis, as a grid: ... x row x column. The class token is left out."""
        patches = weights[..., 1:] if self.class_token else weights
        return patches.reshape(*patches.shape[:-1], self.rows, self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, without the pixels."""
        height, width, channels = self.pixels.shape
        return {
            "height": height,
            "width": width,
            "channels": channels,
            "patch": self.patch,
            "rows": self.rows,
            "columns": self.columns,
            "class_token": self.class_token,
            "sequence": "patches",
        }


class Measured(ABC):
    """Numbers that explain an output, besides weights: attributions, a lens, patches."""

    name: ClassVar[str]  # of their object in JSON

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return them as numbers, texts, lists and dictionaries, for JSON."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The weights with which a model read a text, and its predictions."""

    task: str
    family: str
    text: str
    output: str  # translation, label, filled text; empty where the text itself is what is predicted
    sequences: Mapping[str, TokenSequence]
    attentions: tuple[AttentionWeights, ...] = ()
    predicted: str = ""  # name of the sequence that the predictions are of
    predictions: tuple[TokenPrediction, ...] = ()
    classes: Mapping[str, float] = field(default_factory=dict)  # probability of each class
    alignment: Array | None = None  # output token x source token, as `translate --alignments` sees it
    change: str = ""  # what was changed in the model or in the text, in words
    question: str = ""  # that the text or the image answers
    gates: tuple[GateValues, ...] = ()  # gates and states of recurrent stacks
    states: tuple[LayerStates, ...] = ()  # hidden states of Transformers, layer by layer
    search: tuple[SearchNode, ...] = ()  # the life of the beam that found the output, if it was asked for
    before: "Explanation | None" = None  # the explanation without the change
    tree: str = ""  # the parse of the text, with brackets
    image: ExplainedImage | None = None  # the image whose patches are the sequence `patches`
    cut: bool = False  # whether the text is longer than the model reads, and was cut
    measured: tuple[Measured, ...] = ()  # attributions, the lens and patches, where they were asked for

    def __getattr__(self, name: str) -> Any:
        if name != "picture":  # the name of `image` in an earlier version
            raise AttributeError(f"'Explanation' object has no attribute {name!r}")
        warn_of_old_name("picture", "image")
        return self.image

    def attention(self, kind: AttentionKind) -> AttentionWeights:
        """Return the weights of one kind of attention."""
        found = next((one for one in self.attentions if one.kind == kind), None)
        if found is None:
            kinds = ", ".join(f"`{one.kind}`" for one in self.attentions) or "no attention at all"
            raise UserError(f"This model has no attention `{kind}`: it has {kinds}.")
        return found

    def states_of(self, part: str) -> LayerStates:
        """Return the hidden states of one part of a Transformer: `encoder`, `question` or `decoder`."""
        found = next((one for one in self.states if one.part == part), None)
        if found is None:
            parts = ", ".join(f"`{one.part}`" for one in self.states) or "none"
            raise UserError(f"This model has no hidden states of `{part}`. Those that it has: {parts}.")
        return found

    def hard_alignment(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs (source token, output token): each output token with the source token of most weight."""
        if self.alignment is None:
            raise UserError("This model does not attend to a source: it has no alignment.")
        return tuple((int(source), output) for output, source in enumerate(self.alignment.argmax(axis=1)))

    def to_json(self, weights: bool = True, gates: bool = False, states: bool = False) -> dict[str, Any]:
        """Return everything, or everything but the weights, as numbers, texts, lists and dictionaries, for JSON.

        Gates and states, which are many, are there on request.
        """
        return {
            "task": self.task,
            "family": self.family,
            "text": self.text,
            **({"cut": True} if self.cut else {}),
            "question": self.question,
            "output": self.output,
            "sequences": {name: asdict(one) for name, one in self.sequences.items()},
            "attentions": [
                {
                    "kind": one.kind,
                    "queries": one.queries,
                    "keys": one.keys,
                    "axes": ["layer", "head", "query", "key"],
                    **({"weights": one.weights.tolist()} if weights else {}),
                }
                for one in self.attentions
            ],
            "predicted": self.predicted,
            "predictions": [
                {
                    "index": one.index,
                    "piece": one.piece,
                    "probability": one.probability,
                    "runners_up": [{"piece": piece, "probability": share} for piece, share in one.runners_up],
                }
                for one in self.predictions
            ],
            "classes": dict(self.classes),
            "alignment": None if self.alignment is None else self.alignment.tolist(),
            "change": self.change,
            "before": None if self.before is None else {"text": self.before.text, "output": self.before.output},
            "gates": [
                {
                    "stack": one.stack,
                    "kind": one.kind,
                    "layer": one.layer,
                    "direction": one.direction,
                    "steps": one.steps,
                    "axes": ["step", "unit"],
                    "values": {name: values.tolist() for name, values in one.values.items()},
                }
                for one in (self.gates if gates else ())
            ],
            "states": [
                {
                    "part": one.part,
                    "tokens": one.tokens,
                    "axes": ["layer", "token", "component"],
                    "values": one.values.tolist(),
                    "output": one.output.tolist(),
                }
                for one in (self.states if states else ())
            ],
            "search": [asdict(node) for node in self.search],
            "tree": self.tree,
            "image": None if self.image is None else self.image.to_json(),
            **{one.name: one.to_json() for one in self.measured},
        }
