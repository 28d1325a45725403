"""Recurrent translators: contexts of a fixed size, attention in seven steps, local and global attention, reversal."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.recurrent import RecurrentModel
from heedful.data.tokenize.tokenizer import END
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder, RecurrentMemory
from heedful.models.recurrent.wirings import Sutskever, Unfed
from heedful.nn.alignments.distributions import softmax
from heedful.nn.alignments.products import General
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_WIDTH, _VOCABULARY, _SOURCE = 4, 8, (5, 6, 7, 2)


def _translator(wiring: str, **changes: object) -> EncoderDecoder:
    widths = {"width": _WIDTH, "embedding": _WIDTH, "encoder_width": _WIDTH, "bidirectional": False, "cell": "lstm"}
    config = RecurrentModel.model_validate({"family": "recurrent", "wiring": wiring, **widths, **changes})
    model = randomize(build_model(config, _VOCABULARY, _VOCABULARY))
    set_precision(model, torch.float64)
    return cast(EncoderDecoder, model)


def _decoder(model: EncoderDecoder) -> RecurrentDecoder:
    assert isinstance(model.decoder, RecurrentDecoder)
    return model.decoder


def _lstm(layer: nn.Module, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return h and c after one step of an LSTM, written out."""
    w_x, w_h, b_x, b_h = (weight.detach() for weight in cast(nn.RNNBase, layer).all_weights[0])
    i, f, g, o = (w_x @ x + b_x + w_h @ h + b_h).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


# --- one vector of a fixed size ---------------------------------------------------------------------------------------


def size_of_the_context() -> Computed:
    """The context of sources of 1, 4 and 30 words has the same size: that of the state"""
    with drawn():
        model = _translator("sutskever")
        sizes = [
            _decoder(model).start(model.encoder(Packed.of([[5] * length]))).recurrent.hidden.numel()
            for length in (1, 4, 30)
        ]
        return Computed([_WIDTH] * 3, sizes)


def deep_lstm_to_deep_lstm() -> Computed:
    """The last states of both layers of an LSTM over the source are where the two layers of the decoder begin"""
    with drawn():
        model = _translator("sutskever", layers=2)
        memory, wiring = model.encoder(Packed.of([_SOURCE])), _decoder(model).wiring
        encoder = cast(RecurrentEncoder, model.encoder)
        source, states = Packed.of([_SOURCE]), []
        inputs = [*encoder.embedding(source.values, source.layout).detach()]
        for layer in encoder.stack.layers:
            h, c, outputs = *(torch.zeros(_WIDTH, dtype=torch.float64) for _ in "hc"), []
            for x in inputs:
                h, c = _lstm(layer, x, h, c)
                outputs.append(h)
            inputs = outputs
            states.append(torch.cat([h, c]))
        assert isinstance(wiring, Sutskever)
        first = wiring.first(memory)
        assert first.cell is not None
        return Computed(torch.stack(states), torch.cat([first.hidden[:, 0], first.cell[:, 0]], dim=1))


def two_input_vectors() -> Computed:
    """A step takes two vectors, the input and the state before: nothing else of the past changes the new state"""
    with drawn():
        stack = cast(RecurrentStack, randomize(RecurrentStack("rnn_tanh", 3, _WIDTH)))
        x, weights = numbers(5, 3), cast(nn.RNNBase, stack.layers[0]).all_weights[0]
        w_x, w_h, b_x, b_h = (weight.detach() for weight in weights)
        states, _ = stack(x, Layout.of([5]))
        return Computed(torch.tanh(w_x @ x[4] + b_x + w_h @ states[3] + b_h), states[4])


def trained_jointly() -> Computed:
    """-log P(Y | X) = -sum_t log P(y_t | y_1 .. y_(t-1), X); its gradient reaches every weight of both networks"""
    with drawn():
        model, target = _translator("cho"), (6, 5, 2)
        total = 0.0
        for place, word in enumerate(target):
            scores = model(Packed.of([_SOURCE]), Packed.of([[1, *target[:place]]]))[-1].detach()
            total -= math.log(scores[word].exp() / scores.exp().sum())
        states = model.states(Packed.of([_SOURCE]), Packed.of([[1, *target[:-1]]]))
        loss, _ = smoothed_cross_entropy(states, model.output.weight, model.output.bias, torch.tensor(target), 0.0)
        loss.backward()
        weights = list(model.parameters())
        reached = sum(weight.grad is not None and bool(weight.grad.any()) for weight in weights)
        return Computed([total, len(weights)], [float(loss.detach()), reached])


def reversed_lags() -> Computed:
    """Steps between reading word i of 5 and writing word i: always 5; reversed 1, 3, 5, 7 and 9, of which two are short

    Counted from the order in which an encoder reads; the mean is the same.
    """
    with drawn():
        found = []
        for reverse in (False, True):
            model = _translator("sutskever", reverse_source=reverse)
            encoder, source = cast(RecurrentEncoder, model.encoder), Packed.of([(3, 4, 5, 6, 7)])
            fed = list[Tensor]()
            encoder.stack.register_forward_pre_hook(lambda _, given, fed=fed: fed.append(given[0].detach()))
            encoder(source)
            words = encoder.embedding(source.values, source.layout).detach()
            read = [int((fed[0] == word).all(1).nonzero()) for word in words]
            found += [5 + written - place for written, place in enumerate(read)]
        return Computed([5, 5, 5, 5, 5, 1, 3, 5, 7, 9], found)


# --- attention --------------------------------------------------------------------------------------------------------


def _attending(**changes: object) -> tuple[EncoderDecoder, Unfed, General]:
    model = _translator("luong", input_feeding=False, **changes)
    wiring = _decoder(model).wiring
    assert isinstance(wiring, Unfed)
    alignment = wiring.reader.alignment
    assert isinstance(alignment, General)
    return model, wiring, alignment


def seven_steps() -> Computed:
    """All seven steps, three times over: state, scores, context, [h; C], feed-forward network and word of each

    1 <END> and a first state go into the decoder; 2 its new state h4 (the output is discarded); 3 the context C4 of
    the encoder's states by their scores with h4; 4 [h4; C4]; 5 a feed-forward network, tanh(W [C4; h4]) and the output
    layer; 6 the word with the highest score; 7 the same with this word.
    """
    with drawn():
        model, wiring, alignment = _attending()
        decoder, memory = _decoder(model), cast(RecurrentMemory, model.encoder(Packed.of([_SOURCE])))
        h, first = memory.values.detach(), decoder.wiring.start(memory, 1, False).recurrent
        assert first.cell is not None
        state, cell, token, text = first.hidden[0, 0].detach(), first.cell[0, 0].detach(), END, []
        joined = torch.cat([wiring.from_context.weight, wiring.from_state.weight], dim=1).detach()
        for _ in range(3):
            x = decoder.embedding.step(torch.tensor([token]), 0)[0].detach()
            state, cell = _lstm(wiring.stack.layers[0], x, state, cell)
            exps = [math.exp(state @ alignment.weight[0].detach() @ one) for one in h]
            context = sum((exp / sum(exps) * one for exp, one in zip(exps, h, strict=True)), torch.zeros_like(h[0]))
            y = torch.tanh(joined @ torch.cat([context, state]))
            scores = decoder.output.weight.detach() @ y
            scores = scores if decoder.output.bias is None else scores + decoder.output.bias.detach()
            token = int(scores.argmax())
            text.append(torch.cat([state, y, scores, torch.tensor([float(token)])]))

        rows, token, ours = decoder.start(memory), END, []
        for _ in range(3):
            y, rows = decoder.wiring.step(decoder.embedding.step(torch.tensor([token]), rows.position), rows)
            scores = decoder.output(y)[0]
            token = int(scores.argmax())
            ours.append(torch.cat([rows.recurrent.hidden[0, 0], y[0], scores, torch.tensor([float(token)])]))
        return Computed(torch.stack(text), torch.stack(ours), tolerance=1e-5)


def score_times_softmax() -> Computed:
    """The score times a softmax in the text; each hidden state times the softmax of its score, and the sum of these"""
    with drawn():
        model, wiring, alignment = _attending()
        memory, s = cast(RecurrentMemory, model.encoder(Packed.of([_SOURCE]))), numbers(_WIDTH)
        h = memory.values.detach()
        scores = [float(s @ alignment.weight[0].detach() @ one) for one in h]
        total = sum(map(math.exp, scores))
        weights = [math.exp(score) / total for score in scores]
        text = torch.tensor([score * weight for score, weight in zip(scores, weights, strict=True)])
        right = sum((weight * one for weight, one in zip(weights, h, strict=True)), torch.zeros_like(s))
        ours, _ = wiring.reader(s[None, None], wiring.reader.prepare(memory), torch.zeros(1, dtype=torch.int64))
        return Computed(text, ours.flatten().detach(), right)


def all_states_are_passed() -> Computed:
    """Vectors of the source that a decoder gets, with 4 words: one without attention, 4 with it"""
    with drawn():
        source = Packed.of([_SOURCE])
        plain = _translator("sutskever")
        handed = _decoder(plain).start(plain.encoder(source)).recurrent.hidden.shape[1]
        model, wiring, _ = _attending()
        readable = wiring.start(cast(RecurrentMemory, model.encoder(source)), 1, False).readable
        assert readable is not None
        return Computed([1, 4], [handed, readable.candidates.values.shape[2]])


def global_and_local() -> Computed:
    """Source words with a weight, of 9: all with global attention, 2 D + 1 = 3 with local-m, 1: no more with local-p"""
    with drawn():
        found, source = [], Packed.of([[5, 6, 7, 3, 4, 5, 6, 7, 2]])
        for window in ("global", "monotone", "predicted"):
            model, wiring, _ = _attending(window=window, half_width=1)
            memory = cast(RecurrentMemory, model.encoder(source))
            _, weights = wiring.reader(numbers(1, 1, _WIDTH), wiring.reader.prepare(memory), torch.tensor([4]))
            found.append(float((weights > 0).sum()))
        return Computed([9, 3, 1], [found[0], found[1], float(found[2] <= 3)])


def amplified_and_drowned() -> Computed:
    """Weights of scores 3, 1 and -2 against equal ones: the highest is amplified, the lowest is drowned out"""
    scores = [3.0, 1.0, -2.0]
    text = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
    assert text[0] > 1 / 3 > text[1] > text[2]
    return Computed(text, softmax(torch.tensor(scores, dtype=torch.float64)))
