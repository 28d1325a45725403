"""The scores of a test set as a person reads them."""

from dataclasses import replace

from heedful.cli.verbs.evaluate import CorpusResult, ModelResult, as_text
from heedful.tasks.translate.model import Translator


def test_the_last_line_tells_the_time_then_what_was_cut(reversing: Translator) -> None:
    found = replace(reversing.evaluate_rows([("ant bee", "bee ant"), ("cat", "cat")]), seconds=1.4)

    def last(cut: int) -> str:
        best = tuple(replace(one, complete=index >= cut) for index, one in enumerate(found.best))
        result = CorpusResult("1", True, replace(found, best=best))
        return as_text([ModelResult("model", 1, [result], {})]).splitlines()[-1]

    assert last(0) == "2 sentences in 1.4 s, 4 tokens/s"
    assert last(1) == "2 sentences in 1.4 s, 1 of them cut at the maximum length, 3 tokens/s"
