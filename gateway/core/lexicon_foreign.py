"""The same signs of a workload in languages other than English, tried only where a text is not English."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import re
from typing import Final

# What a program is called.
CODE: Final = re.compile(
    r"\b(?:(?:funzione|función|função|fonction|funktion|functie|funkcj\w+|fonksiyon\w*|функци\w+|"
    r"programm\w*|programma|programa|programme|программ\w*|skript|скрипт\w*|script|kod\w*|codice|código|"
    r"codigo|quelltext|код\w*|klasse|clase|classe|classi|класс\w*|requête|consulta|abfrage|запрос\w*|"
    r"kommando|комманд\w*|команд\w*|algorithm\w*|algoritm\w*|алгоритм\w*|đoạn code|hàm|fehler|erreur|"
    r"traceback|typeerror)\b)"
    r"|代码|程序|函数|算法|编程|脚本|正则|数据库|查询语句|コード|関数|プログラム|スクリプト|クラス"
    r"|코드|함수|프로그램|스크립트|클래스|دالة|كود|برنامج|कोड|फ़ंक्शन|फंक्शन|प्रोग्राम|โค้ด|ฟังก์ชัน"
    r"|โปรแกรม|কোড|ফাংশন|파이썬|パイソン|питон\w*|بايثون|जावा|पायथन"
)
# Words that ask for it to be made, changed or explained.
CODE_MADE: Final = re.compile(
    r"\b(?:(?:schreib\w*|erstell\w*|erklär\w*|zeig\w*|korrigier\w*|écri\w*|crée\w*|corrige\w*|expli\w*|"
    r"montre\w*|escrib\w*|escrev\w*|crea\w*|cria\w*|scriv\w*|corregg\w*|spieg\w*|come|cómo|como|comment|"
    r"wie|hoe|jak|как|napisz|schrijf|yaz\w*|напиши\w*|исправ\w*|объясн\w*|перепиш\w*|реализуй\w*|viết|"
    r"giải thích|sửa|ayud\w*|quiero|necesito|brauche|möchte|j'ai besoin|preciso|нуж\w+|puedo|posso|"
    r"puis-je|kann ich|можно|kodunu)\b)"
    r"|需要|필요|欲しい|怎么|如何|どう|어떻게|写|编写|实现|解释|修改|用|書い|作成|直し|説明|작성|수정"
    r"|설명|만들|اكتب|اشرح|लिख|সংশোধন|লিখ|เขียน|แก้|อธิบาย"
)
# Questions after a number, and orders to calculate or to prove.
MATH_TASK: Final = re.compile(
    r"\b(?:cu[aá]nt[oa]s?\b|combien\b|wie ?viele?\b|wie (?:groß|lang|hoch|weit|alt|schnell|teuer)\b|"
    r"quant[oiae]s?\b|hoeveel\b|ile\b|kaç\w*|сколько\b|какое количество\b|bao nhiêu\b|"
    r"\w*ngapi\b|hány|mennyi\b|kolik\b|câte\b|berapa\b|monta\b|hur många\b|calcul\w*|calcola\w*|"
    r"berechne?\w*|résou\w*|resuelv\w*|resolv\w*|risolv\w*|wyznacz\b|oblicz\w*|hesapla\w*|вычисли\w*|"
    r"реши\w*|найди\w*|докажи\w*|посчитай\w*|démontr\w*|demuestr\w*|demonstr\w*|beweise\w*|"
    r"zeige,? dass\b|dérivée\b|derivada\b|ableitung\b|quelle (?:distance|est la (?:valeur|probabilité))|"
    r"bereken\w*|loes\b|probabili\w+|wahrscheinlichkeit\b|производн\w+|вероятност\w+|flächeninhalt\b|"
    r"умнож\w*)|多少"
    r"|几[个只本人天元米支张块枝颗条千袋次种棵件盒页分小时]|求|计算|解方程|证明|等于|概率|則|则|いくつ"
    r"|何(?:[人個円枚本匹時分冊回キ倍歳]|ページ|パーセント|メートル|ドル)|全部で|いくら|求め|計算|何%"
    r"|証明|몇|얼마|구하|계산|증명|كم|احسب|أوجد|ما (?:ثمن|مساحة|هو ثمن)|فما|कितन|ज्ञात|गणना|কত|নির্ণয়"
    r"|เท่าไ|เท่าใด|กี่|จงหา|คำนวณ|எத்தனை|ఎన్ని|πόσ|υπολόγισ|כמה"
)
# Terms of mathematics.
MATH_TERMS: Final = re.compile(
    r"\b(?:dreieck|rechteck|umfang|gleichung|triangle|équation|aire\b|triángulo|ecuación|área|"
    r"треугольник|уравнени|площад|равнобедрен|triangolo|equazione|derivata|trójkąt|równani|üçgen|"
    r"denklem|summe\b|produkt\b|teilbar|ganze[rn]? zahl|prozent|pourcentage|somme\b|produit\b|dérivée|"
    r"divisible|porcentaje|suma\b|derivada|percentual|somma\b|prodotto\b|porcentagem|yüzde|toplam|"
    r"процент|сумм|произведени|sayı|kat[ıi]n|equação|triângulo)|方程|函数|三角形|椭圆|双曲线|抛物线"
    r"|数列|向量|集合|概率|平方|立方|面积|体积|周长|半径|直径|圆|复数|不等式|积分|导数|极限|矩阵|证明"
    r"|三角|座標|半径|面積|体積|確率|関数|方程式|微分|积分|積分|넓이|확률|방정식|함수|삼각형|미분"
    r"|مساحة|مثلث|معادلة|احتمال|त्रिभुज|क्षेत्रफल|समीकरण|प्रायिकता"
)

# Requests for a translation.
TRANSLATION: Final = re.compile(
    r"\b(?:übersetz|tradu(?:is|ire|isez|ction|c[ei]|ci[rd]|z|zca|cción|zione|ção|ce\b)|перевед|"
    r"перевод\b|dịch\b|çevir|przetłumacz|vertaal|översätt|tafsiri)|翻译|翻譯|翻訳|번역|ترجم|अनुवाद"
    r"|অনুবাদ|แปล"
)

# Orders of a deed, and questions after something that only a tool can know.
TOOL_ACTION: Final = re.compile(
    r"\b(?:(?:schick\w*|buch\w*|stell\w*|bestell\w*|such\w*|envoie\w*|réserve\w*|cherche\w*|envía\w*|"
    r"reserva\w*|busca\w*|invia\w*|prenota\w*|cerca|envia\w*|отправ\w*|закаж\w*|найди\w*|поставь\w*|"
    r"включи\w*|wyślij|znajdź|gönder\w*|bul\w*)\b)"
    r"|hava durumu|procur\w*|необходимо|погода|прогноз|wetter|météo|weather|查|帮我|订|天气|天気|날씨"
    r"|探し|予定|追加|登録|セットして|お願いします|预订|发送|设置|打开|送って|予約|調べ|検索|確認|보내"
    r"|예약|찾아|알려|أرسل|احجز|ابحث|भेज|बुक|খুঁজ|ส่ง|จอง"
)
