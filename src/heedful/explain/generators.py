"""Explanations of networks that generate text: every target token with what it attended to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.recipe import Recipe
from heedful.data.tokenize.tokenizer import BEGIN, END, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.query import Query
from heedful.decode.recording import record_beam
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.explain.capture import capture_weights, explain_by_gradients
from heedful.explain.explanation import (
    Array,
    AttentionWeights,
    Explanation,
    SearchNode,
    TokenPrediction,
    TokenSequence,
)
from heedful.explain.readings import Reading
from heedful.explain.recorded_states import GateValues, LayerStates
from heedful.explain.texts import explain_tokens
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.nn.evaluation_mode import by_equation, evaluation_mode
from heedful.nn.recurrent.attention import RecurrentAttention


@dataclass(frozen=True, eq=False)
class GeneratedText:
    """What a network did to predict a text."""

    sequences: Mapping[str, TokenSequence]
    attentions: tuple[AttentionWeights, ...]
    predictions: tuple[TokenPrediction, ...]
    alignment: Array | None = None
    gates: tuple[GateValues, ...] = ()
    states: tuple[LayerStates, ...] = ()

    def explanation(self, recipe: Recipe, text: str, output: str, **more: Any) -> Explanation:
        """Return the explanation of a text, and of what a recipe's model made of it; `more` are its other parts."""
        name, family = recipe.rules.name, recipe.model.family
        return Explanation(name, family, text, output, predicted="output", **vars(self), **more)


@torch.no_grad()
def explain_pair(
    network: EncoderDecoder,
    vocabularies: Vocabularies,
    source: Sequence[int],
    target: Sequence[int],
    complete: bool,
    top: int,
    gradients: bool = False,
) -> GeneratedText:
    """Explain a target for a source, both without markers; `</s>` follows the target if it is `complete`.

    With `gradients`, they are computed too. Sequences: `source` with `</s>`; `target`, what the decoder reads, from
    `<s>` on; `output`, what it predicts.
    """
    read, device = [*source, END], next(network.parameters()).device
    given = {"source": TokenSequence.of(vocabularies["source"], read)}
    encode = partial(network.encoder, Packed.of([read]).to(device))
    return explain_target(network, encode, given, vocabularies["target"], target, complete, top, gradients)


@torch.no_grad()
def explain_target(
    network: EncoderDecoder,
    encode: Callable[[], Packed],
    given: Mapping[str, TokenSequence],
    tokenizer: Tokenizer,
    target: Sequence[int],
    complete: bool,
    top: int,
    gradients: bool = False,
) -> GeneratedText:
    """Explain a target for what `encode` returns the memory of; `given` names its one sequence, such as `source`."""
    written = [BEGIN, *target, END] if complete else [BEGIN, *target]
    inputs = torch.tensor(written[:-1], device=next(network.parameters()).device)
    with evaluation_mode(network), capture_weights(network) as captured:
        memory = encode()
        logits = _decode(network, memory, inputs)
    alignment = _align(network, memory, inputs) if "cross" in captured.kinds else None
    (keys,) = given
    sequences = {
        **given,
        "target": TokenSequence.of(tokenizer, written[:-1]),
        "output": TokenSequence.of(tokenizer, written[1:]),
    }
    attentions = (
        *captured.explain("encoder", keys, keys),
        *captured.explain("decoder", "target", "target"),
        *captured.explain("cross", "output", keys),
    )
    if gradients:
        attentions += (
            *explain_by_gradients(network, lambda: _decode(network, encode(), inputs), written[1:], "output", keys),
        )
    tokens = explain_tokens(logits, written[1:], tokenizer, top)
    gates, states = captured.explain_gates(sequences), captured.explain_states(sequences)
    return GeneratedText(sequences, attentions, tokens, alignment, gates, states)


@torch.no_grad()
def explain_running_text(
    network: LanguageModel, vocabularies: Vocabularies, tokens: Sequence[int], top: int, gradients: bool = False
) -> GeneratedText:
    """Explain how a language model predicts each token but the first, given the tokens before it.

    With `gradients`, they are computed too. Sequences: `text`, what the decoder reads; `output`, what it predicts.
    """
    read = Packed.of([list(tokens[:-1])]).to(next(network.parameters()).device)
    with evaluation_mode(network), capture_weights(network) as captured:
        logits: Tensor = network(read)
    tokenizer = vocabularies["text"]
    sequences = {"text": TokenSequence.of(tokenizer, tokens[:-1]), "output": TokenSequence.of(tokenizer, tokens[1:])}
    attentions = captured.explain("decoder", "text", "text")
    if gradients:
        attentions += explain_by_gradients(network, lambda: network(read), tokens[1:], "output", "text")
    predictions = explain_tokens(logits, tokens[1:], tokenizer, top)
    along = {"text": sequences["text"]}
    gates, states = captured.explain_gates(along), captured.explain_states(along)
    return GeneratedText(sequences, tuple(attentions), predictions, gates=gates, states=states)


def read_pair(
    network: EncoderDecoder, vocabularies: Vocabularies, source: Sequence[int], target: Sequence[int]
) -> Reading:
    """Return how a source is read without `</s>`, and how each token of a target is predicted."""
    read, given, device = [*source, END], [BEGIN, *target[:-1]], next(network.parameters()).device
    tokenizer = vocabularies["target"]

    def run(copies: int) -> Tensor:
        scores: Tensor = network(Packed.of([read] * copies).to(device), Packed.of([given] * copies).to(device))
        return scores.unflatten(0, (copies, -1))

    sequences = {
        "source": TokenSequence.of(vocabularies["source"], read),
        "target": TokenSequence.of(tokenizer, given),
    }
    written = TokenSequence.of(tokenizer, target)
    head, decoder = network.output, network.get_submodule("decoder")
    return Reading(
        network, run, sequences, written, tuple(target), tokenizer.pieces, causal=True, head=head, reader=decoder
    )


def read_running_text(network: LanguageModel, tokenizer: Tokenizer, tokens: Sequence[int], first: int = 1) -> Reading:
    """Return how a language model reads tokens, and how each of them from the `first` on is predicted."""
    device, predicted = next(network.parameters()).device, tuple(tokens[first:])

    def run(copies: int) -> Tensor:
        scores: Tensor = network(Packed.of([list(tokens[:-1])] * copies).to(device))
        return scores.unflatten(0, (copies, -1))

    return Reading(
        network,
        run,
        {"text": TokenSequence.of(tokenizer, tokens[:-1])},
        TokenSequence.of(tokenizer, predicted),
        predicted,
        tokenizer.pieces,
        rows=tuple(range(first - 1, len(tokens) - 1)),
        causal=True,
        head=network.output,
        reader=network.get_submodule("decoder"),
    )


def _decode(network: EncoderDecoder, memory: Packed, inputs_T: Tensor) -> Tensor:
    """Return the scores of every next token. Recurrent attention is run step by step, as in a search."""
    decoder = network.decoder
    if not any(isinstance(module, RecurrentAttention) for module in network.modules()):
        return decoder(Packed.join([inputs_T]).to(inputs_T.device), memory)
    state, rows = decoder.start(memory), []
    for token in inputs_T:
        logits_1V, state = decoder.step(token.unsqueeze(0), state)
        rows.append(logits_1V)
    return torch.cat(rows)


def _align(network: EncoderDecoder, memory: Packed, inputs_T: Tensor) -> Array:
    """Return the weights by which a search aligns: of each output token over the source."""
    rows = []
    with evaluation_mode(network), by_equation():
        state = network.decoder.start(memory, aligned=True)
        for token in inputs_T:
            _, state = network.decoder.step(token.unsqueeze(0), state)
            assert state.attention_RL is not None
            rows.append(state.attention_RL[0].float().cpu().numpy())
    return np.stack(rows).astype(np.float32)


def explain_search(
    scorer: Scorer, query: Query, settings: SearchSettings, tokenizer: Tokenizer, found: Sequence[int]
) -> tuple[SearchNode, ...]:
    """Search again with a record, and mark the path to what was found; none but a beam search is recorded."""
    nodes = record_beam(scorer, query, settings)
    path, before = set[int](), None
    for token in [*found, END]:
        here = [
            index
            for index, node in enumerate(nodes)
            if node.parent == before and node.token == token and index not in path
        ]
        kept = [index for index in here if nodes[index].fate != "dropped"]
        if not kept:
            break
        before = kept[0]
        path.add(before)
    names = tokenizer.pieces([node.token for node in nodes])
    return tuple(
        SearchNode(node.parent, name, node.step, node.log_probability, node.score, node.fate, index in path)
        for index, (node, name) in enumerate(zip(nodes, names, strict=True))
    )
