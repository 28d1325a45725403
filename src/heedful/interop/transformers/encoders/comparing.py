"""Compares an encoder with a head with its folder in `transformers`, from texts on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.text_form import TextForm
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.transformers.encoders.kinds import encoder_of
from heedful.interop.transformers.tally import Tally, quietly
from heedful.models.bundle import Bundle
from heedful.nn.evaluation_mode import evaluation_mode

_CLASSES: Final = {  # by our families
    "bert": "AutoModelForMaskedLM",
    "classifier": "AutoModelForSequenceClassification",
    "regressor": "AutoModelForSequenceClassification",
    "tagger": "AutoModelForTokenClassification",
    "reader": "AutoModelForQuestionAnswering",
}


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare the scores of texts, or of pairs of texts, each cut by the tokenizer of its own side."""
    import transformers

    family, tally = bundle.recipe.model.family, Tally()
    with quietly(), evaluation_mode(bundle.model), torch.inference_mode():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        follows = getattr(bundle.model, "follows", None) is not None
        name = "AutoModelForPreTraining" if follows else _CLASSES[family]
        theirs = getattr(transformers, name).from_pretrained(folder).eval()
        for texts in _inputs(bundle, samples):
            given = tokenizer(*texts, return_tensors="pt")
            read = _packed(bundle, texts)
            if read.values.tolist() != given["input_ids"][0].tolist():
                tally.compare(torch.zeros(1), torch.zeros(2))  # an answer to another text
            elif family == "bert":
                _compare_masked(tally, bundle.model, theirs, read, given, tokenizer.mask_token_id)
            else:
                _compare_head(tally, bundle, theirs, read, given)
    return tally.result(samples.of)


def _compare_masked(
    tally: Tally, ours: Any, theirs: nn.Module, read: Packed, given: dict[str, Tensor], mask: int
) -> None:
    """Compare the scores of all pieces at a masked token, and those of the second text to follow."""
    place = 1 + (tally.count % max(1, len(read.values) - 2))
    read.values[place] = given["input_ids"][0, place] = mask
    encoded, answer = ours(read), theirs(**given)
    scores_1V = ours.head(encoded.values[place : place + 1])
    logits_NV = (answer.logits if ours.follows is None else answer.prediction_logits)[0]
    tally.compare(scores_1V.log_softmax(-1), logits_NV[place : place + 1].log_softmax(-1))
    if ours.follows is not None:
        tally.differ(ours.following(encoded).log_softmax(-1), answer.seq_relationship_logits.log_softmax(-1))


def _compare_head(
    tally: Tally, bundle: Bundle[nn.Module], theirs: nn.Module, read: Packed, given: dict[str, Tensor]
) -> None:
    answer = theirs(**given)
    network: Any = bundle.model
    match bundle.recipe.model.family:
        case "classifier" if getattr(bundle.recipe.model, "labels", "one") == "several":
            logits = [scores[0].unsqueeze(-1) for scores in (network(read), answer.logits)]
            tally.compare(*(torch.cat([each, -each], dim=-1).log_softmax(-1) for each in logits))
        case "classifier":
            tally.compare(network(read)[0].log_softmax(-1), answer.logits[0].log_softmax(-1))
        case "regressor":  # in units of the deviation, as a regressor learns
            scale = bundle.vocabularies.scale
            assert scale is not None, "numbers without a scale"
            tally.compare(network(read)[0] / scale.deviation, answer.logits[0] / scale.deviation)
        case "tagger":
            encoded = network.encoder(read).values
            tally.compare(network.output(encoded).log_softmax(-1), answer.logits[0].log_softmax(-1))
        case _:
            logs = torch.stack([answer.start_logits[0], answer.end_logits[0]]).log_softmax(-1)
            tally.compare(network(read).T.log_softmax(-1), logs)


# --- inputs -----------------------------------------------------------------------------------------------------------


def _inputs(bundle: Bundle[nn.Module], samples: Samples) -> Iterator[tuple[str, ...]]:
    """Yield texts that the model reads whole, and pairs of them where it reads pairs."""
    encoder, family = encoder_of(bundle.recipe), bundle.recipe.model.family
    most = min(encoder.max_positions, bundle.recipe.data.max_length)
    paired = family == "reader" or (family in ("classifier", "regressor") and bundle.recipe.data.paired)
    for number, texts in enumerate(samples.texts):
        if paired and len(texts) == 1:
            texts = (texts[0], samples.texts[number - 1][0])
        shortened = texts if paired else texts[:1]
        while len(_tokens(bundle, shortened)) > most:
            shortened = tuple(text[: len(text) // 2] for text in shortened)
        if all(text.strip() for text in shortened):
            yield shortened


def _packed(bundle: Bundle[nn.Module], texts: Sequence[str]) -> Packed:
    """Return `<s> text </s>`, or `<s> text </s> second </s>`, by our own tokenizer."""
    plain = Packed.of([_tokens(bundle, texts)])
    if len(texts) == 1 or encoder_of(bundle.recipe).segments < 2:
        return plain
    ends = (plain.values == END).long()
    return Packed(plain.values, plain.layout, ends.cumsum(0) - ends)


def _tokens(bundle: Bundle[nn.Module], texts: Sequence[str]) -> list[int]:
    form = TextForm.of(bundle.recipe.data)
    parts = bundle.vocabularies["text"].encode_batch([form(text) for text in texts])
    return [BEGIN, *(token for part in parts for token in (*part, END))]
