"""Mistakes in a recipe: one line each, with the file, the key and what it must be."""

import pytest
from tests.shared.refusals import like
from tests.unit.config.reading.written_recipes import DATA, complaints, load, recipe_file

from heedful.config.data import Tokenized
from heedful.config.reading.describing.entries import all_entries
from heedful.config.reading.foreign_words import FOREIGN_WORDS
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.train.table import Average


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[model]\nlayer = 3", "`model.layer` is not a key of the family transformer. Did you mean `layers`?"),
        ("[modle]\nlayers = 3", "`modle` is not a key. Did you mean `model`?"),
        ("[train]\ndropout = 0.1", "`train.dropout` is not a key. Did you mean `model.dropout`?"),
        (
            "[train]\nbatch_tokens = 1",
            "`train.batch_tokens` is not a key. Did you mean `data.batch_tokens` or `decode.batch_tokens`?",
        ),
        (
            "[decode]\nxyz = 1",
            "`decode.xyz` is not a key. Known: beam, length_penalty, length_penalty_kind, length_shift, "
            "coverage, no_repeat, min_length, max_extra, max_source, batch_tokens, mbr, "
            "mbr_utility, mbr_temperature, mbr_min_p, mbr_seed.",
        ),
        (
            "[train.schedule]\nlr = 0.1",
            "`train.schedule.lr` is not a key of the kind noam, but of the kinds inverse_sqrt, linear, cosine, "
            "constant.",
        ),
        (
            "[tokenizer]\nmin_count = 2",
            "`tokenizer.min_count` is not a key of the kind byte_bpe, but of the kind word.",
        ),
        (
            "[train.schedule]\nkind = 'noam'\nwarmpu = 1",
            "`train.schedule.warmpu` is not a key of the kind noam. Did you mean `warmup`?",
        ),
        (
            "[tokenizer]\nkind = 'bytebpe'\nsize = 0\nfoo = 1",
            '`tokenizer.kind` is "bytebpe", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.',
        ),
        ("[tokenizer]\nkind = 3", "`tokenizer.kind` is 3, but must be one of: byte_bpe, bpe,"),
        (
            "[model]\nfamily = 'rnn'\ncells = 3\nheads = 0",
            '`model.family` is "rnn", but must be one of: transformer, recurrent, mixed, classifier, '
            "image_classifier, regressor, image_regressor, captioner, image_answerer, tagger, reader, bert, language.",
        ),
        ("[model]\nheads = 0", "`model.heads` is 0, but must be a whole number of at least 1."),
        ("[model]\nlayers = 1.5", "`model.layers` is 1.5, but must be a whole number of at least 1."),
        ("[model]\nlayers = '6'", '`model.layers` is "6", but must be a whole number of at least 1.'),
        ("[model]\nlayers = true", "`model.layers` is true, but must be a whole number of at least 1."),
        ("[model]\ndropout = 1", "`model.dropout` is 1, but must be a number of at least 0 and below 1."),
        (
            "[model]\ndropout_embedding = 'x'",
            '`model.dropout_embedding` is "x", but must be a number of at least 0 and below 1.',
        ),
        ("[model]\nnorm = 'mid'", '`model.norm` is "mid", but must be "post", "pre", "rezero", "tfixup" or'),
        (
            "[model]\nfamily = 'image_classifier'\nencoder = { family = 'vit', channels = 2 }",
            "`model.encoder.channels` is 2, but must be 1 or 3.",
        ),
        ("[model]\npreset = ['big']", '`model.preset` is a list, but must be "small", "base" or "big".'),
        ("[model]\nfinal_norm = 1", "`model.final_norm` is 1, but must be true or false."),
        (
            "[model]\nwidth = 10\nheads = 3",
            "in `model`, `width` must be a multiple of `heads` (3), but is 10.",
        ),
        ("[model]\nwidth = 9\nheads = 3", 'in `model`, `width` must be even for `positions = "sinusoidal"`, but is 9.'),
        (
            "[model]\nwidth = 12\nheads = 4\npositions = 'rope'",
            'in `model`, `width` must be an even multiple of `heads` (4) for `positions = "rope"`, but is 12.',
        ),
        (
            "[model]\npositions = 'rotary'",
            '`model.positions` is "rotary", but must be "sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", '
            '"relative" or "none".',
        ),
        ("[model]\nmax_distance = 0", "`model.max_distance` is 0, but must be a whole number of at least 1."),
        ("[tokenizer]\nsize = 5", "`tokenizer.size` is 5, but must be a whole number of at least 260."),
        ("[train]\nseed = 2024-01-01", "`train.seed` is 2024-01-01, but must be a whole number."),
        ("[train]\nclip_norm = inf", "`train.clip_norm` is inf, but must be a number above 0."),
        ("[train]\ncompile = 'maybe'", '`train.compile` is "maybe", but must be "auto", true or false.'),
        ("[train]\ndevice = 'gpu'", '`train.device` is "gpu", but must be "auto", "cpu", "cuda" or "cuda:0".'),
        (
            "[train]\noptimizer = 'adadelta'",
            '`train.optimizer` is "adadelta", but must be "adam", "adamw", "radam", "muon", "rmsprop", "adagrad", '
            '"sgd" or a table.',
        ),
        (
            "[train]\nwarmup = { kind = 'untuned_linear' }",
            '`train.warmup` is set, but `train.schedule` "noam" has a warm-up of its own: leave `train.warmup` out, or '
            'use schedule "constant", "linear" or "cosine".',
        ),
        (
            "[train]\nwarmup = { kind = 'linear', steps = 5 }\nschedule = { kind = 'cosine', lr = 0.1, warmup = 5 }",
            "`train.warmup` and `train.schedule.warmup` are both set, but a run has one warm-up: leave one of them "
            "out.",
        ),
        (
            "[train]\nwarmup = 'untuned_exponential'\noptimizer = 'sgd'\nschedule = { kind = 'constant', lr = 0.1 }",
            '`train.warmup` "untuned_exponential" follows from Adam\'s beta2, which `train.optimizer` "sgd" does not '
            'have: use "linear" or "exponential".',
        ),
        (
            "[train]\nwarmup = { kind = 'wait', steps = 5, momentum = false }\noptimizer = 'adagrad'\n"
            "schedule = { kind = 'constant', lr = 0.1 }",
            "`train.warmup.momentum = false` keeps the mean of gradients at 0, but `train.optimizer` "
            '"adagrad" has none: leave it out.',
        ),
        (
            "[train]\nmoving_average = 0.999\naverage = { last = 2 }",
            "`train.average` and `train.moving_average` are both set, but checkpoints hold the weights themselves: "
            "leave one of them out.",
        ),
        ("[train]\nschedule = 'cosine'", "`train.schedule.lr` is missing: it must be a number above 0."),
        ("[train]\noptimizer = 5", "`train.optimizer` is 5, but must be a table."),
        (
            "[train.schedule]\nkind = 'linear'\nlr = 1.0\nfloor = 2",
            "`train.schedule.floor` is 2, but must be a number of at least 0 and of at most 1.",
        ),
        (
            '[tokenizer]\njoint = false\n[model]\ntie = "all"',
            '`model.tie` must be ... `tokenizer.joint` is false, but is "all".',
        ),
        ("decode = []", "`decode` is an empty list, but must be a table."),
        (f"[evaluate]\nbleu_tokenize = '{'x' * 99}'", f'`evaluate.bleu_tokenize` is "{"x" * 59}…, but must be "13a",'),
    ],
)
def test_one_mistake_is_one_line_with_file_path_and_what_it_must_be(text: str, line: str) -> None:
    top, tables = (text + "\n", "") if not text.startswith("[") else ("", text)
    lines = complaints(top + DATA + tables)
    assert len(lines) == 1
    assert lines[0] == like(f"my.toml: {line}...")


@pytest.mark.parametrize(
    ("table", "word", "meant"),
    [
        ("train", "early_stopping", "train.validation.patience"),
        ("train", "fp16", "train.precision"),
        ("train", "bf16", "train.precision"),
        ("train", "lr", "train.schedule.lr"),
        ("train", "learning_rate", "train.schedule.lr"),
        ("train.schedule", "warmup_steps", "train.schedule.warmup"),
        ("train", "batch_size", "data.batch_tokens"),
        ("model", "hidden_size", "model.width"),
        ("model", "num_layers", "model.layers"),
        ("decode", "beam_size", "decode.beam"),
        ("decode", "num-beams", "decode.beam"),
    ],
)
def test_a_word_of_another_tool_gets_ours(table: str, word: str, meant: str) -> None:
    [line] = complaints(f"{DATA}[{table}]\n{word} = 1")
    assert line.startswith(f"my.toml: `{table}.{word}` is not a key")
    assert line.endswith(f". Did you mean `{meant}`?")


def test_every_word_of_another_tool_leads_to_a_key_that_exists_and_is_not_a_key_there_itself() -> None:
    paths = {entry.path for entry in all_entries()}
    for word, meant in FOREIGN_WORDS.items():
        assert meant in paths
        assert f"{meant.rpartition('.')[0]}.{word}" not in paths or word == "lr"


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ("{ source = 'a', targt = 'b' }", "`data.train.targt` is not a key. Did you mean `target`?"),
        ("[{ source = 'a' }]", "`data.train.0.target` is missing: it must be a text in quotes."),
        ("{ tvs = 'a' }", "`data.train.tvs` is not a key. Did you mean `tsv`?"),
        (
            "{ tsv = 'a', source = 0 }",
            "`data.train.source` is 0, but must be a whole number of at least 1 or the name of a column.",
        ),
        (
            "{ source = 'a', target = 'b', lines = '7' }",
            '`data.train.lines` is "7", but must be a range of lines such as "1-2000".',
        ),
        ("[]", "`data.train` is an empty list, but must be a table with `source` and `target`, `tsv`, `csv`, `jsonl`,"),
        (
            "{ builtin = 'french' }",
            '`data.train.builtin` is "french", but must be "english-spanish" or "dates" for pairs, "reports" for '
            'questions, "scenes" for images.',
        ),
        (
            "'train.txt'",
            '`data.train` is "train.txt", but must be a table with `source` and `target`, `tsv`, `csv`, `jsonl`, '
            "`tmx`, `xliff`, `builtin`, `conll`, `text`, `trees`, `squad`, `images`, `idx` and `labels` or `npz`",
        ),
        (
            "[{ source = 'a', target = 'b' }, 3]",
            "`data.train.1` is 3, but must be a table with `source` and `target`, `tsv`, `csv`, `jsonl`, `tmx`, "
            "`xliff`, `builtin`, `conll`, `text`, `trees`, `squad`, `images`, `idx` and `labels` or `npz`.",
        ),
    ],
)
def test_a_mistake_in_a_corpus_has_the_path_that_the_recipe_writes(corpus: str, line: str) -> None:
    lines = complaints(f"[data]\ntrain = {corpus}")
    assert len(lines) == 1
    assert lines[0] == like(f"my.toml: {line}...")


TAGGED = '{ source = "a.en", target = "a.de", to = "de" }'
NAMED = '{ source = "a.en", target = "a.de", name = "x" }'
VALID = 'valid = { source = "b.en", target = "b.de" }\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"[data]\ntrain = {TAGGED}\nvalid = {{ source = 'b.en', target = 'b.de' }}",
            "`to` must be set in all corpora or in none, but one of `data.valid` lacks it.",
        ),
        (
            f"{DATA}test = {TAGGED}",
            "`to` must be set in ... `data.train` lacks it.",
        ),
        (
            f"{DATA}test = [{NAMED}, {NAMED}]",
            "`data.test` has two corpora named `x`: give each its own `name`.",
        ),
        (
            f"{DATA}test = [{{ source = 'a', target = 'b', name = '2' }}, {{ source = 'a', target = 'b' }}]",
            "`data.test` has two corpora named `2`: give each its own `name`.",
        ),
        (
            f"{DATA}test = {{ source = 'a', target = 'b', name = 'a/b' }}",
            '`data.test.name` is "a/b", but must be letters, digits, `.`, `-`, `_` and spaces.',
        ),
        (
            '[data]\ntrain = { source = "a", target = "b", to = "<2de>" }',
            '`data.train.to` is "<2de>", but must be a language such as "de".',
        ),
        (
            '[data]\ntrain = { source = "a", target = "b", to = "de at" }',
            '`data.train.to` is "de at", but must be a language such as "de".',
        ),
        (f"{DATA}temperature = 0.5", "`data.temperature` is 0.5, but must be a number of at least 1."),
        (f"{DATA}lowercase = 1", "`data.lowercase` is 1, but must be true or false."),
        (f"{DATA}tokenized = true", "`data.tokenized` is true, but must be a table."),
        (f'{DATA}tokenized = {{ source = "en" }}', "`data.tokenized.target` is missing: it must be "),
        (f'{DATA}tokenized = {{ source = "en", target = "" }}', '`data.tokenized.target` is "", but must be '),
        (
            f"{DATA}[evaluate]\ndetokenize = true",
            "`evaluate.detokenize` needs `data.tokenized`, which names the languages.",
        ),
        (
            f"{DATA}[train]\naverage = {{ last = 2, best = 3 }}",
            "in `train.average`, must have one key: `last` or `best`, the number of checkpoints to average.",
        ),
        (
            f"{DATA}[train]\naverage = {{}}",
            "in `train.average`, must have one key: ...",
        ),
        (
            f"{DATA}[train]\naverage = {{ last = 0 }}",
            "`train.average.last` is 0, but must be a whole number of at least 1.",
        ),
        (f"{DATA}[train]\naverage = 5", "`train.average` is 5, but must be a table."),
        (
            f"{DATA}valid = []\n[train]\naverage = {{ best = 5 }}",
            "`train.average.best` needs ...",
        ),
        (
            f'{DATA}valid = []\n[train]\nvalidation = {{ metric = "bleu" }}',
            '`train.validation.metric` is "bleu", which needs `data.valid`.',
        ),
        (f"{DATA}[train]\nstart_from = 1", "`train.start_from` is 1, but must be a text in quotes."),
    ],
)
def test_a_mistake_about_languages_text_averaging_or_the_start_is_one_line(text: str, line: str) -> None:
    lines = complaints(text)
    assert len(lines) == 1
    assert lines[0] == like(f"my.toml: {line}...")


def test_languages_text_averaging_and_the_start_are_read() -> None:
    recipe = load(
        f"[data]\ntrain = [{TAGGED}, {TAGGED.replace('de', 'pt-BR')}]\nvalid = {TAGGED}\ntest = [{TAGGED}]\n"
        'temperature = 5\nlowercase = true\ntokenized = { source = "en", target = "de" }\n'
        '[train]\naverage = { best = 3 }\nstart_from = "runs/first"\n[evaluate]\ndetokenize = true'
    )
    assert [corpus.to for corpus in recipe.data.train] == ["de", "pt-BR"]
    assert (recipe.data.temperature, recipe.data.lowercase) == (5, True)
    assert recipe.data.tokenized == Tokenized(source="en", target="de")
    assert recipe.train.average == Average(best=3)
    assert recipe.train.start_from == "runs/first"
    assert recipe.evaluate.detokenize
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    recipe_file(recipe_to_toml(recipe), "shown.toml")
    assert load_recipe("shown.toml") == recipe


def test_the_last_checkpoints_can_be_averaged_without_validation() -> None:
    assert load(f"{DATA}[train]\naverage = {{ last = 5 }}").train.average == Average(last=5)
    assert load(f"{DATA}{VALID}[train]\naverage = {{ best = 5 }}").train.average == Average(best=5)


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_schema() -> None:
    text = """
    [data]
    train = { source = "a", targt = "b" }
    [tokenizer]
    kind = "bytebpe"
    [model]
    layer = 3
    heads = 0
    [train]
    steps = "many"
    """
    assert complaints(text) == [
        "my.toml: `data.train.targt` is not a key. Did you mean `target`?",
        'my.toml: `tokenizer.kind` is "bytebpe", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.',
        "my.toml: `model.heads` is 0, but must be a whole number of at least 1.",
        "my.toml: `model.layer` is not a key of the family transformer. Did you mean `layers`?",
        'my.toml: `train.steps` is "many", but must be a whole number of at least 1.',
    ]


def test_an_empty_recipe_lacks_its_data() -> None:
    assert complaints("") == ["my.toml: `data` is missing: it must be a table."]
