"""The scores of a test set as a person reads them."""

from dataclasses import replace

from heedful.cli.reports.scores import CorpusResult, ModelResult, as_text
from heedful.tasks.translate.evaluation import evaluate
from heedful.tasks.translate.model import Translator


def test_the_last_line_tells_the_time_then_what_was_cut(reversing: Translator) -> None:
    found = replace(evaluate(reversing, ["ant bee", "cat"], ["bee ant", "cat"]), seconds=1.4, cut=0)
    speed = f"{found.tokens_per_second:,.0f} tokens/s"

    def last(cut: int) -> str:
        result = CorpusResult("1", True, replace(found, cut=cut))
        return as_text([ModelResult("model", 1, [result], {})]).splitlines()[-1]

    assert last(0) == f"2 sentences in 1.4 s, {speed}"
    assert last(1) == f"2 sentences in 1.4 s, 1 of them cut at the maximum length, {speed}"
