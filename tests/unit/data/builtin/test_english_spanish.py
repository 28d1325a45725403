"""The english-spanish generator: right in both languages, one translation each, and parts that do not overlap."""

import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from itertools import chain, pairwise, product

import pytest

from heedful.data.builtin.english_spanish import (
    EXAMPLES,
    MAX_WORDS,
    PARTS,
    Draw,
    combinations,
    is_held_out,
    nouns_of,
    part_of,
    plain_sentence_count,
    sentence_pairs,
)
from heedful.data.builtin.english_spanish_grammar import (
    ALWAYS,
    AND,
    BARE,
    BEHIND,
    BUT,
    FROM,
    HE,
    HER,
    IN,
    IN_FRONT_OF,
    MANY,
    ME,
    MY,
    NEAR,
    NEVER,
    OUR,
    SHE,
    THAT,
    THE,
    THERE,
    THEY,
    THIS,
    TO,
    TOO,
    UNDER,
    VERY,
    WE,
    WHAT,
    WHEN,
    WHERE,
    WHETHER,
    WHO,
    WHY,
    YOU,
    YOUR,
    A,
    Clause,
    Determiner,
    Mood,
    NounPhrase,
    Preposition,
    Sentence,
    Subject,
    Words,
    english,
    spanish,
)  # fmt: skip
from heedful.data.builtin.english_spanish_lexicon import (
    ADJECTIVES,
    BE_ESTAR,
    BE_SER,
    IN_DIGITS,
    IN_WORDS,
    NOUNS,
    THERE_BE,
    VERBS,
    Tense,
    Verb,
)
from heedful.errors import UserError

NOUN = {noun.lemma: noun for noun in NOUNS}
ADJECTIVE = {adjective.lemma: adjective for adjective in ADJECTIVES}
VERB = {verb.lemma: verb for verb in VERBS}
NUMERAL = {numeral.english: numeral for numeral in (*IN_WORDS, *IN_DIGITS)}


def one(determiner: Determiner, noun: str, adjective: str = "", of: NounPhrase | None = None) -> NounPhrase:
    return NounPhrase(determiner, NOUN[noun], False, None, ADJECTIVE.get(adjective), of)


def many(
    determiner: Determiner, noun: str, adjective: str = "", number: str = "", of: NounPhrase | None = None
) -> NounPhrase:
    return NounPhrase(determiner, NOUN[noun], True, NUMERAL.get(number), ADJECTIVE.get(adjective), of)


def name(noun: str) -> NounPhrase:
    return NounPhrase(BARE, NOUN[noun])


def says(
    subject: Subject | NounPhrase,
    verb: str,
    tense: Tense = "present",
    what: NounPhrase | None = None,
    *,
    to: NounPhrase | None = None,
    place: tuple[Preposition, NounPhrase] | None = None,
    ask: Words | None = None,
    negated: bool = False,
    contracted: bool = False,
    adverb: Words | None = None,
    time: Words | None = None,
    time_first: bool = False,
) -> Sentence:
    mood = Mood(tense, negated, contracted, ask, adverb, time, time_first)
    objects = () if what is None else (what,)
    return Sentence(Clause(_alone(subject), _verb(verb), mood, objects, to, place=place))


def is_so(
    subject: Subject | NounPhrase,
    adjective: str,
    tense: Tense = "present",
    *,
    degree: Words | None = None,
    ask: Words | None = None,
    negated: bool = False,
    contracted: bool = False,
) -> Sentence:
    predicate = ADJECTIVE[adjective]
    verb = BE_ESTAR if predicate.copula == "estar" else BE_SER
    mood = Mood(tense, negated, contracted, ask)
    return Sentence(Clause(_alone(subject), verb, mood, predicate=predicate, degree=degree))


def _alone(subject: Subject | NounPhrase) -> Subject:
    return (subject,) if isinstance(subject, NounPhrase) else subject


def _verb(lemma: str) -> Verb:
    return {"be": BE_ESTAR, "there be": THERE_BE}.get(lemma) or VERB[lemma]


THE_QUEEN = one(THE, "queen")
EXAMPLE_SENTENCES = (
    says(many(THE, "cat", "small", "two"), "see", "past", one(THE, "house", "red"), negated=True),
    says(many(BARE, "pirate", "old", "twenty-one"), "look for", "progressive", one(A, "map")),
    says(one(THE, "baby", "tired"), "sleep", "can", ask=WHY, negated=True, contracted=True),
    says(many(OUR, "teacher", "hardworking"), "give", "past", many(MANY, "book", "new"), to=many(THE, "child")),
    says(one(THE, "horse", "black", THE_QUEEN), "run", "past", place=(TO, one(THE, "river")),
         time=Words("yesterday", "ayer"), time_first=True),
)  # fmt: skip

GOLD = (
    # what the examples are to become
    (EXAMPLE_SENTENCES[0], EXAMPLES[0], "Los dos gatos pequeños no vieron la casa roja."),
    (EXAMPLE_SENTENCES[1], EXAMPLES[1], "Veintiún piratas viejos están buscando un mapa."),
    (EXAMPLE_SENTENCES[2], EXAMPLES[2], "¿Por qué no puede dormir el bebé cansado?"),
    (EXAMPLE_SENTENCES[3], EXAMPLES[3], "Nuestras maestras trabajadoras dieron muchos libros nuevos a los niños."),
    (EXAMPLE_SENTENCES[4], EXAMPLES[4], "Ayer el caballo negro de la reina corrió al río."),
    # agreement, and plurals that change their spelling
    (says(many(THE, "lion", "young"), "see", "present", many(THE, "light", "blue")),
     "The young lions see the blue lights.", "Los leones jóvenes ven las luces azules."),
    (says(HE, "want", "present", many(THIS, "pencil", "brown")),
     "He wants these brown pencils.", "Él quiere estos lápices marrones."),
    (says(many(THE, "king", "happy"), "visit", "past", many(THE, "queen", "happy")),
     "The happy kings visited the happy queens.", "Los reyes felices visitaron a las reinas felices."),
    (says(one(THAT, "teacher", "English"), "know", "present", many(MANY, "student", "English")),
     "That English teacher knows many English students.", "Esa maestra inglesa conoce a muchos estudiantes ingleses."),
    (says(one(MY, "singer", "Spanish"), "go", "future", place=(TO, one(THE, "city", "old"))),
     "My Spanish singer will go to the old city.", "Mi cantante española irá a la ciudad vieja."),
    (is_so(many(MY, "map"), "useful", degree=VERY), "My maps are very useful.", "Mis mapas son muy útiles."),
    (is_so(many(THE, "umbrella"), "expensive", degree=TOO),
     "The umbrellas are too expensive.", "Los paraguas son demasiado caros."),
    # adjectives before the noun
    (says(one(A, "doctor", "good"), "eat", "present", one(A, "pear", "good")),
     "A good doctor eats a good pear.", "Un buen médico come una buena pera."),
    (is_so(one(THE, "doctor"), "good"), "The doctor is good.", "El médico es bueno."),
    (says(SHE, "read", "future", many(THE, "novel", "great")),
     "She will read the great novels.", "Ella leerá las grandes novelas."),
    (says(one(A, "singer", "great"), "sing"), "A great singer sings.", "Una gran cantante canta."),
    # feminine nouns in stressed a
    (says(one(THE, "eagle", "white"), "drink", "present", one(THE, "water", "cold")),
     "The white eagle drinks the cold water.", "El águila blanca bebe el agua fría."),
    (says(one(THIS, "eagle"), "chase", "present", one(A, "eagle", "slow")),
     "This eagle chases a slow eagle.", "Esta águila persigue a un águila lenta."),
    (is_so(many(THE, "eagle"), "tired"), "The eagles are tired.", "Las águilas están cansadas."),
    (says(one(THE, "eagle", "great"), "fly"), "The great eagle flies.", "La gran águila vuela."),
    # a and an go by sound
    (says(ME, "visit", "past", one(A, "university")), "I visited a university.", "Visité una universidad."),
    (says(YOU, "have", "present", one(A, "friend", "honest")),
     "You have an honest friend.", "Tienes un amigo honesto."),
    (says(ME, "need", "present", one(A, "gift", "useful")), "I need a useful gift.", "Necesito un regalo útil."),
    (says(WE, "find", "past", one(A, "owl", "old")), "We found an old owl.", "Encontramos un búho viejo."),
    (says(HE, "choose", "present", one(A, "coat", "English")),
     "He chooses an English coat.", "Él elige un abrigo inglés."),
    # numbers
    (says(ME, "see", "past", many(BARE, "house", "", "twenty-one")),
     "I saw twenty-one houses.", "Vi veintiuna casas."),
    (says(ME, "see", "past", many(BARE, "cat", "", "thirty-one")),
     "I saw thirty-one cats.", "Vi treinta y un gatos."),
    (says(ME, "see", "past", many(THE, "cow", "", "ninety-one")),
     "I saw the ninety-one cows.", "Vi las noventa y una vacas."),
    (says(WE, "buy", "present", many(BARE, "egg", "", "16")), "We buy 16 eggs.", "Compramos 16 huevos."),
    (says(WE, "buy", "present", many(THAT, "nut", "sweet", "sixteen")),
     "We buy those sixteen sweet nuts.", "Compramos esas dieciséis nueces dulces."),
    # the personal a, al and del
    (says(SHE, "wait for", "present", one(THE, "king")), "She waits for the king.", "Ella espera al rey."),
    (says(SHE, "wait for", "present", one(THE, "bus")), "She waits for the bus.", "Ella espera el autobús."),
    (says(ME, "love", "present", many(MY, "cat")), "I love my cats.", "Amo a mis gatos."),
    (says(ME, "have", "present", many(BARE, "brother", "", "two")), "I have two brothers.", "Tengo dos hermanos."),
    (says(ME, "hear", "past", name("Ana")), "I heard Ana.", "Oí a Ana."),
    (says(one(THE, "thief"), "return", "past", place=(FROM, one(THE, "market"))),
     "The thief returned from the market.", "El ladrón volvió del mercado."),
    (says(many(THE, "mouse"), "be", place=(UNDER, one(THE, "sofa"))),
     "The mice are under the sofa.", "Los ratones están debajo del sofá."),
    (says(one(THE, "car", "red", many(MY, "neighbor")), "be", place=(IN_FRONT_OF, one(THE, "hotel"))),
     "My neighbors' red car is in front of the hotel.", "El coche rojo de mis vecinos está delante del hotel."),
    (says(HE, "steal", "past", one(THE, "ring", "", name("Luis"))),
     "He stole Luis's ring.", "Él robó el anillo de Luis."),
    (says(HE, "eat", "past", many(THE, "cookie", "", of=many(THE, "child"))),
     "He ate the children's cookies.", "Él comió las galletas de los niños."),
    # verbs: stem changes, irregular pasts, spelling changes, states in the imperfect
    (says(many(THE, "child"), "sleep", "past"), "The children slept.", "Los niños durmieron."),
    (says(HE, "ask for", "past", one(BARE, "tea")), "He asked for tea.", "Él pidió té."),
    (says(ME, "look for", "past", one(THE, "key")), "I looked for the key.", "Busqué la llave."),
    (says(ME, "hug", "past", one(THE, "girl")), "I hugged the girl.", "Abracé a la chica."),
    (says(ME, "arrive", "past"), "I arrived.", "Llegué."),
    (says(ME, "bring", "past", one(THE, "lamp"), to=one(THE, "farmer")),
     "I brought the lamp to the farmer.", "Traje la lámpara al granjero."),
    (says(YOU, "make", "future", one(A, "dress")), "You will make a dress.", "Harás un vestido."),
    (says(THEY, "come", "future"), "They will come.", "Ellos vendrán."),
    (says(THEY, "read", "progressive", one(YOUR, "letter")),
     "They are reading your letter.", "Ellos están leyendo tu carta."),
    (says(one(THE, "witch"), "have", "past", one(A, "frog")), "The witch had a frog.", "La bruja tenía una rana."),
    (says(WE, "swim", "wanted"), "We wanted to swim.", "Queríamos nadar."),
    (is_so(one(THE, "soup"), "hot", "past"), "The soup was hot.", "La sopa estaba caliente."),
    (is_so(WE, "young", "past"), "We were young.", "Éramos jóvenes."),
    # questions and denials
    (says(one(YOUR, "aunt"), "study", ask=WHETHER, place=(IN, one(THE, "library"))),
     "Does your aunt study in the library?", "¿Estudia tu tía en la biblioteca?"),
    (says(one(THE, "boy"), "open", "can", one(THE, "window"), ask=WHETHER),
     "Can the boy open the window?", "¿Puede el chico abrir la ventana?"),
    (says(one(THE, "boy"), "eat", "progressive", ask=WHAT), "What is the boy eating?", "¿Qué está comiendo el chico?"),
    (says(WHO, "break", "past", one(THE, "mirror"), ask=WHETHER), "Who broke the mirror?", "¿Quién rompió el espejo?"),
    (says(one(THE, "cat"), "be", ask=WHERE), "Where is the cat?", "¿Dónde está el gato?"),
    (says(one(THE, "train"), "arrive", "future", ask=WHEN), "When will the train arrive?", "¿Cuándo llegará el tren?"),
    (is_so(one(HER, "sister"), "angry", ask=WHY), "Why is her sister angry?", "¿Por qué está enfadada su hermana?"),
    (is_so(HE, "rich", ask=WHETHER), "Is he rich?", "¿Es él rico?"),
    (is_so(ME, "tired", ask=WHY, negated=True, contracted=True), "Why am I not tired?", "¿Por qué no estoy cansado?"),
    (says(SHE, "dance", "can", negated=True), "She cannot dance.", "Ella no puede bailar."),
    (says(SHE, "dance", "future", negated=True, contracted=True), "She won't dance.", "Ella no bailará."),
    (says(one(THE, "dog"), "play", adverb=NEVER), "The dog never plays.", "El perro nunca juega."),
    (says(WE, "play", adverb=ALWAYS), "We always play.", "Siempre jugamos."),
    (says(THERE[True], "there be", "past", many(BARE, "man", "", "three"), place=(NEAR, one(THE, "tree"))),
     "There were three men near the tree.", "Había tres hombres cerca del árbol."),
    (says(THERE[False], "there be", "present", one(A, "fox"), ask=WHETHER, place=(BEHIND, one(THE, "school"))),
     "Is there a fox behind the school?", "¿Hay un zorro detrás de la escuela?"),
    # two subjects, two clauses
    (says((name("Ana"), name("Isabel")), "travel"), "Ana and Isabel travel.", "Ana e Isabel viajan."),
    (says((one(MY, "uncle"), one(MY, "aunt")), "cry", "past"),
     "My uncle and my aunt cried.", "Mi tío y mi tía lloraron."),
    (is_so((one(THE, "boy"), one(THE, "girl")), "tall"),
     "The boy and the girl are tall.", "El chico y la chica son altos."),
    (Sentence(is_so(one(THE, "cow"), "slow").first, BUT, says(HE, "run").first),
     "The cow is slow, but he runs.", "La vaca es lenta, pero él corre."),
    (Sentence(says(SHE, "work", "future").first, AND, says(ME, "go", "future", place=(TO, one(THE, "park"))).first),
     "She will work and I will go to the park.", "Ella trabajará e iré al parque."),
)  # fmt: skip


@pytest.mark.parametrize(("sentence", "in_english", "in_spanish"), GOLD, ids=[row[1] for row in GOLD])
def test_the_grammar_writes_what_a_teacher_would(sentence: Sentence, in_english: str, in_spanish: str) -> None:
    assert (english(sentence), spanish(sentence)) == (in_english, in_spanish)


def test_one_english_sentence_has_one_translation() -> None:
    draw = Draw("one translation")
    translations = dict(chain.from_iterable(pairs(part) for part in PARTS))
    for _ in range(40_000):
        sentence = draw.sentence()
        translation = spanish(sentence)
        assert translations.setdefault(english(sentence), translation) == translation
    assert len(translations) > 80_000


def test_no_statement_could_be_present_or_past() -> None:
    """ "They read" could be either, so a past of "read" is only asked or denied: did they read?"""
    draw = Draw("present or past")
    for _ in range(8_000):
        clause = draw.sentence().first
        if clause.mood.tense == "past" and not clause.mood.ask and not clause.mood.negated:
            assert clause.verb.forms["past"].plain[0] != clause.verb.forms["present"].plain[0]


def test_no_english_word_stands_for_two_things() -> None:
    nouns = [form for noun in NOUNS for form in dict.fromkeys(noun.english)]
    verbs = [form for verb in VERBS for form in _verb_words(verb)]
    words = nouns + verbs + [adjective.lemma for adjective in ADJECTIVES]
    assert sorted(words) == sorted(set(words))


def _verb_words(verb: Verb) -> set[str]:
    """A verb's own words, without those of its auxiliaries."""
    present, past = verb.forms["present"], verb.forms["past"]
    return {present.plain[0], present.plain[2], past.plain[0]}


def test_there_are_a_million_distinct_sentences() -> None:
    assert plain_sentence_count() > 10**6
    verb = VERB["drink"]  # the count is right for one verb, written out in full
    written = {
        english(says(subject, "drink", "present", drink))
        for subject, drink in product(_plain_phrases(verb.subjects), _plain_phrases(verb.objects))
    }
    assert len(written) == plain_sentence_count((verb,))


def _plain_phrases(kinds: frozenset[str]) -> list[NounPhrase]:
    return [
        NounPhrase(THE, noun, adjective=adjective)
        for noun in nouns_of(kinds - {"name"})
        for adjective in (None, *(word for word in ADJECTIVES if noun.kind in word.kinds))
    ]


@cache
def pairs(part: str) -> tuple[tuple[str, str], ...]:
    return tuple(sentence_pairs(part, {"train": 50_000, "valid": 2_000, "test": 2_000}[part]))


@pytest.mark.parametrize("part", ["train", "valid"])
def test_training_and_validation_hold_no_held_out_combination(part: str) -> None:
    """Read off the text alone: no held-out adjective stands before its noun, no such verb follows its subject."""
    phrases = {
        f"{adjective.lemma} {form}"
        for noun, adjective in product(NOUNS, ADJECTIVES)
        if is_held_out((noun.lemma, adjective.lemma))
        for form in noun.english
    }
    clauses = {
        f"{form} {word}"
        for noun, verb in product(NOUNS, VERBS)
        if is_held_out((noun.lemma, verb.lemma))
        for form in noun.english
        for word in _verb_words(verb)
    }
    assert len(phrases) > 500
    assert len(clauses) > 500
    for text, _ in pairs(part):
        for first, second in pairwise(text.rstrip(".?").split()):
            assert f"{first} {second}" not in phrases
            assert f"{first} {second}" not in clauses


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_what_its_draw_gives_of_that_part(part: str) -> None:
    draw = Draw(f"english-spanish {part} 0")
    drawn: dict[str, str] = {}
    while len(drawn) < 300:
        sentence = draw.sentence()
        if part_of(sentence) == part and len(english(sentence).split()) <= MAX_WORDS:
            drawn[english(sentence)] = spanish(sentence)
    assert list(dict(pairs(part)[:400]).items())[:300] == list(drawn.items())


def test_every_test_sentence_holds_a_held_out_combination_of_either_kind() -> None:
    draw = Draw("both kinds")
    kinds = set()
    for _ in range(3000):
        sentence = draw.sentence()
        held_out = [pair for pair in combinations(sentence) if is_held_out(pair)]
        assert (part_of(sentence) == "test") == bool(held_out)
        kinds |= {"noun-adjective" if second in ADJECTIVE else "subject-verb" for _, second in held_out}
    assert kinds == {"noun-adjective", "subject-verb"}


def test_a_sentence_names_all_its_combinations() -> None:
    assert combinations(says(one(THE, "owl"), "fly", "want")) == [("owl", "fly"), ("owl", "want")]
    sentence = Sentence(
        says(one(THE, "king", "old"), "give", "past", one(A, "ring", "new"), to=one(MY, "aunt", "kind")).first,
        AND,
        is_so(one(THE, "dog", "black"), "tired").first,
    )
    assert sorted(combinations(sentence)) == [
        ("aunt", "kind"), ("dog", "black"), ("dog", "tired"), ("king", "give"), ("king", "old"), ("ring", "new"),
    ]  # fmt: skip
    placed = says(ME, "run", place=(TO, one(THE, "river", "old")))
    assert combinations(placed) == [("river", "old")]


def test_about_one_combination_in_twenty_is_held_out() -> None:
    possible = [(noun.lemma, word.lemma) for noun, word in product(NOUNS, ADJECTIVES) if noun.kind in word.kinds] + [
        (noun.lemma, verb.lemma) for noun, verb in product(NOUNS, VERBS) if noun.kind in verb.subjects
    ]
    assert 0.04 < sum(map(is_held_out, possible)) / len(possible) < 0.06


def test_every_word_of_the_test_part_occurs_in_training() -> None:
    for side in (0, 1):
        trained = {word for pair in pairs("train") for word in _words(pair[side])}
        assert {word for pair in pairs("test") for word in _words(pair[side])} <= trained


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def test_the_parts_are_disjoint() -> None:
    train, valid, test = ({text for text, _ in pairs(part)} for part in PARTS)
    assert not train & valid
    assert not train & test
    assert not valid & test


@pytest.mark.parametrize("part", ["valid", "test"])
def test_no_sentence_comes_twice_where_models_are_judged(part: str) -> None:
    assert len({text for text, _ in pairs(part)}) == len(pairs(part))


@pytest.mark.parametrize("part", PARTS)
def test_sentences_are_of_a_readable_length(part: str) -> None:
    lengths = [len(text.split()) for text, _ in pairs(part)]
    assert max(lengths) <= MAX_WORDS
    assert 7 <= sum(lengths) / len(lengths) <= 10


@pytest.mark.parametrize("part", PARTS)
def test_a_longer_draw_begins_with_the_shorter_one(part: str) -> None:
    assert tuple(sentence_pairs(part, 50)) == pairs(part)[:50]


def test_another_seed_draws_other_sentences() -> None:
    assert list(sentence_pairs("train", 50, seed=1)) != list(pairs("train")[:50])


def test_every_process_draws_the_same_sentences() -> None:
    program = (
        "from heedful.data.builtin.english_spanish import PARTS, sentence_pairs\n"
        "print([pair for part in PARTS for pair in sentence_pairs(part, 200, seed=3)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout.decode()
        for hash_seed in ("1", "2")
    ]
    here = str([pair for part in PARTS for pair in sentence_pairs(part, 200, seed=3)])
    assert [output.strip() for output in outputs] == [here, here]


def test_the_examples_are_held_out() -> None:
    assert tuple(map(english, EXAMPLE_SENTENCES)) == EXAMPLES
    assert [part_of(sentence) for sentence in EXAMPLE_SENTENCES] == ["test"] * 5


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    message = "english-spanish has no part `dev`. Its parts are train, valid and test."
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        sentence_pairs("dev", 1)


# --- the version ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "digest"),
    [
        ("train", "75d8759199bf659310d5d3e5ac8f8ab8687d317da97ce7d181787de6259f16da"),
        ("valid", "015cb2887f220babf1fac7b572603633fc8b3b957d81b44db4e8c57b6cec3658"),
        ("test", "6b222bd2cf333ce825b9f2d1733ac413c8082c66c21bbc579e2652f4481f0d61"),
    ],
)
def test_what_it_makes_belongs_to_its_version_in_cache_keys(part: str, digest: str) -> None:
    """Red here means: give the generator a new version in GENERATORS, and pin what it makes now."""
    made = "\n".join("\t".join(pair) for pair in sentence_pairs(part, 2000))
    assert hashlib.sha256(made.encode()).hexdigest() == digest
