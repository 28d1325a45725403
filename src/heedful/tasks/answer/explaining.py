"""Explanations of answers in texts: what an encoder read, and where answers may start and end."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from heedful.data.batches.questions import QuestionBatch
from heedful.data.corpora.questions import Question
from heedful.data.token_store import TokenStore
from heedful.explain.capture import capture_weights, explain_by_gradients
from heedful.explain.explanation import AttentionWeights, Explanation, TokenSequence
from heedful.explain.texts import explain_reading
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.nn.decoding.spans import log_ends
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.answer.answer import Answer
from heedful.tasks.answer.data import PiecedQuestion, window_streams
from heedful.tasks.answer.scoring import collator_of, windowing_of

NO_ANSWER: Final = "(no answer)"
_ENDS: Final = ("start", "end")


@torch.no_grad()
def explain_answer(
    bundle: Bundle[SpanReader], question: Question, asked: PiecedQuestion, answer: Answer, gradients: bool
) -> Explanation:
    """Explain the answer to a question, by the window of the text in which it is likeliest to start and end.

    Sequences: `text`, the tokens of question and window with markers; `ends`, start and end.
    """
    network, device = bundle.model, next(bundle.model.parameters()).device
    store, collator = TokenStore(window_streams([asked], windowing_of(bundle.recipe))[0]), collator_of(bundle.recipe)
    batches = [collator.batch([store], np.array([row])).to(device) for row in range(len(store))]
    with evaluation_mode(network):
        batch = batches[0] if len(batches) == 1 else max(batches, key=lambda one: _best_score(network, one))
        with capture_weights(network) as captured:
            logs_2L = _log_ends(network, batch)
    spans = AttentionWeights("span", logs_2L.exp().float().cpu().numpy()[None, None], "ends", "text")
    attentions = (spans, *explain_reading(captured))
    if gradients:
        chosen = logs_2L.argmax(dim=1).tolist()
        attentions += (*explain_by_gradients(network, lambda: _log_ends(network, batch), chosen, "ends", "text"),)
    classes = {span.text: span.probability for span in reversed(answer.spans)}
    if answer.no_answer is not None:
        classes[NO_ANSWER] = answer.no_answer
    text = TokenSequence.of(bundle.vocabularies["text"], batch.text.values.tolist())
    return Explanation(
        bundle.recipe.rules.name,
        bundle.recipe.model.family,
        question.text,
        answer.text or NO_ANSWER,
        {"text": text, "ends": TokenSequence.named(_ENDS)},
        attentions,
        classes=classes,
        question=question.question,
        gates=captured.explain_gates({"text": text}),
        states=captured.explain_states({"text": text}),
    )


def _log_ends(network: SpanReader, batch: QuestionBatch) -> Tensor:
    """Return log P of each token as the start and as the end of an answer, in the one window of a batch."""
    return torch.stack([ends[0] for ends in log_ends(network(batch.text), batch.possible, batch.text.layout)])


def _best_score(network: SpanReader, batch: QuestionBatch) -> float:
    """Return log P of the likeliest start and end in a window; its first token stands for no answer."""
    logs_2L = _log_ends(network, batch)
    return float(logs_2L[:, 1:].max(dim=1).values.sum()) if logs_2L.shape[1] > 1 else -np.inf
