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
en: am no over come car due war care ten face comment met sense till son sin die men var as any following
en: make without all there has was were they his her its but so than then when where why about into out up
en: some more these those need want let us our each between the of and to is in that it for you with this
en: are what how can be have not from your which my who do on at by an or if me please does will would
en: should we write give a i
es: el la los las de que y en un una por con para es del se lo como qué cómo cuál está más pero su al son
es: tiene cuántos cuántas cuánto me mi puedes escribe sobre cuáles dónde cuándo quién porque sin entre hasta
es: desde muy todo todos esta este estos estas ese eso mis tus sus nos les han hay fue ser hacer tener dos
es: tres cuatro cinco dame explica haz necesito puedo quiero cada otro otra también calcula resuelve
es: encuentra halla demuestra
fr: le la les des et est un une dans que qui pour pas du en sur avec ce cette il elle je vous nous sont au
fr: aux plus quel quelle comment combien mon ma peux moi écris d l c j quels quelles pourquoi où quand mais
fr: ou donc car sans sous entre vers chez leur leurs mes tes ses son sa ont été avoir être fait faire peut
fr: veux suis es sommes deux trois quatre cinq très tout tous toute comme donne explique puis voici quoi
fr: votre nos résous calcule écrivez trouve montre
de: der die das und ist nicht ein eine zu den mit von für auf im dem des sich wie ich sie es wird sind auch
de: was wer warum eines einen einer kann bitte mir schreibe wieviel viele mein welche welcher welches
de: welchen einem seine seinen ihre ihren unser unsere zwei drei vier fünf wenn dann über unter nach bei aus
de: nur noch schon sehr mehr kein keine keinen hat haben war waren werden wurde kannst könnte soll sollte
de: muss müssen möchte gib erkläre nenne gibt wo wann weil dass diese dieser dieses diesen mich dich uns
de: euch meine meinen beim zum zur vom ins bis um löse berechne bestimme beweise
it: il lo gli di che è un una per con del della dei delle non sono come cosa quanti quanto qual nel alla al
it: ha si da mi scrivi anche questo questa le e i quali dove quando chi perché senza tra fra molto tutto
it: tutti mio mia tuo sua suoi nostro hanno ho essere fare due tre quattro cinque dammi spiega faccio degli
it: nella dallo sulla questi queste ogni ancora risolvi calcola trova dimostra
pt: o os as de que e um uma para com não em do da dos das no na por como mais qual quantos quanto é são foi
pt: você eu meu minha escreva se ao quais onde quando quem porque sem sobre entre até muito tudo todos esta
pt: este isso isto meus seus nos têm há ser fazer ter dois três quatro cinco dê explique crie pela pelo
pt: também uns umas resolva calcule encontre prove
nl: de het een en van is dat niet op te zijn met voor in hoe wat wie ik je er aan ook maar om hoeveel mijn
nl: kan schrijf naar dit deze welke waar wanneer waarom zonder tussen over bij uit nog wel geen heeft hebben
nl: was waren worden wordt twee drie vier vijf geef leg maak mij ons uw hun dan toch als kun moet bereken
nl: los
sv: och att det är en ett som på för av med den till inte jag hur vad kan du om har skriv mig min från i var
sv: vilka vilken vilket när varför utan mellan efter finns ska måste hade två tre fyra ge förklara mitt mina
sv: dina sina detta dessa bara mycket lös beräkna
da: og at det er en et som på for af med den til ikke jeg hvordan hvad kan du om har skriv mig min fra i
da: hvor hvilke hvilken hvornår hvorfor uden mellem efter findes skal må havde to tre fire fem giv forklar
da: mit mine dine dette disse bare meget der beregn løs
no: og at det er en et som på for av med den til ikke jeg hvordan hva kan du om har skriv meg min fra i hvor
no: hvilke hvilken når hvorfor uten mellom etter finnes skal må hadde to tre fire gi forklar mitt mine dine
no: dette disse bare mye lag finn
fi: ja on ei että se mitä miten kuinka ovat mutta oli kun myös minun voi tai jos mikä hän ole mitkä missä
fi: milloin miksi ilman välillä sekä joka jotka kirjoita selitä anna kerro kaksi kolme neljä tämä tämän nämä
fi: sen hänen meidän olla voisi paljonko luku yksi laske ratkaise
pl: i w na nie się jest że do z jak co to dla są czy ile od po jego przez który która które napisz mi mój
pl: jakie jaki jaka jakich gdzie kiedy dlaczego kto bez między przed nad pod oraz ale tylko bardzo jej ich
pl: nasz dwa trzy cztery pięć tym tego tej te ten ta ma mam być zrobić wyjaśnij podaj można oblicz rozwiąż
pl: udowodnij popraw
cs: a je na se že v ve jak co pro s do kolik jsou nebo který která které byl ale jeho mi napiš po z jaké
cs: jaký jaká kde kdy proč kdo bez mezi před nad pod jen velmi jejich náš dva tři čtyři pět tento tato toto
cs: mám být udělat vysvětli dej mohu můžu vypočítej vyřeš oprav kam
ro: și este de la în un o pe cu nu ce cum care pentru din sunt mai sa câte să al ale dar unde când cine fără
ro: între după despre foarte toate tot meu mea lui ei nostru au face doi trei patru cinci acest această
ro: scrie explică rezolvă calculează
hu: a az és egy hogy nem is van mi hány milyen ez meg azt de volt mint csak kell írj hol mikor miért ki
hu: nélkül között után előtt nagyon minden vagy lesz kettő három négy öt írja adj mit amely aki mennyi
hu: hogyan készül számítsd oldd
tr: ve bir bu için ne nasıl de da ile mi kaç olarak çok daha var ben bana olan ise kadar gibi hangi nerede
tr: nerde zaman neden niçin kim olmadan arasında sonra önce her benim senin onun bizim yok oldu olur iki üç
tr: dört beş yaz açıkla ver nedir mısın misin musun nereler şu bul hesapla çöz kaçtır anlama geliyor
id: yang dan di untuk dengan ini itu apa adalah dari pada tidak bagaimana saya ke berapa dalam akan atau
id: tolong mana kapan mengapa kenapa siapa tanpa antara setelah sebelum sangat semua saja juga bisa harus
id: buat buatkan jelaskan dua tiga empat lima sebuah seorang cara selesaikan hitung tulis tentukan
vi: là và của có cho không được trong một các những với này như thế nào bao nhiêu tôi hãy khi để đã người
vi: đâu sao tại vì giữa sau trước rất tất cả cũng phải viết giải thích hai ba bốn năm cách tìm tính
ca: què és una els les amb per com quin quina quins quants quantes més però això aquest aquesta sense molt
ca: fer puc tinc em meu meva escriu dels al
sw: niambie andika eleza ngapi nini kwamba na ya wa kwa ni katika za la kuwa hii je yake kila alikuwa ana
sw: lakini kama cha watu"""
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
ca: catalan català catalán catalano katalanisch
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

_BY_SCRIPT: Final = ("gu", "pa", "or", "kn", "ml", "si", "lo")
"""Languages that are known by their scripts alone: the model was trained without their names."""

LANGUAGES: Final = frozenset(_NAMES).union(_BY_SCRIPT)
"""The closed set of codes."""
