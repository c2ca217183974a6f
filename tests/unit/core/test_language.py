# ruff: noqa: RUF001 - letters of other alphabets are the subject
from __future__ import annotations

import pytest

from gateway.core.language import SAMPLE_CHARS, UNKNOWN, detect, requested
from gateway.core.language_words import LANGUAGES


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("What is the best way to keep bread fresh?", "en"),
        ("¿Cuál es la mejor manera de conservar el pan?", "es"),
        ("Comment puis-je garder le pain frais pendant une semaine ?", "fr"),
        ("Wie kann ich das Brot am besten frisch halten?", "de"),
        ("Come posso conservare il pane per una settimana?", "it"),
        ("Como posso conservar o pão por uma semana?", "pt"),
        ("Hoe kan ik het brood een week vers houden?", "nl"),
        ("Jak mogę przechowywać chleb przez tydzień?", "pl"),
        ("Ekmeği bir hafta taze tutmak için ne yapmalıyım?", "tr"),
        ("Làm thế nào để giữ bánh mì tươi trong một tuần?", "vi"),
        ("Как сохранить хлеб свежим на неделю?", "ru"),
        ("Як зберегти хліб свіжим протягом тижня?", "uk"),
        ("Как се пази хлябът пресен една седмица?", "bg"),
        ("怎样让面包保持新鲜？", "zh"),
        ("パンを新鮮に保つ方法は？", "ja"),
        ("빵을 신선하게 보관하는 방법은?", "ko"),
        ("كيف أحافظ على الخبز طازجًا؟", "ar"),
        ("چگونه نان را تازه نگه دارم؟ گرم", "fa"),
        ("روٹی کو تازہ کیسے رکھیں؟", "ur"),
        ("Πώς κρατάω το ψωμί φρέσκο;", "el"),
        ("रोटी को ताज़ा कैसे रखें?", "hi"),
        ("จะเก็บขนมปังให้สดได้อย่างไร", "th"),
        ("ຈອດລົດໃກ້ສະໜາມກິລາໄດ້ບ່ອນໃດ", "lo"),
        ("સ્ટેડિયમ પાસે ક્યાં પાર્ક કરી શકું?", "gu"),
        ("ਸਟੇਡੀਅਮ ਦੇ ਨੇੜੇ ਕਿੱਥੇ ਪਾਰਕ ਕਰਾਂ?", "pa"),
        ("ଷ୍ଟାଡିୟମ ପାଖରେ କେଉଁଠାରେ ରଖିବି?", "or"),
        ("ಕ್ರೀಡಾಂಗಣದ ಬಳಿ ಎಲ್ಲಿ ನಿಲ್ಲಿಸಬಹುದು?", "kn"),
        ("സ്റ്റേഡിയത്തിനടുത്ത് എവിടെ പാർക്ക് ചെയ്യാം?", "ml"),
        ("ක්‍රීඩාංගණය ළඟ කොහෙද නවත්වන්නේ?", "si"),
        ("x = 3", UNKNOWN),
        ("", UNKNOWN),
        ("12345 !!", UNKNOWN),
    ],
)
def test_names_the_language(text: str, code: str) -> None:
    assert detect(text) == code


def test_the_first_line_decides_where_it_tells() -> None:
    assert (
        detect("Bitte erkläre mir diesen Code:\nfor the value in this list of values that are there") == "de"
    )


def test_the_text_below_decides_where_the_first_line_does_not_tell() -> None:
    assert detect("###\nComment puis-je garder le pain ?") == "fr"


def test_reads_no_more_than_a_sample() -> None:
    assert detect("1" * SAMPLE_CHARS + " Comment garder le pain frais") == UNKNOWN


def test_a_quoted_word_of_another_script_does_not_decide() -> None:
    assert detect("What does the greeting 你好 mean when it is said to a stranger in the street?") == "en"


def test_a_letter_alone_is_a_word_only_where_there_are_no_numbers() -> None:
    assert detect("calma y paz") == UNKNOWN
    assert detect("¿calma y paz?") == "es"
    assert detect("y = 2x + e, o - a = 5") == UNKNOWN


def test_single_letters_are_no_evidence() -> None:
    assert detect("y = 2x - 5, y = -x + 3") == UNKNOWN


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Please answer in Spanish.", "es"),
        ("Translate the following sentence into German: good morning", "de"),
        ("Could you reply to this in plain English?", "en"),
        ("How do you say thank you in Korean?", "ko"),
        ("I need the Greek version of this sentence", "el"),
        ("English -> Turkish: good morning", "tr"),
        ("Réponds en anglais, s'il te plaît", "en"),
        ("Übersetze ins Französische: guten Tag", "fr"),
        ("Schreib die Antwort bitte auf Italienisch", "it"),
        ("请把这句话翻译成法语", "fr"),
        ("これをドイツ語に訳してください", "de"),
        ("Why do German trains run late?", None),
        ("怎样让面包保持新鲜？", None),
        ("What is the best way to keep bread fresh?", None),
    ],
)
def test_names_the_language_asked_for(text: str, code: str | None) -> None:
    assert requested(text) == code


def test_every_answer_is_of_the_closed_set() -> None:
    assert {detect("Wie geht es dir?"), requested("answer in Thai")} <= LANGUAGES
    assert UNKNOWN not in LANGUAGES


def test_a_sign_of_no_script_decides_nothing() -> None:
    assert detect("What is the best way to keep the bread fresh\uff1f") == "en"


def test_a_foreign_word_in_a_sentence_does_not_make_it_foreign() -> None:
    assert (
        detect("The word Ж appears but once in this long sentence about the letters of an alphabet.") == "en"
    )
