"""What a model that reads texts demands of lengths, pairs and masks."""

import pytest
from tests.shared.refusals import like
from tests.unit.config.rules.family_recipes import FAMILIES, LABELLED, RUNNING, TWO_TEXTS, complaint, load


@pytest.mark.parametrize(
    ("model", "data", "line"),
    [
        ("", "max_length = 4", "`data.max_length` (4), markers included, must be at least 5: a text is read as "
         "`<s> A </s> B </s>`."),
        ("next_sentence = false", "max_length = 2", "`data.max_length` (2), markers included, must be at least 3: a "
         "text is read as `<s> A </s>`."),
        ("", "max_length = 64\nbatch_tokens = 63", "`data.batch_tokens` (63) must be at least `data.max_length` (64), "
         "the longest input."),
        ("", "batch_tokens = 10000000000000", "`data.batch_tokens` is 10000000000000, but must be a whole number of at "
         "most 100,000,000."),
        ("inner = 10000000000000", "", "`model.inner` is 10000000000000, but must be a whole number of at most "
         "1,000,000."),
    ],
)  # fmt: skip
def test_numbers_that_nothing_can_be_made_of(model: str, data: str, line: str) -> None:
    assert complaint("bert", RUNNING, model=model, data=data) == line


# --- lengths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "model", "key"),
    [
        ("classifier", 'encoder = { positions = "learned", max_positions = 100 }', "encoder.max_positions"),
        ("classifier", 'encoder = { family = "bert", max_positions = 100 }', "encoder.max_positions"),
        ("bert", "max_positions = 100", "max_positions"),
    ],
)
def test_texts_must_fit_into_learned_positions_to_the_last_marker(family: str, model: str, key: str) -> None:
    assert load(family, FAMILIES[family], data="max_length = 100", model=model).data.max_length == 100
    assert complaint(family, FAMILIES[family], data="max_length = 101", model=model) == like(
        f"`data.max_length` (101), markers included, must ... `model.{key}`, but that is 100."
    )


def test_a_document_may_be_longer_than_its_sentences() -> None:
    encoder = 'encoder = { family = "hierarchical", words = { family = "transformer", positions = "learned" } }'
    assert load("classifier", LABELLED, data="max_length = 5000", model=encoder).data.max_length == 5000


@pytest.mark.parametrize(
    ("corpus", "encoder", "least", "form"),
    [(LABELLED, "", 3, "<s> A </s>"), (TWO_TEXTS, "segments = 2", 5, "<s> A </s> B </s>")],
)
def test_a_length_without_room_for_a_piece_of_each_text_is_refused(
    corpus: str, encoder: str, least: int, form: str
) -> None:
    model = f"encoder = {{ {encoder} }}"
    assert load("classifier", corpus, data=f"max_length = {least}", model=model).data.max_length == least
    assert complaint("classifier", corpus, data=f"max_length = {least - 1}", model=model) == (
        f"`data.max_length` ({least - 1}), markers included, must be at least {least}: a text is read as `{form}`."
    )


def test_documents_of_one_word_are_read() -> None:
    assert load("classifier", LABELLED, data="max_length = 1", model='encoder = { family = "hierarchical" }')


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_pairs_and_single_texts_are_not_mixed() -> None:
    line = "`second` must be set in all corpora or in none: a classifier reads pairs or single texts."
    assert complaint("classifier", f"[{LABELLED}, {TWO_TEXTS}]") == line
    assert complaint("classifier", TWO_TEXTS, data=f"test = {LABELLED}") == line


def test_documents_are_not_read_in_pairs() -> None:
    assert complaint("classifier", TWO_TEXTS, model='encoder = { family = "hierarchical" }') == (
        '`second` makes pairs of texts, which `encoder.family = "hierarchical"` does not read: leave it out, or use '
        "another encoder."
    )


@pytest.mark.parametrize("encoder", ["segments = 1", 'family = "bert", segments = 1, next_sentence = false'])
def test_pairs_need_two_segments_or_none(encoder: str) -> None:
    assert complaint("classifier", TWO_TEXTS, model=f"encoder = {{ {encoder} }}") == (
        "`model.encoder.segments` must be 2 where `second` makes pairs of texts, or 0 to tell them apart by their "
        "markers alone, but is 1."
    )
    for other in ("segments = 0", "segments = 2"):
        assert load("classifier", TWO_TEXTS, model=f"encoder = {{ {encoder.replace('segments = 1', other)} }}")
    assert load("classifier", LABELLED, model=f"encoder = {{ {encoder} }}")


def test_co_attention_reads_each_text_of_a_pair_by_itself() -> None:
    for join in ("parallel", "alternating"):
        short = load("classifier", TWO_TEXTS, data="max_length = 3", model=f'join = "{join}"')
        assert short.data.max_length == 3
        assert load("classifier", TWO_TEXTS, model=f'join = "{join}"\nencoder = {{ segments = 1 }}')
    assert complaint("classifier", TWO_TEXTS, data="max_length = 2", model='join = "parallel"') == (
        "`data.max_length` (2), markers included, must be at least 3: a text is read as `<s> A </s>`."
    )


def test_co_attention_needs_pairs() -> None:
    assert complaint("classifier", LABELLED, model='join = "alternating"') == (
        '`model.join = "alternating"` joins pairs of texts, but `data.train` has single texts: set `second`, or leave '
        "`join` out."
    )


def test_co_attention_is_the_pool_of_a_pair() -> None:
    assert complaint("classifier", TWO_TEXTS, model='join = "parallel"\npool = "mean"') == (
        'in `model`, `join = "parallel"` pools both texts by co-attention: leave `pool` out.'
    )


# --- masked language models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "valid"])
def test_documents_of_one_sentence_have_none_that_follows(split: str) -> None:
    lines = '{ text = "a.txt", documents = "line", sentences = "line" }'
    train, data = (lines, "") if split == "train" else (RUNNING, f"{split} = {lines}")
    assert complaint("bert", train, data=data) == (
        f'`data.{split}` has one sentence per document (`documents` and `sentences` are "line"), but '
        "`model.next_sentence` needs several: set it to false."
    )
    assert load("bert", train, data=data, model="next_sentence = false")


@pytest.mark.parametrize("kind", ["byte_bpe", "bpe", "wordpiece", "unigram", "word", "char"])
def test_whole_words_are_masked_where_pieces_show_where_they_begin(kind: str) -> None:
    rest = f'[tokenizer]\nkind = "{kind}"\n[train]\nmasking = {{ whole_words = true }}'
    if kind not in ("bpe", "char"):
        assert load("bert", RUNNING, rest=rest).train.masking.whole_words
        return
    assert complaint("bert", RUNNING, rest=rest) == (
        "`train.masking.whole_words` needs pieces that show where a word starts, which those of "
        f'`tokenizer.kind = "{kind}"` do not: leave it out, or use "byte_bpe", "wordpiece" or "unigram".'
    )


def test_one_score_is_for_one_of_two_classes() -> None:
    assert load("classifier", LABELLED, model="one_score = true").model_dump()["model"]["one_score"]
    assert complaint("classifier", LABELLED, model='one_score = true\nlabels = "several"') == (
        'in `model`, `one_score` decides between two classes, but `labels = "several"`: leave one of them out.'
    )
