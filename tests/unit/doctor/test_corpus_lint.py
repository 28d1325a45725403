"""What the doctor finds in corpora, against what was put into them and against counting by brute force."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE

from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Builtin, Jsonl, Tsv
from heedful.config.data import Data
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.doctor.corpora import corpus_lint
from heedful.doctor.corpora.aligned_sides import SideWords
from heedful.doctor.corpora.corpus_lint import LintedCorpus, lint_corpus, make_findings
from heedful.doctor.corpora.duplicates import find_overlap, find_repeats
from heedful.doctor.corpora.text_faults import PATTERNS, WIDTH, excerpt, find_odd_characters
from heedful.doctor.findings import FINDING_KINDS, Finding, FindingKind

Pairs = list[tuple[str, str]]


def silent(message: str) -> None:
    """Say nothing."""


def write(folder: Path, name: str, pairs: Pairs) -> AlignedFiles:
    for side, suffix in ((0, "en"), (1, "de")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return AlignedFiles(source=f"{name}.en", target=f"{name}.de")


def look(folder: Path, corpus: AnyCorpus, **data: object) -> tuple[LintedCorpus, Data]:
    whole = Data.model_validate({"folder": str(folder), "train": [corpus], **data})
    return lint_corpus("train", corpus, whole, silent), whole


def found(folder: Path, corpus: AnyCorpus, **data: object) -> dict[tuple[str, str], Finding]:
    linted, whole = look(folder, corpus, **data)
    return {(finding.kind, finding.file): finding for finding in make_findings(linted, linted.sightings, whole)}


# --- characters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a plain sentence, with “quotes” – and a dash.", set()),
        ("Größe, naïve, œuvre, 東京, Привет, emoji 👩\u200d👧 and نمی\u200cخواهم", set()),
        ("a < b & c; 5 > 3", set()),
        ("bell \x07", {"control"}),
        ("a Windows euro \x80", {"control"}),
        ("line\u2028separator", {"control"}),
        ("zero\u200bwidth", {"invisible"}),
        ("mark in\ufeffside", {"invisible"}),
        ("soft\u00adhyphen", {"invisible"}),
        ("private \ue000", {"private"}),
        ("no-break\u00a0space", {"spaces"}),
        ("a\ttab", {"spaces"}),
        ("lost \ufffd", {"replacement"}),
        ("GrÃ¶ÃŸe", {"mojibake"}),
        ("itâ€™s", {"mojibake"}),
        ("20 Â°C", {"mojibake"}),
        ("lowercased grã¶ãÿe", {"mojibake"}),
        ("ÐŸÑ€Ð¸Ð²ÐµÑ‚", {"mojibake"}),
        ("e\u0301te\u0301", {"not_nfc"}),
        ("fish &amp; chips", {"entities"}),
        ("a &#8364; b &#x20ac;", {"entities"}),
        ("<b>bold</b>", {"tags"}),
        ("the <unk> of </s> and <URL>", set()),
        ("<user name>", {"tags"}),
        ('<a href="x">link', {"tags"}),
        ("&lt;br/&gt; <br/>", {"entities", "tags"}),
    ],
)
def test_odd_characters_are_told_apart(text: str, kinds: set[str]) -> None:
    assert set(find_odd_characters(text)) == kinds


@pytest.mark.parametrize("letter", "äöüßÄÖÜàâçéèêëîïôûùñóíúáøåæ")
@pytest.mark.parametrize("wrong", ["latin-1", "cp1252"])
def test_every_western_letter_read_in_the_wrong_encoding_is_mojibake(letter: str, wrong: str) -> None:
    broken = f"x{letter}y".encode().decode(wrong, errors="ignore")
    if len(broken) == 4:  # code page 1252 has holes: such a letter is lost altogether
        assert "mojibake" in find_odd_characters(broken)


@pytest.mark.parametrize(
    "text", ["„MENÜ“ und »CAFÉ«", "NÃO, a MANHÃ” e a irmã»", "EL NIÑO", "château, âge, Âge", "ESPAÑA™", "Â la carte"]
)
def test_capital_letters_before_quotes_are_no_mojibake(text: str) -> None:
    assert "mojibake" not in find_odd_characters(text)


@pytest.mark.parametrize("place", [0, 5, 30, 300, 595])
def test_an_excerpt_is_short_and_shows_the_spot(place: int) -> None:
    text = "word " * 120
    shown = excerpt(f"{text[:place]}\u200b{text[place:]}", "invisible")
    assert "\\u200b" in shown
    assert len(shown) <= WIDTH


@pytest.mark.parametrize(("text", "shown"), [("short", "short"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 59 + "…")])
def test_an_excerpt_is_cut_only_where_it_must_be(text: str, shown: str) -> None:
    assert excerpt(text) == shown


def test_every_kind_with_a_pattern_has_its_words() -> None:
    assert set(PATTERNS) <= set(FINDING_KINDS)


def test_a_share_decides_how_bad_a_finding_is() -> None:
    kind = FindingKind("odd pairs", "Mend them.", warning=0.01, problem=0.5)
    assert [kind.severity(share) for share in (0.001, 0.01, 0.49, 0.5)] == ["note", "warning", "warning", "problem"]


# --- corpora --------------------------------------------------------------------------------------------------------


def test_what_is_odd_in_a_corpus_is_found_in_its_file_and_lines(tmp_path: Path) -> None:
    pairs = [(f"sentence number {n} here", f"Satz Nummer {n} hier") for n in range(60)]
    pairs[3] = ("", "nur rechts")
    pairs[7] = ("only left", "  ")
    pairs[9] = ("the same", " the same")
    pairs[11] = ("with &amp; inside", "mit & darin")
    pairs[12] = ("clean", "l\u200beer")
    pairs[13] = ("a very long line " * 200, "eine sehr lange Zeile " * 200)
    pairs[20] = ("number 12 and 13", "Nummer 12 und 14")  # every tenth pair has its digits compared
    pairs[21] = ("short", "dies ist dagegen ein viel zu langer Satz, der gar nicht dazu passt und weitergeht")
    seen = found(tmp_path, write(tmp_path, "a", pairs))
    both = "a.en, a.de"
    assert {key: finding.lines for key, finding in seen.items()} == {
        ("empty", both): (4, 8),
        ("identical", both): (10,),
        ("entities", "a.en"): (12,),
        ("invisible", "a.de"): (13,),
        ("overlong", "a.en"): (14,),
        ("overlong", "a.de"): (14,),
        ("digits", both): (21,),
        ("ratio", both): (22,),
    }
    assert seen["empty", both].what == "pairs with an empty side: 2 of 60 (3.33%)"
    assert seen["digits", both].what == "sampled pairs with different digits on the two sides: 1 of 6 (16.67%)"
    assert seen["invisible", "a.de"].example == "l\\u200beer"
    assert seen["identical", both].example == "the same |  the same"
    assert all(len(finding.example) <= WIDTH for finding in seen.values())


def test_a_share_that_rounds_to_nothing_is_not_shown_as_nothing(tmp_path: Path) -> None:
    pairs = [("x", "y")] * 20_001
    pairs[-1] = ("<b>", "y")
    assert found(tmp_path, write(tmp_path, "a", pairs))["tags", "a.en"].what.endswith(": 1 of 20,001 (under 0.01%)")


def test_line_numbers_are_those_of_the_file_where_a_range_is_selected(tmp_path: Path) -> None:
    pairs = [(f"one {n}", f"eins {n}") for n in range(30)]
    pairs[4] = pairs[25] = ("<i>", "x y z")
    pairs[14] = ("<b>", "x y")
    corpus = write(tmp_path, "a", pairs).model_copy(update={"lines": "11-20"})
    assert found(tmp_path, corpus)["tags", "a.en"].lines == (15,)


def test_only_the_first_few_lines_are_named_and_all_are_counted(tmp_path: Path) -> None:
    seen = found(tmp_path, write(tmp_path, "a", [("a &lt; b", f"x {n}") for n in range(40)]))["entities", "a.en"]
    assert (seen.count, seen.lines) == (40, (1, 2, 3, 4, 5))


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_findings_do_not_depend_on_how_the_corpus_is_cut_up(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(f"a {n % 5} <b>" if n % 3 else f"b {n % 4}", f"c {n % 7}\u00a0") for n in range(50)]
    corpus = write(tmp_path, "a", pairs)
    whole, data = look(tmp_path, corpus)
    monkeypatch.setattr(corpus_lint, "_CHUNK", chunk)
    monkeypatch.setattr(corpus_lint, "_LEARN", chunk)
    cut, _ = look(tmp_path, corpus)
    assert make_findings(cut, cut.sightings, data) == make_findings(whole, whole.sightings, data)
    assert (cut.source == whole.source).all()


def test_corpora_of_every_form_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tone\tein &amp;\n2\ttwo\tzwei\n")
    rows = [{"l": "one", "r": "ein &amp;"}, {"l": "two", "r": "zwei"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "z.en.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "z.de.gz").write_bytes(gzip.compress(b"ein &amp;\nzwei\n"))
    for corpus, file in (
        (Tsv(tsv="a.tsv", source=2, target=3), "a.tsv (target)"),
        (Jsonl(jsonl="a.jsonl", source="l", target="r"), "a.jsonl (target)"),
        (AlignedFiles(source="z.en.gz", target="z.de.gz"), "z.de.gz"),
    ):
        assert found(tmp_path, corpus)["entities", file].lines == (1,)


def test_a_built_in_corpus_is_clean_and_has_a_name(tmp_path: Path) -> None:
    linted, data = look(tmp_path, Builtin(builtin="english-spanish", count=500))
    seen = make_findings(linted, [*linted.sightings, *(sighting for _, sighting in find_repeats([linted]))], data)
    assert {finding.kind for finding in seen} <= {"repeated", "ambiguous", "identical"}
    assert len(linted) == 500


def test_text_is_judged_in_the_form_that_the_model_reads(tmp_path: Path) -> None:
    corpus = write(tmp_path, "a", [("e\u0301t\u00e9", "x"), ("A", "b"), ("a", "B")])
    assert found(tmp_path, corpus)["not_nfc", "a.en"].lines == (1,)
    assert ("not_nfc", "a.en") not in found(tmp_path, corpus, nfc=True)
    for lowercase, repeats in ((False, 0), (True, 1)):
        linted, _ = look(tmp_path, corpus, lowercase=lowercase)
        assert sum(sighting.count for _, sighting in find_repeats([linted]) if sighting.kind == "repeated") == repeats


def test_an_empty_corpus_has_no_findings(tmp_path: Path) -> None:
    assert found(tmp_path, write(tmp_path, "a", [])) == {}


def test_swapped_lines_are_found_and_no_others(tmp_path: Path) -> None:
    pairs = list(sentence_pairs("train", 3000))
    swapped = [i for i in (17, 500, 2999) if len(pairs[i][0].split()) > 4]
    for i in swapped:
        pairs[i] = pairs[i][::-1]
    seen = found(tmp_path, write(tmp_path, "a", pairs))["swapped", "a.en, a.de"]
    assert set(seen.lines) <= {i + 1 for i in swapped}
    assert seen.count == len(swapped) >= 2


def test_typical_words_are_the_same_in_every_process() -> None:
    """Of 400 words that are equally frequent 300 count: which ones must not be left to the order of a set."""
    program = (
        "from heedful.doctor.corpora.aligned_sides import SideWords; words = [f'w{n}' for n in range(400)]; "
        "print(*sorted(SideWords.learn([(' '.join(words), 'x')] * 5).source))"
    )
    learned = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout
        for seed in ("1", "2")
    }
    assert learned == {" ".join(sorted(f"w{n}" for n in range(400))[:300]) + "\n"}


def test_the_most_frequent_words_are_typical_before_all_others() -> None:
    words = [f"w{n}" for n in range(400)]
    pairs = [(" ".join(words), "x")] * 5 + [("w99 w98", "x")]
    typical = SideWords.learn(pairs).source
    assert {"w98", "w99"} <= typical
    assert len(typical) == 300


def test_sides_that_share_their_words_never_look_swapped() -> None:
    words = SideWords.learn([("one two three", "three two one")] * 100)
    assert not words.looks_swapped("three two one", "one two three")


def test_the_sample_is_bounded_and_spread_over_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_lint, "_SAMPLE", 10)
    linted, _ = look(tmp_path, write(tmp_path, "a", [(str(n), str(n)) for n in range(1000)]))
    rows = [int(source) for source, _ in linted.sample]
    assert 10 <= len(rows) < 20
    assert len({b - a for a, b in pairwise(rows)}) == 1
    assert rows[-1] > 900


def test_long_work_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_lint, "_CHUNK", 10)
    said: list[str] = []
    corpus = write(tmp_path, "a", [("x", "y")] * 400)
    lint_corpus("train", corpus, Data(folder=str(tmp_path), train=(corpus,)), said.append)
    assert said == ["checking a.en + a.de: 160 pairs so far", "checking a.en + a.de: 320 pairs so far"]


# --- overlaps, against brute force ----------------------------------------------------------------------------------


def random_pairs(seed: int, count: int) -> Pairs:
    """Few different texts, so that many meet; some are blank, some have spaces around them."""
    chance = random.Random(seed)
    texts = ["", " ", "a", "b", "c ", "c", "d e", "f"]
    return [(chance.choice(texts), chance.choice(texts)) for _ in range(count)]


def with_text(pairs: Pairs) -> Pairs:
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    return [pair for pair in stripped if all(pair)]


@pytest.mark.parametrize("seed", range(5))
def test_repeats_and_several_targets_are_those_of_brute_force(seed: int, tmp_path: Path) -> None:
    halves = random_pairs(seed, 30), random_pairs(seed + 100, 20)
    part = [look(tmp_path, write(tmp_path, f"p{n}", half))[0] for n, half in enumerate(halves)]
    seen = Counter[str]()
    for _, sighting in find_repeats(part):
        seen[sighting.kind] += sighting.count
    everything = with_text([*halves[0], *halves[1]])
    targets = {source: {t for s, t in everything if s == source} for source, _ in everything}
    assert seen["repeated"] == len(everything) - len(set(everything))
    assert seen["ambiguous"] == sum(len(several) > 1 for several in targets.values())


@pytest.mark.parametrize("seed", range(5))
def test_what_another_part_has_too_is_that_of_brute_force(seed: int, tmp_path: Path) -> None:
    train, test = random_pairs(seed, 6), random_pairs(seed + 100, 40)
    learned, judged = (look(tmp_path, write(tmp_path, name, pairs))[0] for name, pairs in (("t", train), ("e", test)))
    seen = {sighting.kind: sighting for _, sighting in find_overlap([judged], [learned])}
    known = with_text(train)
    rows = [(row, (s.strip(), t.strip())) for row, (s, t) in enumerate(test) if s.strip() and t.strip()]
    for kind, expected in (
        ("source_seen", [row for row, (s, _) in rows if s in {known_source for known_source, _ in known}]),
        ("pair_seen", [row for row, pair in rows if pair in known]),
    ):
        sighting = seen.get(kind)
        assert (sighting.count if sighting else 0) == len(expected)
        assert (sighting.rows if sighting else ()) == tuple(expected[:5])


def test_a_repeat_is_named_where_it_stands_second(tmp_path: Path) -> None:
    first, _ = look(tmp_path, write(tmp_path, "a", [("x", "y"), ("u", "v")]))
    second, data = look(tmp_path, write(tmp_path, "b", [("p", "q"), ("x", "y")]))
    ((owner, sighting),) = find_repeats([first, second])
    assert owner is second
    (finding,) = make_findings(second, [sighting], data)
    assert (finding.file, finding.lines, finding.example) == ("b.en, b.de", (2,), "x | y")


def test_the_same_source_for_another_language_is_another_source(tmp_path: Path) -> None:
    german, french = (
        write(tmp_path, name, [("dog", target)]).model_copy(update={"to": name})
        for name, target in (("de", "Hund"), ("fr", "chien"))
    )
    part = [look(tmp_path, corpus)[0] for corpus in (german, french)]
    assert list(find_repeats(part)) == []
    assert list(find_overlap(part[:1], part[1:])) == []


def test_the_other_part_is_named_in_words_and_remedy(tmp_path: Path) -> None:
    learned, data = look(tmp_path, write(tmp_path, "a", [("x", "y")]))
    judged = lint_corpus("test", write(tmp_path, "b", [("x", "z")]), data, silent)
    ((_, sighting),) = find_overlap([judged], [learned])
    (finding,) = make_findings(judged, [sighting], data)
    assert finding.severity == "problem"  # the whole test set
    assert finding.what == "pairs whose source is also in train: 1 of 1 (100.00%)"
    assert finding.advice == "Scores on them are too optimistic: remove them from train, or mention it with the scores."


def test_parts_that_are_not_there_overlap_with_nothing(tmp_path: Path) -> None:
    linted, _ = look(tmp_path, write(tmp_path, "a", [("x", "y")]))
    assert [*find_repeats([]), *find_overlap([], [linted]), *find_overlap([linted], [])] == []
