"""Checks the data of a recipe, whatever its task: each corpus by itself, and the parts against each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.questions import read_questions
from heedful.doctor.corpora.classes import (
    find_class_problems,
    find_forbidden_labels,
    find_number_problems,
    whole_part,
    with_held_out_classes,
)
from heedful.doctor.corpora.corpus_lint import LintedCorpus, Sighting, lint_corpus, make_findings
from heedful.doctor.corpora.duplicates import find_overlap, find_repeats
from heedful.doctor.corpora.images import CheckedImages, check_images, reads_images
from heedful.doctor.corpora.rows import labels_of_task
from heedful.doctor.corpora.running_text import find_text_problems, find_window_problems
from heedful.doctor.findings import Finding, Part

_AMBIGUOUS: Final = 0.05  # share of answers whose position is guessed


@dataclass(frozen=True)
class CheckedData:
    """The corpora of a recipe, and what was found in them, in the order of the data."""

    linted: tuple[LintedCorpus, ...]
    findings: tuple[Finding, ...]
    images: tuple[CheckedImages, ...] = ()

    def part(self, name: Part) -> list[LintedCorpus]:
        """Return the corpora of a part."""
        return [corpus for corpus in self.linted if corpus.part == name]


def check_data(recipe: Recipe, progress: Say, most: int | None = None) -> CheckedData:
    """Check all corpora of a recipe, or the first `most` rows of each."""
    data, labels = recipe.data, labels_of_task(recipe)
    images, in_images = check_images(recipe, progress) if most is None and reads_images(recipe) else ([], [])
    if not recipe.rules.vocabularies:  # there is no text to look at
        return CheckedData((), tuple(in_images), tuple(images))
    parts: tuple[tuple[Part, Sequence[AnyCorpus]], ...] = (
        ("train", data.train),
        ("valid", data.valid),
        ("test", data.test),
    )
    linted: list[LintedCorpus] = []
    found: list[Finding] = []
    for part, corpora in parts:
        for corpus in corpora:
            if most is not None and getattr(corpus, "sample", None) is not None:
                continue  # what belongs to a sample is known only after the whole file
            progress(f"checking {corpus.title}")
            try:
                linted.append(lint_corpus(part, corpus, data, progress, labels, most, recipe.rules.running))
            except UserError as error:
                if part != "test":
                    raise
                advice = "Training works without it; evaluation does not."
                found.append(Finding("problem", "unreadable", part, str(error), advice, corpus.title))
    by_part = {part: [read for read in linted if read.part == part] for part, _ in parts}
    sightings = list(_sightings(recipe, linted))
    for read in linted:
        found += read.findings
        found += make_findings(read, [sighting for owner, sighting in sightings if owner is read], data, labels)
    if not by_part["train"]:  # samples only, at the start of a run
        return CheckedData(tuple(linted), tuple(found))
    if labels is not None:
        noun = "word" if labels == "words" else "text"
        joined = {part: whole_part(part, corpora, noun) for part, corpora in by_part.items()}
        of_labels = find_number_problems(joined) if labels == "number" else find_class_problems(joined, labels)
        found += with_held_out_classes(of_labels, data)
        found += find_forbidden_labels(by_part, data, most) if labels == "words" else ()
    elif recipe.rules.running:
        found += find_window_problems(recipe, by_part["train"])
    elif {"question", "text"} <= (roles := by_part["train"][0].corpus.roles):
        found += _find_answer_problems(by_part["train"], data.folder, most)
    elif "text" in roles:
        found += find_text_problems(recipe, by_part["train"])
    # A test corpus that cannot be read was reported above.
    found += [finding for finding in in_images if finding.kind != "unreadable"]
    return CheckedData(tuple(linted), tuple(found), tuple(images))


def _sightings(recipe: Recipe, linted: Sequence[LintedCorpus]) -> Iterator[tuple[LintedCorpus, Sighting]]:
    """Yield what was seen in each corpus, in several of a part, and in two parts."""
    # Words are counted in whole rows, but sentences and the texts that co-attention joins have limits of their own.
    cuts = not getattr(recipe.model, "nested", False) and not getattr(recipe.model, "joins_after_reading", False)
    yield from ((read, seen) for read in linted for seen in read.sightings if cuts or seen.kind != "cut")
    train, valid, test = ([read for read in linted if read.part == part] for part in ("train", "valid", "test"))
    for corpora in (train, valid, test):
        yield from find_repeats(corpora)
    yield from find_overlap(valid, train)
    yield from find_overlap(test, train)
    yield from find_overlap(test, valid)


def _find_answer_problems(train: Sequence[LintedCorpus], folder: str, most: int | None) -> Iterator[Finding]:
    """Find answers that occur several times in their text, without a word on which is meant."""
    for linted in train:
        questions = [asked for asked in islice(read_questions(linted.corpus, folder), most) if asked.answers]
        guessed = [asked for asked in questions if asked.ambiguous]
        if guessed:
            yield linted.finding(
                "warning" if len(guessed) >= _AMBIGUOUS * len(questions) else "note",
                "ambiguous_answers",
                f"{len(guessed):,} of {len(questions):,} answers occur several times in their text",
                "The first occurrence is learned: give the position in characters (`start`) where another is meant.",
                count=len(guessed),
                of=len(questions),
                lines=tuple(asked.line for asked in guessed[:5] if asked.line),
                example=f"{guessed[0].question} {guessed[0].answers[0]}",
            )
