"""A model judged on pairs."""

import math
from collections.abc import Callable

import pytest
import sacrebleu

from heedful.api.evaluation import evaluate, perplexity
from heedful.api.model import Model
from heedful.errors import UserError

Sentences = Callable[[int], list[str]]


def test_scores_are_those_of_the_translations(
    reversing: Model, sentences: Sentences, reverse: Callable[[str], str]
) -> None:
    sources = sentences(30)
    references = [reverse(source) for source in sources]
    ready: list[int] = []
    found = evaluate(reversing, sources, references, progress=ready.append, beam=2)
    assert list(found.translations) == reversing.translate(sources, beam=2)
    assert found.sentences == sum(ready) == 30
    assert found.bleu.score == sacrebleu.corpus_bleu(found.translations, [references]).score
    assert found.chrf.score == sacrebleu.corpus_chrf(found.translations, [references]).score
    assert found.likelihood.tokens == sum(len(reference.split()) + 1 for reference in references)
    assert 1 < found.perplexity < 1.5
    assert found.exact == sum(map(str.__eq__, found.translations, references))
    assert found.cut == 0
    assert found.decoded == sum(len(output.split()) + 1 for output in found.translations)
    assert found.tokens_per_second == pytest.approx(found.decoded / found.seconds)


def test_a_wrong_reference_is_a_surprise(reversing: Model) -> None:
    right = perplexity(reversing, ["ant bee"], ["bee ant"], name="x").perplexity
    wrong = perplexity(reversing, ["ant bee"], ["ant bee"], name="x").perplexity
    assert right < 1.5 < wrong


def test_a_pair_with_a_blank_side_counts_in_the_scores_alone(reversing: Model) -> None:
    found = evaluate(reversing, ["ant bee", "", "cat"], ["bee ant", "hen", " "])
    assert found.translations == ("bee ant", "", "cat")
    assert found.likelihood.tokens == 3
    assert found.sentences == 3


@pytest.mark.parametrize(
    ("sources", "references", "message"),
    [
        (["ant"], ["ant", "bee"], "There are 1 sources but 2 references: each needs one."),
        (["", " "], ["ant", "bee"], "corpus has no sentence to translate."),
        ([], [], "corpus has no sentence to translate."),
    ],
)
def test_what_cannot_be_scored_is_refused(
    reversing: Model, sources: list[str], references: list[str], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        evaluate(reversing, sources, references, name="corpus")
    assert str(caught.value) == message


def test_without_a_reference_there_is_no_perplexity(reversing: Model) -> None:
    assert math.isnan(evaluate(reversing, ["ant"], [""]).perplexity)


def test_pairs_beyond_the_models_positions_are_refused_with_their_line(untrained: Callable[..., Model]) -> None:
    model = untrained()
    with pytest.raises(UserError) as caught:
        evaluate(model, ["ant", "ant " * 9], ["ant", "ant"], name="corpus")
    assert str(caught.value).startswith("corpus, line 2 has 10 tokens with `</s>`, but this model has positions for 9 ")
    with pytest.raises(UserError) as caught:
        evaluate(model, ["ant", "ant"], ["ant", "ant " * 9], name="corpus")
    assert str(caught.value) == (
        "corpus, line 2: the reference has 10 tokens with `</s>`, but this model has positions for 9 "
        "(`model.max_positions`): leave the pair out."
    )
