"""The same signs of a workload in languages other than English, tried only where a text is not English."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import re
from typing import Final

# What a program is called.
CODE: Final = re.compile(
    r"\b(?:funzione|función|função|fonction|funktion|functie|funkcj\w+|fonksiyon\w*|функци\w+|programm\w*|"
    r"programma|programa|programme|программ\w*|skript|скрипт\w*|script|kod\w*|codice|código|codigo|"
    r"quelltext|код\w*|klasse|clase|classe|classi|класс\w*|requête|consulta|abfrage|запрос\w*|kommando|"
    r"комманд\w*|команд\w*|algorithm\w*|algoritm\w*|алгоритм\w*|đoạn code|hàm|fehler|erreur|traceback|"
    r"typeerror)\b"
    r"|代码|程序|函数|算法|编程|脚本|正则|数据库|查询语句|コード|関数|プログラム|スクリプト|クラス|"
    r"코드|함수|프로그램|스크립트|클래스|دالة|كود|برنامج|कोड|"
    r"फ़ंक्शन|फंक्शन|प्रोग्राम|โค้ด|ฟังก์ชัน|โปรแกรม|কোড|ফাংশন|파이썬|パイソン|питон\w*|بايثون|जावा|पायथन"
)
# Words that ask for it to be made, changed or explained.
CODE_MADE: Final = re.compile(
    r"\b(?:schreib\w*|erstell\w*|erklär\w*|zeig\w*|korrigier\w*|écri\w*|crée\w*|corrige\w*|expli\w*|"
    r"montre\w*|escrib\w*|escrev\w*|crea\w*|cria\w*|scriv\w*|corregg\w*|spieg\w*|come|cómo|como|comment|"
    r"wie|hoe|jak|как|napisz|schrijf|yaz\w*|напиши\w*|исправ\w*|объясн\w*|перепиш\w*|реализуй\w*|viết|"
    r"giải thích|sửa|ayud\w*|quiero|necesito|brauche|möchte|j'ai besoin|preciso|нуж\w+|puedo|posso|puis-je|"
    r"kann ich|можно|kodunu)\b"
    r"|需要|필요|欲しい|怎么|如何|どう|어떻게|写|编写|实现|解释|修改|用|書い|作成|直し|説明|작성|수정|"
    r"설명|만들|اكتب|اشرح|लिख|সংশোধন|লিখ|เขียน|แก้|"
    r"อธิบาย"
)
# Questions after a number, and orders to calculate or to prove.
MATH_TASK: Final = re.compile(
    r"\bcu[aá]nt[oa]s?\b|\bcombien\b|\bwie ?viele?\b|\bwie (?:groß|lang|hoch|weit|alt|schnell|teuer)\b|"
    r"\bquant[oiae]s?\b|\bhoeveel\b|\bile\b|\bkaç\w*|\bсколько\b|\bкакое количество\b|\bnay? nhiêu\b|"
    r"\bbao nhiêu\b|\b\w*ngapi\b|\bhány|\bmennyi\b|\bkolik\b|\bcâte\b|\bberapa\b|\bmonta\b|\bhur många\b"
    r"|\bcalcul\w*|\bcalcola\w*|\bberechne?\w*|\brésou\w*|\bresuelv\w*|\bresolv\w*|\brisolv\w*|\bwyznacz\b|"
    r"\boblicz\w*|\bhesapla\w*|\bвычисли\w*|\bреши\w*|\bнайди\w*|\bдокажи\w*|\bпосчитай\w*|\bdémontr\w*|"
    r"\bdemuestr\w*|\bdemonstr\w*|\bbeweise\w*|\bzeige,? dass\b|\bdérivée\b|\bderivada\b|\bableitung\b|"
    r"\bquelle (?:distance|est la (?:valeur|probabilité))|\bbereken\w*|\bloes\b|\bprobabili\w+|"
    r"\bwahrscheinlichkeit\b|\bпроизводн\w+|\bвероятност\w+|\bflächeninhalt\b|\bумнож\w*"
    r"|多少|几[个只本人天元米支张块枝颗条千袋次种棵件盒页分小时]|求|计算|解方程|证明|等于|概率|則|则|"
    r"いくつ|何(?:[人個円枚本匹時分冊回キ倍歳]|ページ|パーセント|メートル|ドル)|全部で|"
    r"いくら|求め|計算|何%|証明|몇|얼마|구하|계산|증명|كم|احسب|أوجد|ما (?:ثمن|مساحة|هو ثمن)|فما|कितन|"
    r"ज्ञात|गणना|কত|নির্ণয়|"
    r"เท่าไ|เท่าใด|กี่|จงหา|คำนวณ|எத்தனை|ఎన్ని|πόσ|υπολόγισ|כמה"
)
# Terms of mathematics.
MATH_TERMS: Final = re.compile(
    r"方程|函数|三角形|椭圆|双曲线|抛物线|数列|向量|集合|概率|平方|立方|面积|体积|周长|半径|直径|圆|"
    r"复数|不等式|积分|导数|极限|矩阵|证明|三角|座標|半径|面積|体積|確率|関数|"
    r"方程式|微分|积分|積分|넓이|확률|방정식|함수|삼각형|미분|"
    r"مساحة|مثلث|معادلة|احتمال|त्रिभुज|क्षेत्रफल|समीकरण|प्रायिकता|\bdreieck|\brechteck|\bumfang|"
    r"\bgleichung|\btriangle|\béquation|\baire\b|\btriángulo|\becuación|\bárea|\bтреугольник|\bуравнени|"
    r"\bплощад|\bравнобедрен|\btriangolo|\bequazione|\bderivata|\btrójkąt|\brównani|\büçgen|\bdenklem|"
    r"\bsayı|\bkat[ıi]n|\bequação|\btriângulo"
)

# Requests for a translation.
TRANSLATION: Final = re.compile(
    r"\bübersetz|\btradu(?:is|ire|isez|ction|c[ei]|ci[rd]|z|zca|cción|zione|ção|ce\b)|\bперевед|"
    r"\bперевод\b|翻译|翻譯|翻訳|"
    r"번역|ترجم|अनुवाद|অনুবাদ|แปล|\bdịch\b|\bçevir|\bprzetłumacz|\bvertaal|\böversätt|\btafsiri"
)

# Orders of a deed, and questions after something that only a tool can know.
TOOL_ACTION: Final = re.compile(
    r"\b(?:schick\w*|buch\w*|stell\w*|bestell\w*|such\w*|envoie\w*|réserve\w*|cherche\w*|envía\w*|"
    r"reserva\w*|busca\w*|invia\w*|prenota\w*|cerca|envia\w*|отправ\w*|закаж\w*|найди\w*|поставь\w*|"
    r"включи\w*|wyślij|znajdź|gönder\w*|bul\w*)\b|hava durumu|procur\w*|необходимо|погода|прогноз|wetter|"
    r"météo|weather|查|帮我|订|天气|天気|날씨|探し|セットして|お願いします|预订|发送|设置|打开|送って|"
    r"予約|調べ|検索|確認|보내|예약|찾아|알려|أرسل|احجز|ابحث|"
    r"भेज|बुक|খুঁজ|ส่ง|จอง"
)
