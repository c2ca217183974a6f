"""Stop words, letters and names of the languages that are told apart."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

from typing import Final


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Reads lines of ``code: word word``; a code may have several lines."""
    table: dict[str, tuple[str, ...]] = {}
    for line in text.split("\n"):
        code, _, words = line.partition(": ")
        table[code] = (*table.get(code, ()), *words.split(" "))
    return table


def _inverse(table: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """From each word to the languages that have it."""
    words = {word for found in table.values() for word in found}
    return {word: tuple(code for code, found in table.items() if word in found) for word in words}


BY_WORD: Final = _inverse(
    _table(
        """\
en: as any following make without all there has was were they his her its but so than then when where why
en: about into out up some more these those need want let us our each between
en: the of and to is in that it for you with this are was what how can be have not from your which my
en: who do on at by an or if me please does will would should we write give a i
es: el la los las de que y en un una por con para es del se lo como qué cómo cuál está más pero su al
es: son tiene cuántos cuántas cuánto me mi puedes escribe sobre
fr: le la les des et est un une dans que qui pour pas du en sur avec ce cette il elle je vous nous sont
fr: au aux plus quel quelle comment combien mon ma peux moi écris d l c j
de: der die das und ist nicht ein eine zu den mit von für auf im dem des sich wie ich sie es wird sind
de: auch was wer warum eines einen einer kann bitte mir schreibe wieviel viele mein
it: il lo gli di che è un una per con del della dei delle non sono come cosa quanti quanto qual nel alla
it: al ha si da mi scrivi anche questo questa le e i
pt: o os as de que e um uma para com não em do da dos das no na por como mais qual quantos quanto é são
pt: foi você eu meu minha escreva se ao
nl: de het een en van is dat niet op te zijn met voor in hoe wat wie ik je er aan ook maar om hoeveel
nl: mijn kan schrijf naar dit deze
sv: och att det är en ett som på för av med den till inte jag hur vad kan du om har skriv mig min från i
sv: var
da: og at det er en et som på for af med den til ikke jeg hvordan hvad kan du om har skriv mig min fra i
da: hvor
no: og at det er en et som på for av med den til ikke jeg hvordan hva kan du om har skriv meg min fra i
no: hvor
fi: ja on ei että se mitä miten kuinka ovat mutta oli kun myös minun voi tai jos mikä hän ole
pl: i w na nie się jest że do z jak co to dla są czy ile od po jego przez który która które napisz mi
pl: mój
cs: a je na se že v ve jak co pro s do kolik jsou nebo který která které byl ale jeho mi napiš po z
ro: și este de la în un o pe cu nu ce cum care pentru din sunt mai sa câte să al ale dar
hu: a az és egy hogy nem is van mi hány milyen ez meg azt de volt mint csak kell írj
tr: ve bir bu için ne nasıl de da ile mi kaç olarak çok daha var ben bana olan ise kadar gibi hangi
id: yang dan di untuk dengan ini itu apa adalah dari pada tidak bagaimana saya ke berapa dalam akan atau
id: tolong
vi: là và của có cho không được trong một các những với này như thế nào bao nhiêu tôi hãy khi để đã
vi: người
sw: na ya wa kwa ni katika za la kuwa hii je ngapi yake kila alikuwa ana lakini kama cha watu"""
    )
)
"""From a stop word to the languages that use it."""

BY_LETTER: Final = _inverse(
    {
        code: tuple(letters)
        for code, (letters,) in _table(
            """\
es: ñ¿¡
fr: œçêèù
de: ßäöü
pt: ãõç
sv: åäö
da: åæø
no: åæø
fi: äö
pl: łżźćńśąę
cs: ěřůčšž
ro: țșăâî
hu: őűöü
tr: ğışüöç
vi: ơưđăạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"""
        ).items()
    }
)
"""From a letter that English lacks to the languages that use it."""

_NAMES: Final = _table(
    """\
en: english anglais inglés inglese inglês englisch englische engels английский английском 英语 英文 英語
en: 영어 الإنجليزية अंग्रेज़ी
es: spanish espagnol español castellano spagnolo espanhol spanisch spanische spaans испанский испанском
es: 西班牙语 西班牙文 スペイン語 스페인어 الإسبانية
fr: french français francés francese francês französisch französische frans французский французском 法语
fr: 法文 フランス語 프랑스어 الفرنسية
de: german allemand alemán tedesco alemão deutsch deutsche duits немецкий немецком 德语 德文 ドイツ語
de: 독일어 الألمانية
it: italian italien italiano italienisch italienische italiaans итальянский итальянском 意大利语
it: イタリア語 이탈리아어
pt: portuguese portugais portugués portoghese português portugiesisch portugiesische португальский
pt: 葡萄牙语 ポルトガル語
nl: dutch néerlandais neerlandés olandese holandês niederländisch niederländische nederlands голландский
nl: 荷兰语 オランダ語
ru: russian russe ruso russo russisch russische русский русском 俄语 俄文 ロシア語 러시아어
zh: chinese mandarin chinois chino cinese chinês chinesisch chinesische китайский китайском 中文 汉语
zh: 中国語 중국어 الصينية
ja: japanese japonais japonés giapponese japonês japanisch japanische японский японском 日语 日文 日本語
ja: 일본어
ko: korean coréen coreano koreanisch koreanische корейский 韩语 韓国語 한국어
ar: arabic arabe árabe arabo arabisch arabische арабский 阿拉伯语 アラビア語 العربية
hi: hindi
bn: bengali bangla
tr: turkish turc turco türkisch türkische türkçe турецкий 土耳其语 トルコ語
pl: polish polonais polaco polacco polonês polnisch polnische polski польский 波兰语
sv: swedish suédois sueco svedese schwedisch schwedische svenska шведский
da: danish danois danés danese dänisch dänische dansk
no: norwegian norvégien noruego norvegese norwegisch norwegische norsk
fi: finnish finnois finlandés finlandese finnisch finnische suomeksi suomi
cs: czech tchèque checo ceco tschechisch tschechische česky čeština
el: greek grec griego greco grego griechisch griechische греческий
he: hebrew hébreu hebreo ebraico hebräisch hebräische
uk: ukrainian ukrainien ucraniano ucraino ukrainisch ukrainische українською украинский
vi: vietnamese vietnamien vietnamita vietnamesisch tiếng việt
th: thai thaï tailandés thailändisch
id: indonesian indonésien indonesio indonesiano indonesisch
hu: hungarian hongrois húngaro ungherese ungarisch
ro: romanian roumain rumano rumeno rumänisch
sw: swahili kiswahili
fa: persian farsi
ur: urdu
ta: tamil
te: telugu
ka: georgian
hy: armenian
bg: bulgarian
am: amharic
km: khmer
my: burmese"""
)
BY_NAME: Final = {name: code for code, names in _NAMES.items() for name in names}
"""From the name of a language, in any of several, to its code."""

LANGUAGES: Final = frozenset(_NAMES)
"""The closed set of codes."""
