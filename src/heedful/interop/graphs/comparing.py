"""Compares graphs, run by any library, with the network that they were made of."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Images, Packed
from heedful.data.corpora.images import LabelledImage
from heedful.data.images.decoding import fit_image
from heedful.data.text_form import TextForm
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.greedy import LONGEST, NEVER, Answer, answer, inputs_of, limits_of, prefixes_of
from heedful.interop.exports.samples import Samples
from heedful.interop.graphs.graphs import DECODER, ENCODER, MODEL, graphs_of, image_size, longest_of, reads_segments
from heedful.models.bundle import Bundle
from heedful.models.networks import EncoderDecoder, LanguageModel, MaskedModel, PooledNetwork, Regressor

Run = Callable[[str, Mapping[str, Tensor]], Sequence[Tensor]]  # from a graph and its inputs to its outputs
Text = tuple[list[int], list[int]]  # token ids with markers, and their segments


@torch.inference_mode()
def compare_graphs(bundle: Bundle[nn.Module], samples: Samples, run: Run) -> Comparison:
    """Compare what graphs put out with what the network does."""
    if isinstance(bundle.model, EncoderDecoder | LanguageModel):
        return _compare_answers(bundle, samples, run)
    pairs = _of_images(bundle, samples.images, run) if samples.images else _of_texts(bundle, samples, run)
    unequal, difference = _unlike(bundle, pairs)
    return Comparison(len(samples.images or samples.texts), unequal, difference, samples.of)


# --- one output for a text, or for each of its tokens -----------------------------------------------------------------


def _unlike(bundle: Bundle[nn.Module], pairs: Iterable[tuple[Tensor, Tensor]]) -> tuple[int, float]:
    """Return how many outputs have other labels, and the greatest difference of log probabilities or numbers."""
    unequal, difference = 0, 0.0
    network = bundle.model
    for ours, theirs in pairs:
        if isinstance(network, Regressor):
            labels, values = (
                (torch.zeros(1), torch.zeros(1)),
                (ours / network.scale.deviation, theirs / network.scale.deviation),
            )
        elif getattr(bundle.recipe.model, "labels", "one") == "several":
            labels, values = (ours > 0, theirs > 0), (ours, theirs)
        else:
            axis = 0 if bundle.recipe.rules.name == "answer" else -1  # of an answer, tokens compete
            labels = ours.argmax(axis), theirs.argmax(axis)
            values = ours.log_softmax(axis), theirs.log_softmax(axis)
        unequal += int(not torch.equal(*labels))
        difference = max(difference, float((values[0] - values[1]).abs().max()))
    return unequal, difference


def texts_of(bundle: Bundle[nn.Module], samples: Samples) -> list[Text]:
    """Return texts as networks read them: `<s> text </s>`, or `<s> text </s> second </s>` in two segments."""
    most = min(longest_of(bundle), LONGEST)
    paired = bundle.recipe.data.paired or bundle.recipe.rules.name == "answer"
    form, encode = TextForm.of(bundle.recipe.data), bundle.vocabularies["text"].encode
    found = []
    for row in samples.texts:
        parts = [encode(form(text)) for text in ((row[0], row[-1]) if paired else row[:1])]
        parts = [ids[: max(1, (most - 1 - len(parts)) // len(parts))] for ids in parts]
        ids = [BEGIN, *(token for part in parts for token in (*part, END))]
        segments = [0] * (len(parts[0]) + 2) + [1] * (len(ids) - len(parts[0]) - 2)
        found.append((ids, segments))
    return found


def _of_texts(bundle: Bundle[nn.Module], samples: Samples, run: Run) -> list[tuple[Tensor, Tensor]]:
    texts = texts_of(bundle, samples)
    ids_BL, mask_BL = _padded([ids for ids, _ in texts])
    inputs = {"ids": ids_BL, "mask": mask_BL}
    network: Any = bundle.model
    if reads_segments(network.encoder):
        inputs["segments"], _ = _padded([segments for _, segments in texts])
    (theirs,) = run(MODEL, inputs)
    plain = Packed.of([ids for ids, _ in texts])
    packed = Packed(plain.values, plain.layout, torch.tensor([one for _, segments in texts for one in segments]))
    if isinstance(network, PooledNetwork):
        return list(zip(network(packed), theirs, strict=True))
    encoded = network.encoder(packed).values
    ours = network.head(encoded) if isinstance(network, MaskedModel) else network.output(network.hidden(encoded))
    by_text = ours.split([len(ids) for ids, _ in texts])
    return [(one, other[: len(one)]) for one, other in zip(by_text, theirs, strict=True)]


def _of_images(bundle: Bundle[nn.Module], images: Sequence[LabelledImage], run: Run) -> list[tuple[Tensor, Tensor]]:
    encoder, form = cast(Any, bundle.recipe.model).encoder, bundle.recipe.data.images
    size = image_size(bundle)
    pixels = [torch.from_numpy(fit_image(image.pixels(encoder.channels), size, form.fit)) for image in images]
    (theirs,) = run(MODEL, {"pixels": torch.stack(pixels).float()})
    ours = cast(PooledNetwork, bundle.model)(Images.of(pixels, encoder.patch, encoder.class_token))
    return list(zip(ours, theirs, strict=True))


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
    return ids, torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])


# --- answers, token by token ------------------------------------------------------------------------------------------


def _compare_answers(bundle: Bundle[nn.Module], samples: Samples, run: Run) -> Comparison:
    longest = longest_of(bundle)
    inputs = inputs_of(bundle, samples, longest)
    limits = limits_of(inputs, longest)
    ours = answer(bundle.model, inputs, limits, prefixes_of(bundle, inputs))
    theirs = dict[int, Answer]()
    by_length = defaultdict[int, list[int]](list)  # a step is of texts of one length; sources may have any
    for number, ids in enumerate(inputs):
        by_length[len(ids) if isinstance(bundle.model, LanguageModel) else 0].append(number)
    for numbers in by_length.values():
        found = _follow(bundle, [inputs[number] for number in numbers], [limits[number] for number in numbers], run)
        theirs |= dict(zip(numbers, found, strict=True))
    pairs = [(one, theirs[number]) for number, one in enumerate(ours)]
    differences = [abs(a - b) for one, other in pairs for a, b in zip(one.log_p, other.log_p, strict=False)]
    unequal = sum(one.tokens != other.tokens for one, other in pairs)
    return Comparison(len(inputs), unequal, max(differences, default=0.0), samples.of)


def _follow(bundle: Bundle[nn.Module], inputs: list[list[int]], limits: list[int], run: Run) -> list[Answer]:
    """Return greedy answers to inputs, by graphs."""
    known: dict[str, Tensor] = {}
    example = graphs_of(bundle)[DECODER].inputs["cache"]
    cache = example.new_zeros((*example.shape[:2], len(inputs), example.shape[3], 0, example.shape[5]))
    if isinstance(bundle.model, LanguageModel):
        prompts = torch.tensor(inputs).T
    else:
        ids_BL, mask_BL = _padded(inputs)
        (memory,) = run(ENCODER, {"ids": ids_BL, "mask": mask_BL})
        known, prompts = {"memory": memory, "mask": mask_BL}, torch.full((1, len(inputs)), BEGIN)
        prompts = torch.cat([prompts, torch.tensor(prefixes_of(bundle, inputs), dtype=torch.int64).T])
    found = [Answer([], []) for _ in inputs]
    scores = torch.empty(0)
    for tokens_B in prompts:
        scores, cache = run(DECODER, {"tokens": tokens_B, "cache": cache, **known})
    for _ in range(max(limits)):
        log_p_BV = scores.log_softmax(-1)
        best_B = log_p_BV.index_fill(1, torch.tensor(NEVER), -torch.inf).argmax(-1)
        for row, token in enumerate(best_B.tolist()):
            if not found[row].complete and len(found[row].tokens) < limits[row]:
                found[row].log_p.append(float(log_p_BV[row, token]))
                found[row].tokens.extend([token] if token != END else [])
        if all(each.complete or len(each.tokens) == most for each, most in zip(found, limits, strict=True)):
            break
        scores, cache = run(DECODER, {"tokens": best_B, "cache": cache, **known})
    return found
