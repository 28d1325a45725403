"""Options of a call: what they change, what they leave to the recipe, and what is refused."""

import math

import pytest
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError
from heedful.base.options import options_of
from heedful.config.decode import Decode, Sampling, SearchOptions
from heedful.config.tokenizer import ByteBpe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.hypothesis import Shifted, Wu
from heedful.tasks.caption.caption import CaptionOptions
from heedful.tasks.generate.generation import GenerateOptions
from heedful.tasks.parse.parse import ParseOptions
from heedful.tasks.shared.sequences.search_options import resolve
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.translation import align


def test_what_is_left_out_is_the_recipes() -> None:
    decode = Decode(beam=7, length_penalty=0.3, coverage=0.2, no_repeat=3, min_length=2, max_extra=9, batch_tokens=99)
    request = resolve({"beam": None}, decode, nbest=2, never=[5])
    settings = request.settings
    assert (settings.beam, settings.nbest, settings.max_extra, settings.penalty) == (7, 2, 9, Wu(0.3))
    assert (settings.coverage, settings.no_repeat, settings.min_length, settings.never) == (0.2, 3, 2, (5,))
    assert (request.to, request.raw, request.prefix, request.batch_tokens) == (None, False, None, 99)


def test_options_come_before_the_recipe() -> None:
    options: SearchOptions = {
        "length_penalty": 1.0,
        "length_penalty_kind": "shifted",
        "length_shift": 2.0,
        "aligned": True,
    }
    settings = resolve(options, Decode(), 1, ()).settings
    assert settings.penalty == Shifted(1.0, 2.0)
    assert settings.aligned


def test_sampling_takes_no_beam_from_the_recipe() -> None:
    assert resolve({"sampling": Sampling(samples=3)}, Decode(beam=5), 1, ()).settings.rows == 3
    with refuses("...sampling has no beam..."):
        resolve({"sampling": Sampling(), "beam": 5}, Decode(), 1, ())


def test_an_unknown_kind_of_penalty_is_refused() -> None:
    with refuses("`length_penalty_kind` is `x`, but must be one of wu, shifted."):
        resolve({"length_penalty_kind": "x"}, Decode(), 1, ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": "3"}, "`beam` is '3', but must be a whole number."),
        ({"length_penalty": "high"}, "`length_penalty` is 'high', but must be a number."),
        ({"length_penalty_kind": 3}, "`length_penalty_kind` is 3, but must be a text: convert it with `str()`."),
        ({"batch_tokens": 0}, "`batch_tokens` is 0, but must be at least 1."),
        ({"max_source": 100_001}, "`max_source` is 100,001, but must be at most 100,000."),
        ({"coverage": math.inf}, "`coverage` is inf, but must be finite."),
        ({"raw": "yes"}, "`raw` is 'yes', but must be True or False."),
        ({"to": 7}, like("`to` is 7, but must be a text or a ...")),
        ({"prefix": ["a", None]}, "prefix, line 2 is None, but must be a text: leave it out, or give an empty one."),
        ({"sampling": 0.8}, "`sampling` is 0.8, but must be a heedful.Sampling(temperature=0.8) or the like."),
    ],
)
def test_options_of_another_type_are_refused(options: SearchOptions, message: str) -> None:
    with refuses(message):
        resolve(options, Decode(), 1, ())


@pytest.mark.parametrize("table", [SearchOptions, ParseOptions, CaptionOptions, GenerateOptions, Sampling])
def test_every_option_has_a_meaning_and_a_check(table: type) -> None:
    for name, option in options_of(table).items():
        assert option.meaning.endswith(".")
        with pytest.raises(UserError, match=rf"^`?{name}`?"):
            option.check(name, object())


def test_a_shift_needs_the_shifted_penalty() -> None:
    assert resolve({"length_shift": 1.0}, Decode(length_penalty_kind="shifted")).settings.penalty == Shifted(0.6, 1.0)
    message = (
        '`length_shift` applies to the shifted length penalty, but the kind is wu: add `length_penalty_kind="shifted"`.'
    )
    for kind, options in (("wu", {}), ("shifted", {"length_penalty_kind": "wu"})):
        with refuses(message):
            resolve({"length_shift": 0.0, **options}, Decode.model_validate({"length_penalty_kind": kind}))


def test_an_unknown_option_is_a_mistake_of_the_program(reversing: Translator) -> None:
    with refuses("...`beem` is not an option. Did you mean `beam`?...", TypeError):
        reversing.translate("ant", beem=3)  # type: ignore[call-overload]


# --- through the model ------------------------------------------------------------------------------------------------


def test_a_prefix_is_what_translations_begin_with(reversing: Translator) -> None:
    assert reversing.translate(["ant bee", "cat", ""], prefix="hen ")[0].startswith("hen")
    assert reversing.translate(["ant bee", "cat"], prefix=["", "gnu gnu"])[0] == "bee ant"
    assert reversing.translate(["ant bee", "cat"], prefix=["", "gnu gnu"])[1].startswith("gnu gnu")


def test_a_prefix_that_cannot_be_tokenized_is_refused(reversing: Translator) -> None:
    message = r"^The prefix of line 2 cannot be tokenized: a part of `hen yak` is not in the vocabulary\.$"
    with pytest.raises(UserError, match=message):
        reversing.translate(["ant", "bee"], prefix=["", "hen yak"])


def test_each_text_needs_its_prefix(reversing: Translator) -> None:
    with refuses("2 texts, but 1 prefix: each text needs one, which may be empty."):
        reversing.translate(["ant", "bee"], prefix=["cat"])


def test_a_stream_has_one_prefix(reversing: Translator) -> None:
    assert next(reversing.stream(["ant bee"], prefix="hen")).startswith("hen")
    with refuses("...a stream has one target...", TypeError):
        reversing.stream(["ant"], prefix=["hen"])


def test_samples_are_the_same_whatever_stands_beside_them(reversing: Translator) -> None:
    drawn = Sampling(temperature=2.0, samples=4, seed=3)
    alone = reversing.translate_detailed(["ant bee cat"], sampling=drawn)[0]
    texts = ["ant bee cat", "dog", "eel fox gnu hen ant", ""]
    beside = reversing.translate_detailed(texts, sampling=drawn)
    streamed = list(reversing.stream_detailed(texts, sampling=drawn, chunk=2))
    assert [best.text for best in beside[0]] == [best.text for best in alone]
    assert [[best.text for best in found] for found in streamed] == [[best.text for best in found] for found in beside]
    assert len({best.text for best in alone}) > 1


def test_an_ensemble_of_one_model_twice_is_the_model(reversing: Translator, reversing_folder: str) -> None:
    from heedful.tasks.translate.model import Translator

    both = Translator.load(reversing_folder, device="cpu", ensemble=[reversing_folder])
    texts = ["ant bee cat", "dog", ""]
    for one, other in zip(reversing.translate_detailed(texts), both.translate_detailed(texts), strict=True):
        assert one[0].text == other[0].text
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


def test_alignments_are_between_pieces_and_between_words(reversing: Translator) -> None:
    (best,) = reversing.translate_detailed(["ant bee cat dog"], aligned=True)[0]
    assert best.alignment is not None
    assert best.alignment.source_pieces == ("ant", "bee", "cat", "dog")
    assert best.alignment.target_pieces == ("dog", "cat", "bee", "ant")
    assert best.alignment.pieces == tuple((place, number) for place, number in best.alignment.pieces if place < 4)
    assert best.alignment.words == tuple(sorted(best.alignment.pieces))  # here every word is a piece
    assert reversing.translate_detailed(["ant"])[0][0].alignment is None


def test_an_alignment_of_byte_level_pieces_is_readable_and_of_words() -> None:
    bytes_of = train_tokenizer(ByteBpe(size=275), ["five dogs", "fünf Hunde"] * 5)
    source, target = bytes_of.encode("five dogs"), bytes_of.encode("fünf Hunde 漢")
    last = len(source) - 1
    found = align(
        Vocabularies({"source": bytes_of, "target": bytes_of}), source, target, [0] * (len(target) - 3) + [last] * 3
    )
    assert "".join(found.source_pieces) == "five▁dogs"
    assert "".join(found.target_pieces) == "fünf▁Hunde▁<0xE6><0xBC><0xA2>"
    assert found.words == ((0, 0), (0, 1), (1, 2))
