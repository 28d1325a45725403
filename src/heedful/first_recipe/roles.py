"""Which columns of a table have which roles, and so which task they are for, told from what they hold and their names.

Forms of rows are tried from the most specific to the most general. Names of columns decide where several columns hold
the same kind of values; where they do not either, all candidates are left, and somebody has to choose.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from heedful.config.corpora.roles import CAPTIONS
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import TASKS
from heedful.data.corpora.formats.column_kinds import Column, Kind
from heedful.data.corpora.formats.column_names import NAMES, meanings

Roles = Mapping[str, Column]
_DESCRIPTION: Final = CAPTIONS.needed[1]  # the role of a sentence about an image
_LEARNED: Final[Mapping[str, tuple[Kind, ...]]] = {"label": ("label", "labels"), "number": ("number",)}
_DESCRIBED: Final[tuple[Kind, ...]] = ("text", "words")
_LONGER: Final = 3  # times: a text that is this much longer than all others is the one that is meant
_NUMBERED: Final = re.compile(r"(?i)(?<![\W_])[\W_]*([12ab]|one|two|left|right)\Z")  # ends of `sentence1`, `text_b`
_PAIRED: Final = ({"premise", "hypothesis"}, {"query", "document"}, {"post", "reply"})
_MINOR: Final = frozenset(["title", "headline", "subject", "summary", "titel", "titre", "título", "标题", "タイトル"])


@dataclass(frozen=True)
class Candidate:
    """A task that a table can be for, and the column of each role."""

    task: TaskRules
    roles: Roles

    @property
    def several(self) -> bool:
        """Whether a row has any number of labels."""
        return "label" in self.roles and self.roles["label"].kind == "labels"


@dataclass(frozen=True)
class _Table:
    """The columns that have no role yet, those that were given one, and whether the task is known."""

    free: Sequence[Column]
    given: Roles
    told: bool

    def of(self, role: str, *kinds: Kind, named: str = "") -> list[Column]:
        """Return the columns that can have a role: the given one, or those of some kinds and of a name.

        `question` is more likely the question than `question_type` is.
        """
        if role in self.given:
            return [self.given[role]]
        found = [each for each in self.free if each.kind in kinds and (not named or named in meanings(each.place))]
        exact = [each for each in found if named and str(each.place).casefold() in NAMES[named]]
        return exact or found

    def texts(self) -> list[dict[str, Column]]:
        """Return the columns that can be the text, or two that are read together."""
        if "text" in self.given:
            return [{role: self.given[role] for role in ("text", "second") if role in self.given}]
        texts = self.of("text", "text")
        if "second" in self.given:
            return [{"text": text, "second": self.given["second"]} for text in texts]
        pair = next((two for two in combinations(texts, 2) if _are_paired(*two, alone=len(texts) == 2)), None)
        if pair:
            return [{"text": pair[0], "second": pair[1]}]
        return [{"text": text} for text in _main_texts(texts)]


_Form = Callable[[_Table], Iterator[tuple[Roles, int]]]  # roles, and how many of their columns have telling names


def candidates(columns: Sequence[Column], given: Roles, task: str | None = None) -> list[Candidate]:
    """Return the most plausible candidates: one where the table is clear, several where somebody has to choose.

    `given` are roles whose columns are known, and `task` is the task if it is.
    """
    taken = {column.place for column in given.values()}
    free = [column for column in columns if column.place not in taken and column.kind != "empty"]
    table = _Table(free, given, task is not None)
    for form, words in _FORMS:
        found: dict[int, list[Candidate]] = {}
        for roles, names in form(table):
            if len({column.place for column in roles.values()}) == len(roles) and given.items() <= roles.items():
                fitting = _tasks_of(roles, words)
                chosen = fitting[:1] if task is None else [rules for rules in fitting if rules.name == task]
                if chosen:
                    found.setdefault(names, []).extend(Candidate(rules, roles) for rules in chosen)
        if found:
            return found[max(found)]
    return []


def _tasks_of(roles: Roles, words: bool) -> list[TaskRules]:
    """Return the task that learns from rows with these roles; of texts alone all, that of a language model first."""
    fitting = [rules for rules in TASKS.values() if any(form.fit(roles) for form in rules.roles)]
    if words or set(roles) != {"text"}:
        return [rules for rules in fitting if rules.words == words][:1]
    return sorted(fitting, key=lambda rules: not rules.running)


# --- forms ------------------------------------------------------------------------------------------------------------


def _asked_images(table: _Table) -> Iterator[tuple[Roles, int]]:
    for image in table.of("image", "image"):
        for question in table.of("question", "text", "label", named="question"):
            for answer in table.of("answer", "text", "label", "number", "labels", named="answer"):
                yield _with_given({"image": image, "question": question, "answer": answer}, table, "group"), 1


def _images(table: _Table) -> Iterator[tuple[Roles, int]]:
    for image in table.of("image", "image"):
        for role, kinds in (*_LEARNED.items(), (_DESCRIPTION, _DESCRIBED)):
            for column in _values(table, role, kinds):
                yield {"image": image, role: column}, int(role in meanings(column.place))
        if _DESCRIPTION not in table.given:  # few different sentences look like labels
            for column in table.of(_DESCRIPTION, "label", named=_DESCRIPTION):
                yield {"image": image, _DESCRIPTION: column}, 1


def _questions(table: _Table) -> Iterator[tuple[Roles, int]]:
    for question in table.of("question", "text", "label", named="question"):
        for answer in table.of("answer", "text", "label", "labels", "number", "other", named="answer"):
            texts = [text for text in table.of("text", "text", "label") if text not in (question, answer)]
            for text in [text for text in texts if "context" in meanings(text.place)] or _main_texts(texts):
                starts = table.of("start", "number", "id", "label", named="start")
                start = {"start": starts[0]} if len(starts) == 1 else {}
                yield {"question": question, "text": text, "answer": answer, **start}, 1


def _tags(table: _Table) -> Iterator[tuple[Roles, int]]:
    for text in table.of("text", "words") or table.of("text", "text"):
        for label in table.of("label", "tags"):
            yield {"text": text, "label": label}, 0


def _named_pairs(table: _Table) -> Iterator[tuple[Roles, int]]:
    """Yield pairs whose names say it: a source and a target, or two languages."""
    texts = table.of("", "text")
    sources, targets = (
        table.of(role, "text", named=role) if role in table.given or len(texts) > 1 else []
        for role in ("source", "target")
    )
    for source in sources:
        for target in targets:
            yield {"source": source, "target": target}, 2
    languages = [text for text in texts if "language" in meanings(text.place)]
    for source, target in combinations(languages, 2):
        yield {"source": source, "target": target}, 1


def _learned(table: _Table) -> Iterator[tuple[Roles, int]]:
    """Yield texts with what is learned from them: a label or a number."""
    for texts in table.texts():
        for role, kinds in _LEARNED.items():
            for column in _values(table, role, kinds):
                named = role in meanings(column.place) and column.kind != "id"
                if column.distinct > 1 or named or role in table.given:
                    yield {**texts, role: column}, int(named) if column.distinct > 1 else -1


def _pairs(table: _Table) -> Iterator[tuple[Roles, int]]:
    """Yield two texts; where there are no two, the only two columns."""
    texts = table.of("", "text", "words")
    if len(texts) + len(table.given) < 2 and len(table.free) + len(table.given) == 2:
        texts = table.of("", "text", "words", "id", "date")
    if table.given:
        sources, targets = ([table.given[role]] if role in table.given else texts for role in ("source", "target"))
        yield from (({"source": one, "target": two}, 0) for one in sources for two in targets)
        return
    for source, target in combinations(texts, 2):
        yield {"source": source, "target": target}, 0


def _alone(table: _Table) -> Iterator[tuple[Roles, int]]:
    for text in table.of("text", "text") if "text" in table.given else _main_texts(table.of("text", "text")):
        yield {"text": text}, 0


_FORMS: Final[Sequence[tuple[_Form, bool]]] = (  # the flag: whether each word has a label of its own
    (_asked_images, False),
    (_images, False),
    (_questions, False),
    (_tags, True),
    (_named_pairs, False),
    (_learned, False),
    (_pairs, False),
    (_alone, False),
)


# --- which of several -------------------------------------------------------------------------------------------------


def _with_given(roles: dict[str, Column], table: _Table, role: str) -> Roles:
    return {**roles, role: table.given[role]} if role in table.given else roles


def _values(table: _Table, role: str, kinds: tuple[Kind, ...]) -> list[Column]:
    """Return the columns of what is learned; where the task is known, labels that are numbers are numbers too."""
    if not table.told or role not in ("label", "number"):
        return table.of(role, *kinds)
    found = table.of(role, *kinds, *(("label", "id") if role == "number" else ("number",)))
    return [column for column in found if column.numeric or column.kind in kinds or role in table.given]


def _main_texts(texts: Sequence[Column]) -> list[Column]:
    """Return the column that is most likely the text, by its name or its length; all that are equally likely."""

    def rank(column: Column) -> int:
        minor = str(column.place).casefold() in _MINOR
        return 0 if minor else 2 if meanings(column.place) & {"text", "context"} else 1

    best = [column for column in texts if rank(column) == max(map(rank, texts))]
    longest = max(best, key=lambda column: column.letters, default=None)
    if longest and all(longest.letters >= _LONGER * other.letters for other in best if other is not longest):
        return [longest]
    return best


def _are_paired(first: Column, second: Column, alone: bool) -> bool:
    """Whether two texts are read together: their names say so, or they are the only ones, without names, alike."""
    names = [str(column.place).casefold() for column in (first, second)]
    stems = {_NUMBERED.sub("", name) for name in names}
    if set(names) in _PAIRED or (len(stems) == 1 and names[0] not in stems):
        return True
    lengths = sorted((first.letters, second.letters))
    unnamed = isinstance(first.place, int) and alone
    return unnamed and lengths[1] < _LONGER * lengths[0]
