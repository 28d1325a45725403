"""The sentences that golden models were trained on: a few words, put together in every way.

Goldens are never made again, so these texts may change; only what a new golden learns from would.
"""

from collections.abc import Iterator, Sequence
from itertools import product

_WHO = (
    ("the dog", "der Hund", "el perro"),
    ("the cat", "die Katze", "la gata"),
    ("the man", "der Mann", "el hombre"),
    ("the girl", "das Mädchen", "la niña"),
    ("a bird", "ein Vogel", "un pájaro"),
)
_DOES = (("sees", "sieht", "ve"), ("hears", "hört", "oye"), ("likes", "mag", "quiere"))
_WHAT = (
    ("a house", "ein Haus", "una casa"),
    ("the tree", "den Baum", "el árbol"),
    ("the song", "das Lied", "la canción"),
    ("a small fish", "einen kleinen Fisch", "un pez pequeño"),
)
_WHEN = (("", "", ""), (" today", " heute", " hoy"), (" now", " jetzt", " ahora"))

_PRAISE, _BLAME = ("great", "lovely", "funny"), ("dull", "awful", "flat")
_NOUNS = ("film", "story", "cast", "ending")
_TOPICS = {"food": ("soup", "bread", "tea"), "room": ("bed", "window", "lamp"), "staff": ("waiter", "cook", "guide")}


def translated() -> list[tuple[str, str, str]]:
    """English, German and Spanish sentences."""
    return [
        (f"{who[0]} {does[0]} {what[0]}{when[0]}.", f"{who[1]} {does[1]} {what[1]}{when[1]}.",
         f"{who[2]} {does[2]} {what[2]}{when[2]}.")
        for who, does, what, when in product(_WHO, _DOES, _WHAT, _WHEN)
    ]  # fmt: skip


def reviews() -> list[tuple[str, str]]:
    """Labels and texts of one to three sentences."""
    return [
        (label, " ".join(_opinions(words, count, start)))
        for start, (count, (label, words)) in enumerate(
            list(product((1, 2, 3), (("good", _PRAISE), ("bad", _BLAME)))) * 10
        )
    ]


def topics() -> list[tuple[str, str]]:
    """Texts with none, one or two labels, commas between them."""
    rows = []
    for number, (first, second) in enumerate(list(product((*_TOPICS, ""), repeat=2)) * 4):
        named = list(dict.fromkeys(topic for topic in (first, second) if topic))
        things = [_TOPICS[topic][number % 3] for topic in named] or ["weather"]
        rows.append((",".join(named), f"We liked the {' and the '.join(things)}."))
    return rows


def noun_phrases() -> str:
    """Sentences in columns, whose noun phrases are marked by BIO; blank lines separate them."""
    return "\n".join(
        "".join(
            f"{word}\t{label}\n"
            for part, marked in ((who[0], True), (does[0], False), (what[0], True), (when[0], False), (".", False))
            for place, word in enumerate(part.split())
            for label in [("I-NP" if place else "B-NP") if marked else "O"]
        )
        for who, does, what, when in product(_WHO, _DOES, _WHAT, _WHEN)
    )


def trees() -> str:
    """Bracketed trees, one per line."""
    return "".join(
        f"(ROOT (S (NP-SBJ {_leaves(who[0])}) (VP (VBZ {does[0]}) (NP {_leaves(what[0])})"
        f"{f' (ADVP (RB{when[0]}))' if when[0] else ''})))\n"
        for who, does, what, when in product(_WHO, _DOES, _WHAT, _WHEN)
    )


def _leaves(words: str) -> str:
    tags = {"the": "DT", "a": "DT", "small": "JJ"}
    return " ".join(f"({tags.get(word, 'NN')} {word})" for word in words.split())


def topic_pairs() -> list[tuple[str, str, str]]:
    """Two texts each, and whether they are about the same."""
    things = [(topic, thing) for topic, some in _TOPICS.items() for thing in some]
    return [
        ("same" if first[0] == second[0] else "other", f"The {first[1]} was fine.", f"I ask about the {second[1]}.")
        for first, second in product(things, things)
        if first[0] == second[0] or (things.index(first) + things.index(second)) % 3 == 0
    ]


def ratings() -> list[tuple[str, str]]:
    """Numbers and texts of one to three sentences: praise is above five, blame below."""
    return [(f"{5 + text.count('.') * (1 if label == 'good' else -1.5)}", text) for label, text in reviews()]


def similarities() -> list[tuple[str, str, str]]:
    """Two texts each, and how similar they are."""
    return [("4.5" if label == "same" else f"{len(one) % 4 / 2}", one, other) for label, one, other in topic_pairs()]


def running_text() -> str:
    """Documents of three sentences, blank lines between them."""
    sentences = [english[0].upper() + english[1:] for english, _, _ in translated()]
    return "\n\n".join(" ".join(sentences[start::60]) for start in range(60)) + "\n"


def tsv(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with tabs."""
    return "".join("\t".join(row) + "\n" for row in rows)


def column(rows: Sequence[Sequence[str]], number: int) -> str:
    """One column as lines."""
    return "".join(row[number] + "\n" for row in rows)


def _opinions(words: Sequence[str], count: int, start: int) -> Iterator[str]:
    for number in range(start, start + count):
        yield f"The {_NOUNS[number % len(_NOUNS)]} was {words[number // 2 % len(words)]}."
