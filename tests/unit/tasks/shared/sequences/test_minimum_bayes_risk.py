"""Minimum Bayes risk: utilities are sacreBLEU's, the sample closest to all others is chosen, every time the same."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from heedful.base.errors import UserError
from heedful.cli.main import run
from heedful.config.decode import Decode, Sampling, SearchOptions
from heedful.tasks.shared.sequences.minimum_bayes_risk import UTILITIES, MinimumBayesRisk, expected_utilities
from heedful.tasks.shared.sequences.search_options import resolve
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.translation import Translation

TEXTS = [
    "Ein Hund rennt über die Wiese .",
    "Ein Hund läuft über die grüne Wiese .",
    "Der Hund rennt über eine Wiese .",
    "Ein Hund rennt über die Wiese .",
    "Wiese",
    "",
    "Etwas völlig anderes , das nichts teilt : xyz !",
]


@pytest.mark.parametrize("name", UTILITIES)
def test_utilities_are_the_sentence_scores_of_sacrebleu(name: Any) -> None:
    metric = CHRF() if name == "chrf" else BLEU(effective_order=True)
    found = UTILITIES[name](TEXTS)
    for row, text in zip(found, TEXTS, strict=True):
        expected = [metric.sentence_score(text, [other]).score for other in TEXTS]
        assert row.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", UTILITIES)
def test_the_expected_utility_is_the_mean_over_all_samples(name: Any) -> None:
    assert expected_utilities(TEXTS, name) == pytest.approx(UTILITIES[name](TEXTS).mean(axis=1))
    assert expected_utilities(["a b", "a b"], name).tolist() == [100, 100]


def _sample(text: str, complete: bool = True) -> Translation:
    return Translation(text, -1.0, (5,), complete)


def test_the_sample_closest_to_all_others_is_chosen_and_each_text_is_returned_once() -> None:
    best = MinimumBayesRisk("chrf", 3).choose([_sample(text) for text in TEXTS])
    utilities = expected_utilities(TEXTS, "chrf")
    assert [found.text for found in best] == [TEXTS[0], TEXTS[2], TEXTS[1]]
    assert best[0].score == pytest.approx(utilities.max())
    assert np.argmax(utilities) == 0


def test_a_sample_that_was_cut_comes_after_those_that_were_not() -> None:
    samples = [_sample("a b c", complete=False), _sample("a b c d"), _sample("a b c", complete=False)]
    assert MinimumBayesRisk("chrf", 2).choose(samples)[0].text == "a b c d"


# --- options ----------------------------------------------------------------------------------------------------------


def request(decode: Decode | None = None, nbest: int = 1, **options: Any) -> Any:
    return resolve(cast(SearchOptions, options), decode or Decode(), nbest, ())


def test_a_call_that_sets_a_beam_or_samples_does_not_use_the_recipes_samples() -> None:
    decode = Decode(mbr=8, mbr_utility="bleu", mbr_temperature=0.7, mbr_seed=3)
    made = request(decode, nbest=2)
    assert made.risk == MinimumBayesRisk("bleu", 2)
    assert made.settings.sampling == Sampling(0.7, samples=8, seed=3, min_p=0.02)
    assert request(decode, beam=4).risk is None
    assert request(decode, beam=4).settings.sampling is None
    assert request(decode, sampling=Sampling(samples=2)).settings.sampling == Sampling(samples=2)
    assert request(decode, mbr=0).risk is None
    assert request().risk is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mbr": 4, "sampling": Sampling()}, "`mbr` draws samples of its own, but sampling is set too: leave one"),
        ({"mbr": 4, "mbr_utility": "ter"}, "`mbr_utility` is `ter`, but must be one of chrf, bleu."),
        ({"mbr": 4, "nbest": 5}, "`nbest` is 5, but `mbr` draws no more than 4 samples: set `mbr` to 5 or more."),
        ({"mbr": 4, "beam": 3}, "`mbr` draws samples, but `beam` is 3, which searches: leave one of them out."),
        ({"mbr": -1}, "`mbr` is -1, but must be at least 0."),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        request(**options)
    assert str(caught.value).startswith(said)


# --- a model ----------------------------------------------------------------------------------------------------------


def _texts(found: list[list[Translation]]) -> list[list[tuple[str, float]]]:
    """Without probabilities, whose last digits depend on the other texts of a batch."""
    return [[(best.text, best.score) for best in of_text] for of_text in found]


def test_the_same_seed_chooses_the_same_translation_however_texts_are_batched(reversing: Translator) -> None:
    texts = ["ant bee cat", "dog", "", "hen gnu fox eel"]
    options: dict[str, Any] = {"mbr": 6, "mbr_temperature": 3.0, "mbr_min_p": 0.0}
    together = reversing.translate_detailed(texts, nbest=3, mbr_seed=5, **options)
    again = reversing.translate_detailed(texts, nbest=3, mbr_seed=5, batch_tokens=24, **options)
    assert _texts(together) == _texts(again)
    assert reversing.translate(texts, mbr_seed=5, **options) == [best.text for best, *_ in together]
    assert together[2][0].text == ""
    other = reversing.translate_detailed(texts, nbest=3, mbr_seed=6, **options)
    assert _texts(other) != _texts(together)
    drawn = reversing.translate_detailed([texts[0]], sampling=Sampling(3.0, samples=6, seed=5))[0]
    assert _texts(together)[0] == _texts([MinimumBayesRisk("chrf", 3).choose(drawn)])[0]


def test_the_command_line_has_the_options_of_python(
    reversing_folder: Path, reversing: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(reversing_folder)
    assert run(["translate", model, "--text", "ant bee", "--mbr", "4", "--seed", "7", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == reversing.translate("ant bee", mbr=4, mbr_seed=7) + "\n"
    for arguments, said in (
        (["--sample"], "--mbr draws samples of its own and chooses one: leave out --sample."),
        (["--temperature", "0.5"], "--temperature applies to sampling: add --sample, or --mbr-temperature for those"),
    ):
        assert run(["translate", model, "--text", "ant bee", "--mbr", "4", *arguments]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
