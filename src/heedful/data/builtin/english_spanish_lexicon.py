"""The words of the english-spanish generator with every form they take, in both languages.

The tables are meant to be read; the functions below them spell out the regular forms, and a form that breaks a rule
stands in a table. Two conventions hold throughout: forms by number are (singular, plural), indexed by a bool, and
forms by person are (I, you, he or she, we, they).
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Tense: TypeAlias = Literal["present", "past", "future", "can", "progressive", "want", "wanted"]
ByNumber: TypeAlias = tuple[str, str]
ByGender: TypeAlias = tuple[ByNumber, ByNumber]  # masculine, feminine
ByPerson: TypeAlias = tuple[str, str, str, str, str]

# "english spanish" or "english/plural spanish/plural"; a star marks a feminine noun in stressed a (el agua fría).
NOUN_TABLE: Final = {
    "family m": "father padre, brother hermano, son hijo, grandfather abuelo, uncle tío, friend amigo, neighbor vecino",
    "family f": "mother madre, sister hermana, daughter hija, grandmother abuela, aunt tía",
    "person m": "boy chico, man/men hombre, child/children niño, baby bebé, king rey, doctor médico, farmer granjero, "
    "baker panadero, student estudiante, artist artista, captain capitán, pirate pirata, thief/thieves ladrón",
    "person f": "girl chica, woman/women mujer, queen reina, teacher maestra, nurse enfermera, singer cantante, "
    "writer escritora, witch bruja, scientist científica",
    "name m": "Pedro Pedro, Luis Luis",
    "name f": "Ana Ana, Isabel Isabel",
    "animal m": "dog perro, cat gato, horse caballo, mouse/mice ratón, rabbit conejo, lion león, wolf/wolves lobo, "
    "fox zorro, bear oso, monkey mono, elephant elefante",
    "animal f": "cow vaca, frog rana, turtle tortuga, spider araña",
    "flyer m": "bird pájaro, duck pato, owl búho, goose/geese ganso",
    "flyer f": "bee abeja, butterfly mariposa, eagle *águila",
    "food m": "egg huevo, lemon limón, cake pastel, sandwich bocadillo, tomato tomate, cheese queso",
    "food f": "apple manzana, orange naranja, pear pera, cookie galleta, potato patata, onion cebolla, cherry cereza, "
    "soup sopa, nut nuez",
    "staple m": "bread pan, rice arroz",
    "drink m": "coffee café, tea té, juice zumo",
    "drink f": "milk leche, water *agua",
    "thing m": "pencil lápiz, clock reloj, mirror espejo, plate plato, glass vaso, knife/knives cuchillo, ring anillo, "
    "map mapa, phone teléfono, computer ordenador, umbrella paraguas/paraguas, gift regalo, toy juguete, "
    "picture cuadro",
    "thing f": "key llave, lamp lámpara, cup taza, spoon cuchara, ball pelota, guitar guitarra, coin moneda, "
    "flower flor, photo/photos foto, light luz, basket cesta",
    "paper m": "book libro, newspaper periódico",
    "paper f": "letter carta",
    "text m": "poem poema, story cuento, message mensaje",
    "text f": "novel novela, song canción",
    "clothes m": "hat sombrero, shoe zapato, coat abrigo, dress vestido",
    "clothes f": "shirt camisa, skirt falda, scarf/scarves bufanda, boot bota",
    "opening f": "door puerta, window ventana, box caja, bottle botella, suitcase maleta",
    "furniture m": "sofa sofá, desk escritorio",
    "furniture f": "table mesa, chair silla, bed cama",
    "vehicle m": "car coche, train tren, boat barco, bus autobús, plane avión",
    "vehicle f": "bicycle bicicleta",
    "building m": "hotel hotel, castle castillo, theater teatro, restaurant restaurante, museum museo, "
    "hospital hospital",
    "building f": "house casa, church iglesia, tower torre, shop tienda, school escuela, library biblioteca",
    "place m": "garden jardín, park parque, village pueblo, market mercado, forest bosque",
    "place f": "city ciudad, square plaza, station estación, street calle, university universidad",
    "room f": "kitchen cocina, office oficina, room habitación",
    "landmark m": "bridge puente, tree árbol",
    "landmark f": "mountain montaña, fountain fuente",
    "shore m": "river río, lake lago",
    "shore f": "beach playa, island isla",
}
GROUPS: Final = {
    "people": "family person name",
    "animals": "animal flyer",
    "living": "family person name animal flyer",
    "wares": "thing paper clothes opening furniture vehicle",
    "objects": "thing paper text clothes opening furniture vehicle",
    "texts": "paper text",
    "inside": "building place room",
    "places": "building place room landmark shore",
    "edible": "food staple",
}
MASS_KINDS: Final = ("staple", "drink")

# english, spanish, copula, the kinds of noun it suits; "plain" ones take no "very" or "too".
ADJECTIVE_TABLE: Final = """
    red         rojo         ser    plain wares building food
    green       verde        ser    plain wares building food
    yellow      amarillo     ser    plain wares building food
    blue        azul         ser    plain wares building flyer
    white       blanco       ser    plain wares building animals
    black       negro        ser    plain wares building animals
    brown       marrón       ser    plain wares animals
    big         grande       ser    living objects places food
    small       pequeño      ser    living objects places food
    old         viejo        ser    living objects places
    new         nuevo        ser    objects inside
    young       joven        ser    living
    good        bueno        ser    people animal objects inside edible
    bad         malo         ser    family person animal texts edible
    great       gran         -      person texts building
    beautiful   hermoso      ser    living objects places
    ugly        feo          ser    animals objects inside
    strange     extraño      ser    living objects places edible drink
    tall        alto         ser    people
    strong      fuerte       ser    people animal
    fast        rápido       ser    people animals vehicle
    slow        lento        ser    people animals vehicle
    happy       feliz        ser    living
    sad         triste       estar  living
    tired       cansado      estar  living
    sick        enfermo      estar  living
    angry       enfadado     estar  people animal
    intelligent inteligente  ser    living
    lazy        perezoso     ser    people animal
    hardworking trabajador   ser    people
    kind        amable       ser    people
    honest      honesto      ser    people
    elegant     elegante     ser    people clothes building
    brave       valiente     ser    people animal
    curious     curioso      ser    living
    rich        rico         ser    people
    famous      famoso       ser    people texts places
    dangerous   peligroso    ser    animal vehicle landmark shore
    interesting interesante  ser    people texts places
    useful      útil         ser    thing texts vehicle
    expensive   caro         ser    objects food drink
    cheap       barato       ser    objects food drink
    heavy       pesado       ser    wares
    dirty       sucio        estar  animals wares inside
    empty       vacío        estar  plain opening inside
    broken      roto         estar  plain thing opening furniture vehicle
    hot         caliente     estar  edible drink
    cold        frío         estar  edible drink
    delicious   delicioso    estar  edible drink
    sweet       dulce        ser    food drink
    English     inglés       ser    plain people texts clothes vehicle
    French      francés      ser    plain people texts clothes vehicle
    Spanish     español      ser    plain people texts food
"""
# The few that stand before the noun, where the masculine singular is cut short.
BEFORE_NOUN: Final[dict[str, ByGender]] = {
    "good": (("buen", "buenos"), ("buena", "buenas")),
    "bad": (("mal", "malos"), ("mala", "malas")),
    "great": (("gran", "grandes"), ("gran", "grandes")),
}

# english[/past] with _ inside one verb of two words | infinitive | who does it | to what | notes:
#   state   past is the imperfect, no progressive      moment  no progressive
#   a       animals too take the personal a            no_a    people do not (tiene dos hermanos)
#   gives   may go on with "to somebody"               in, to, far, from, with   what else it may go on with
VERB_TABLE: Final = """
    see/saw               | ver       | living        | people animals objects places             | moment in
    hear/heard            | oír       | living        | people animals vehicle                    | moment in
    watch                 | mirar     | living        | people animals landmark shore             | in with
    find/found            | encontrar | people        | people animals objects                    | moment in
    lose/lost             | perder    | people        | thing paper clothes                       | moment in
    look_for              | buscar    | people        | people animals objects inside             |
    wait_for              | esperar   | people        | people vehicle                            | in with
    listen_to             | escuchar  | people        | people                                    | in
    ask_for               | pedir     | people        | food staple drink thing                   | in
    know/knew             | conocer   | people        | people places                             | state
    love                  | amar      | people        | people animals places                     | state a
    need                  | necesitar | people        | objects food staple drink                 | state
    want                  | querer    | people        | objects animals food drink                | state
    prefer                | preferir  | people        | objects food drink                        | state
    have/had              | tener     | people        | objects animals food family building      | state no_a
    wear/wore             | llevar    | people        | clothes                                   | state
    buy/bought            | comprar   | people        | objects animals edible drink building     | in with
    sell/sold             | vender    | people        | objects animals edible drink building     | in gives
    eat/ate               | comer     | living        | food staple                               | in with
    drink/drank           | beber     | living        | drink                                     | in with
    cook                  | cocinar   | people        | food                                      | in with
    wash                  | lavar     | people        | clothes vehicle                           | in
    open                  | abrir     | people        | opening                                   | in
    close                 | cerrar    | people        | opening                                   | in
    break/broke           | romper    | people        | thing opening furniture                   | moment in
    repair                | reparar   | people        | opening furniture vehicle                 | in
    paint                 | pintar    | people        | opening furniture building landmark shore | in with
    draw/drew             | dibujar   | people        | people animals building landmark shore    | in
    build/built           | construir | people        | building furniture                        |
    make/made             | hacer     | people        | clothes furniture                         | in
    read/read             | leer      | people        | texts                                     | in gives
    write/wrote           | escribir  | people        | texts                                     | in
    bring/brought         | traer     | people        | thing paper clothes food                  | gives
    send/sent             | enviar    | people        | thing texts clothes                       | gives
    give/gave             | dar       | people        | thing paper clothes food                  | gives
    show/showed           | mostrar   | people        | objects animals                           | gives
    choose/chose          | elegir    | people        | objects food                              | in
    steal/stole           | robar     | people        | thing paper clothes vehicle               | in
    follow                | seguir    | living        | people animals                            | a in
    chase                 | perseguir | living        | animals                                   | a in
    catch/caught          | atrapar   | living        | animals                                   | moment in
    help                  | ayudar    | people        | people                                    | in
    hug                   | abrazar   | people        | people animal                             | a in
    visit                 | visitar   | people        | people places                             | with
    remember              | recordar  | people        | people places texts                       | moment
    understand/understood | entender  | people        | texts people                              | moment
    sleep/slept           | dormir    | living        |                                           | in
    run/ran               | correr    | living        |                                           | in to with
    walk                  | caminar   | living        |                                           | in to with
    swim/swam             | nadar     | people animal |                                           | with
    fly/flew              | volar     | flyer         |                                           | to
    play                  | jugar     | living        |                                           | in with
    dance                 | bailar    | people        |                                           | in with
    sing/sang             | cantar    | people flyer  |                                           | in with
    cry                   | llorar    | people        |                                           | in
    work                  | trabajar  | people        |                                           | in with
    study                 | estudiar  | people        |                                           | in with
    travel                | viajar    | people        |                                           | far with
    live                  | vivir     | living        |                                           | state in
    arrive                | llegar    | living        |                                           | moment
    go/went               | ir        | living        |                                           | moment to
    come/came             | venir     | living        |                                           | moment from to
    return                | volver    | living        |                                           | moment from to
"""

ENDINGS: Final = {  # present, preterite, imperfect, gerund
    "ar": ("o as a amos an", "é aste ó amos aron", "aba abas aba ábamos aban", "ando"),
    "er": ("o es e emos en", "í iste ió imos ieron", "ía ías ía íamos ían", "iendo"),
    "ir": ("o es e imos en", "í iste ió imos ieron", "ía ías ía íamos ían", "iendo"),
}
PRESENT: Final = {
    "ver": "veo ves ve vemos ven",
    "oír": "oigo oyes oye oímos oyen",
    "encontrar": "encuentro encuentras encuentra encontramos encuentran",
    "perder": "pierdo pierdes pierde perdemos pierden",
    "pedir": "pido pides pide pedimos piden",
    "conocer": "conozco conoces conoce conocemos conocen",
    "querer": "quiero quieres quiere queremos quieren",
    "preferir": "prefiero prefieres prefiere preferimos prefieren",
    "tener": "tengo tienes tiene tenemos tienen",
    "cerrar": "cierro cierras cierra cerramos cierran",
    "construir": "construyo construyes construye construimos construyen",
    "hacer": "hago haces hace hacemos hacen",
    "traer": "traigo traes trae traemos traen",
    "enviar": "envío envías envía enviamos envían",
    "dar": "doy das da damos dan",
    "mostrar": "muestro muestras muestra mostramos muestran",
    "elegir": "elijo eliges elige elegimos eligen",
    "seguir": "sigo sigues sigue seguimos siguen",
    "perseguir": "persigo persigues persigue perseguimos persiguen",
    "recordar": "recuerdo recuerdas recuerda recordamos recuerdan",
    "entender": "entiendo entiendes entiende entendemos entienden",
    "dormir": "duermo duermes duerme dormimos duermen",
    "volar": "vuelo vuelas vuela volamos vuelan",
    "jugar": "juego juegas juega jugamos juegan",
    "ir": "voy vas va vamos van",
    "venir": "vengo vienes viene venimos vienen",
    "volver": "vuelvo vuelves vuelve volvemos vuelven",
    "poder": "puedo puedes puede podemos pueden",
    "ser": "soy eres es somos son",
    "estar": "estoy estás está estamos están",
}
PRETERITE: Final = {
    "ver": "vi viste vio vimos vieron",
    "oír": "oí oíste oyó oímos oyeron",
    "pedir": "pedí pediste pidió pedimos pidieron",
    "construir": "construí construiste construyó construimos construyeron",
    "hacer": "hice hiciste hizo hicimos hicieron",
    "leer": "leí leíste leyó leímos leyeron",
    "traer": "traje trajiste trajo trajimos trajeron",
    "dar": "di diste dio dimos dieron",
    "elegir": "elegí elegiste eligió elegimos eligieron",
    "seguir": "seguí seguiste siguió seguimos siguieron",
    "perseguir": "perseguí perseguiste persiguió perseguimos persiguieron",
    "dormir": "dormí dormiste durmió dormimos durmieron",
    "ir": "fui fuiste fue fuimos fueron",
    "venir": "vine viniste vino vinimos vinieron",
}
IMPERFECT: Final = {"ser": "era eras era éramos eran"}
GERUND: Final = {
    "pedir": "pidiendo",
    "construir": "construyendo",
    "leer": "leyendo",
    "traer": "trayendo",
    "elegir": "eligiendo",
    "seguir": "siguiendo",
    "perseguir": "persiguiendo",
    "dormir": "durmiendo",
}
FUTURE_STEM: Final = {"oír": "oir", "querer": "querr", "tener": "tendr", "venir": "vendr", "hacer": "har"}


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun; `lemma` is its English singular."""

    lemma: str
    kind: str
    english: ByNumber
    spanish: ByNumber
    feminine: bool
    stressed_a: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `before` holds its forms where it stands before the noun.

    `copula` is what "be" becomes, "" where nothing is said to be so.
    """

    lemma: str
    spanish: ByGender
    before: ByGender | None
    copula: str
    gradable: bool
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forms:
    """A verb in one tense: "plain" or "auxiliary ... after" in English, "finite rest" in Spanish."""

    plain: ByPerson
    auxiliary: ByPerson
    after: str
    finite: ByPerson
    rest: str


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb; `lemma` is its English base form."""

    lemma: str
    forms: dict[Tense, Forms]
    subjects: frozenset[str]
    objects: frozenset[str]
    notes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number above one, in words or digits."""

    english: str
    masculine: str
    feminine: str


def by_person(forms: str) -> ByPerson:
    """Split five forms written in one line."""
    first, second, third, we, they = forms.split()
    return first, second, third, we, they


def english_plural(noun: str) -> str:
    """Spell what a noun's plural and a verb's third person share: box -> boxes, carry -> carries."""
    if re.search(r"(s|sh|ch|x|z|o)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def english_past(verb: str) -> str:
    """Spell the regular past: love -> loved, carry -> carried, hug -> hugged."""
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else _double_last(verb) + "ed"


def english_participle(verb: str) -> str:
    """Spell the -ing form: make -> making, run -> running."""
    return (verb[:-1] if verb.endswith("e") else _double_last(verb)) + "ing"


def _double_last(verb: str) -> str:
    """Double the last consonant of a single short syllable: hug -> hugg(ed)."""
    return verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) else verb


def spanish_plural(word: str) -> str:
    """Spell the plural: gato -> gatos, luz -> luces, león -> leones, rey -> reyes."""
    if word[-1] in "aeiouáé":
        return word + "s"
    if word[-1] == "z":
        return word[:-1] + "ces"
    if word == "joven":  # the stress stays on the o, which now has to be written
        return "jóvenes"
    accented = re.fullmatch(r"(.*)([áéíóú])([ns])", word)
    if accented:
        return accented[1] + accented[2].translate(str.maketrans("áéíóú", "aeiou")) + accented[3] + "es"
    return word + "es"


def spanish_adjective(word: str) -> ByGender:
    """Spell an adjective's four forms: rojo, azul, trabajador, inglés."""
    if word.endswith("o"):
        feminine = word[:-1] + "a"
    elif word.endswith("dor") or word == "español":
        feminine = word + "a"
    elif word.endswith(("és", "án")) and word != "cortés":
        feminine = spanish_plural(word)[:-2] + "a"
    else:
        feminine = word
    return (word, spanish_plural(word)), (feminine, spanish_plural(feminine))


def present(infinitive: str) -> ByPerson:
    """Conjugate the present."""
    return by_person(PRESENT.get(infinitive) or _regular(infinitive, 0))


def preterite(infinitive: str) -> ByPerson:
    """Conjugate the preterite, spelling toqué, llegué and lancé by rule."""
    forms = by_person(PRETERITE.get(infinitive) or _regular(infinitive, 1))
    for ending, spelt in (("cé", "qué"), ("gé", "gué"), ("zé", "cé")):
        if forms[0].endswith(ending):
            return forms[0].removesuffix(ending) + spelt, *forms[1:]
    return forms


def imperfect(infinitive: str) -> ByPerson:
    """Conjugate the imperfect."""
    return by_person(IMPERFECT.get(infinitive) or _regular(infinitive, 2))


def future(infinitive: str) -> ByPerson:
    """Conjugate the future."""
    stem = FUTURE_STEM.get(infinitive, infinitive)
    return by_person(" ".join(stem + ending for ending in ("é", "ás", "á", "emos", "án")))


def gerund(infinitive: str) -> str:
    """Spell the gerund."""
    return GERUND.get(infinitive) or _regular(infinitive, 3)


def _regular(infinitive: str, row: int) -> str:
    stem, ending = infinitive[:-2], infinitive[-2:]
    return " ".join(stem + form for form in ENDINGS[ending][row].split())


_DO = by_person("do do does do do")
_DID = by_person("did did did did did")
_WILL = by_person("will will will will will")
_CAN = by_person("can can can can can")
_AM = by_person("am are is are are")
_WAS = by_person("was were was were were")


def _each(words: ByPerson, following: str) -> ByPerson:
    first, second, third, we, they = (f"{word} {following}" for word in words)
    return first, second, third, we, they


def _verb_forms(base: str, past: str, infinitive: str, notes: frozenset[str]) -> dict[Tense, Forms]:
    head, space, particle = base.partition(" ")  # "look for" inflects its first word
    third, past, participle = (
        word + space + particle
        for word in ("has" if head == "have" else english_plural(head), past, english_participle(head))
    )
    spanish_past = imperfect(infinitive) if "state" in notes else preterite(infinitive)
    forms: dict[Tense, Forms] = {
        "present": Forms((base, base, third, base, base), _DO, base, present(infinitive), ""),
        "past": Forms((past,) * 5, _DID, base, spanish_past, ""),
        "future": Forms(_each(_WILL, base), _WILL, base, future(infinitive), ""),
    }
    if "state" in notes:
        return forms
    wish, wants = f"want to {base}", by_person("want want wants want want")
    forms["can"] = Forms(_each(_CAN, base), _CAN, base, present("poder"), infinitive)
    forms["want"] = Forms(_each(wants, f"to {base}"), _DO, wish, present("querer"), infinitive)
    forms["wanted"] = Forms((f"wanted to {base}",) * 5, _DID, wish, imperfect("querer"), infinitive)
    if "moment" not in notes:
        forms["progressive"] = Forms(_each(_AM, participle), _AM, participle, present("estar"), gerund(infinitive))
    return forms


def _be(now: ByPerson, before: ByPerson, later: ByPerson) -> Verb:
    """Build a "be": it needs no "do", and its past is a state's, the imperfect."""
    forms: dict[Tense, Forms] = {
        "present": Forms(_AM, _AM, "", now, ""),
        "past": Forms(_WAS, _WAS, "", before, ""),
        "future": Forms(_each(_WILL, "be"), _WILL, "be", later, ""),
    }
    return Verb("be", forms, frozenset(), frozenset(), frozenset({"no_a"}))


def kinds(names: str) -> frozenset[str]:
    """Resolve kinds and groups of kinds, dropping words that are neither."""
    known = {name.split()[0] for name in NOUN_TABLE}
    return frozenset(kind for name in names.split() for kind in GROUPS.get(name, name).split()) & known


def _read_nouns() -> tuple[Noun, ...]:
    nouns = []
    for heading, row in NOUN_TABLE.items():
        kind, gender = heading.split()
        for entry in row.split(", "):
            english, spanish = entry.split()
            stressed_a, spanish = spanish.startswith("*"), spanish.lstrip("*")
            singular, _, plural = english.partition("/")
            spanish, _, spanish_many = spanish.partition("/")
            by_number = (spanish, spanish_many or spanish_plural(spanish))
            forms = (singular, plural or english_plural(singular))
            nouns.append(Noun(singular, kind, forms, by_number, gender == "f", stressed_a))
    return tuple(nouns)


def _read_adjectives() -> tuple[Adjective, ...]:
    adjectives = []
    for row in ADJECTIVE_TABLE.strip().splitlines():
        english, spanish, copula, suits = row.split(maxsplit=3)
        gradable = "plain" not in suits.split()
        forms = spanish_adjective(spanish)
        copula = copula.strip("-")
        adjectives.append(Adjective(english, forms, BEFORE_NOUN.get(english), copula, gradable, kinds(suits)))
    return tuple(adjectives)


def _read_verbs() -> tuple[Verb, ...]:
    verbs = []
    for row in VERB_TABLE.strip().splitlines():
        english, infinitive, subjects, objects, marks = (cell.strip() for cell in row.split("|"))
        base, _, past = english.replace("_", " ").partition("/")
        notes = frozenset(marks.split())
        forms = _verb_forms(base, past or english_past(base.split()[0]), infinitive, notes)
        verbs.append(Verb(base, forms, kinds(subjects), kinds(objects), notes))
    return tuple(verbs)


ENGLISH_NUMBERS: Final = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
ENGLISH_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
SPANISH_NUMBERS: Final = (
    "un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiún veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
)
SPANISH_TENS: Final = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"


def _count(below: str, tens: str, link: str) -> list[str]:
    """Write the numbers from 1 to 99, as they stand before a masculine noun."""
    numbers = below.split()
    units = numbers[:9]
    for ten in tens.split():
        numbers += [ten, *(f"{ten}{link}{unit}" for unit in units)]
    return numbers


def _in_words() -> tuple[Numeral, ...]:
    """Write the numbers from 2 to 99; in Spanish those in "one" agree with the noun: veintiuna casas."""
    rows = zip(_count(ENGLISH_NUMBERS, ENGLISH_TENS, "-"), _count(SPANISH_NUMBERS, SPANISH_TENS, " y "), strict=True)
    return tuple(Numeral(english, spanish, re.sub("[uú]n$", "una", spanish)) for english, spanish in rows)[1:]


NOUNS: Final = _read_nouns()
ADJECTIVES: Final = _read_adjectives()
VERBS: Final = _read_verbs()
BE_SER: Final = _be(present("ser"), imperfect("ser"), future("ser"))
BE_ESTAR: Final = _be(present("estar"), imperfect("estar"), future("estar"))
THERE_BE: Final = _be(by_person("hay " * 5), by_person("había " * 5), by_person("habrá " * 5))  # hay never agrees
IN_WORDS: Final = _in_words()
IN_DIGITS: Final = tuple(Numeral(str(number), str(number), str(number)) for number in range(2, 100))
