"""Names that the columns of people's files have, in several languages, and what such columns hold."""

import re
from collections.abc import Mapping
from typing import Final

# Whole words of a name count: `review_text` and `reviewText` are texts.
NAMES: Final[Mapping[str, frozenset[str]]] = {
    meaning: frozenset(names.split())
    for meaning, names in {
        "text": "text texts sentence sentences review reviews comment comments tweet content body message "
        "description title headline abstract document utterance query paragraph premise texto texte testo "
        "kommentar satz beschreibung nachricht inhalt titel rezension comentario reseña oración mensaje "
        "avis commentaire phrase описание текст отзыв комментарий предложение 文本 内容 评论 句子 正文 "
        "标题 微博 新闻 テキスト 本文 文章 レビュー 문장 텍스트 리뷰 نص تعليق",
        "label": "label labels class classes category categories sentiment topic tag intent emotion target polarity "
        "species gold genre verdict department klasse kategorie stimmung thema etiqueta clase "
        "categoría sentimiento étiquette classe catégorie метка класс категория тональность тема 标签 类别 "
        "分类 情感 ラベル カテゴリ 레이블 라벨 تصنيف",
        "number": "rating ratings score scores stars star price value number count amount grade similarity "
        "bewertung note punkte preis sterne wert anzahl puntuación precio valor nota prix valeur оценка "
        "рейтинг цена балл 评分 分数 价格 星级 得分 評価 点数 価格 점수 평점 가격 سعر",
        "image": "image images img picture photo path file filename file_name filepath bild foto datei imagen "
        "image_path fichier изображение файл 图片 图像 路径 文件 画像 이미지 صورة",
        "question": "question questions frage pregunta вопрос 问题 質問 질문 سؤال",
        "answer": "answer answers antwort respuesta réponse ответ 答案 回答 答え 답변 جواب",
        "context": "context passage paragraph contexto kontext contexte контекст 上下文 段落 文脈 문맥",
        "caption": "caption captions alt description bildunterschrift beschreibung leyenda légende подпись 描述 说明 "
        "キャプション 説明 캡션 설명",
        "source": "source src input quelle fuente origen 原文 源 入力 원문",
        "target": "target tgt trg output translation ziel übersetzung traducción destino traduction перевод 译文 "
        "翻译 目标 翻訳 번역",
        "start": "start answer_start begin offset position",
        "id": "id ids idx index uuid guid key row nr no nummer № номер 编号 序号 番号 번호 url link",
        "date": "date datum fecha time timestamp created дата 日期 时间 日付 날짜 year jahr",
        "words": "tokens words wörter слова 词 单词",
        "language": "en eng english englisch inglés anglais английский 英文 英语 英語 영어 de ger deu german "
        "deutsch 德语 fr fra french français es spa spanish español it italian italiano pt portuguese "
        "português nl dutch ru rus russian русский 俄语 uk ukrainian pl polish cs czech tr turkish hi "
        "hindi ar arabic عربي zh chinese 中文 ja japanese 日本語 日语 ko korean 한국어 sv swedish da danish "
        "fi finnish hu hungarian ro romanian el greek",
        "tags": "tags ner_tags pos_tags upos xpos ner pos bio iob labels chunk_tags",
    }.items()
}
# What columns of each role may hold, by the keys of `NAMES`; of other roles texts, or what the role is called.
_OF_ROLES: Final[Mapping[str, frozenset[str]]] = {
    role: frozenset(meanings.split())
    for role, meanings in {
        "source": "source language words",
        "target": "target language tags",
        "text": "text context words question source",
        "second": "text context answer target question",
        "label": "label tags number",
        "number": "number label",
        "question": "question text",
        "answer": "answer label",
        "start": "start",
        "image": "image id",
        "group": "label",
    }.items()
}


def names_role(name: str, role: str, *, whole: bool = False) -> bool:
    """Whether a column of this role may have this name, or with `whole` exactly this name."""
    fitting = meanings(name) & _OF_ROLES.get(role, {role, "text"})
    return any(not whole or name.strip().casefold() in NAMES[meaning] for meaning in fitting)


def meanings(name: int | str) -> frozenset[str]:
    """Return what a column of this name may hold, by the keys of `NAMES`; nothing for a number."""
    if not isinstance(name, str):
        return frozenset()
    whole = name.strip().casefold()
    words = {whole, *re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold())}
    found = {meaning for meaning, known in NAMES.items() if words & known}
    if "language" in found and not {whole, re.split(r"[_.\s-]", whole)[-1]} & NAMES["language"]:
        found.remove("language")  # codes such as `it` and `de` are words too
    return frozenset(found)
