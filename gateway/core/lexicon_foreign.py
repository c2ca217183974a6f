"""The same signs of a workload in languages other than English, by what they show.

Words stand between spaces; ``*`` ends the beginning of a word, ``_`` is a space between words.
"""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

from typing import Final

WORDS: Final = {
    # What a program is called.
    "code": """
    funzione função función fonction funktion functie funkcj* fonksiyon* функци* programm* programma
    programa programme программ* skript скрипт* script kod* codice código codigo quelltext код* klasse
    clase classe classi класс* requête consulta abfrage запрос* kommando комманд* команд* algorithm*
    algoritm* алгоритм* đoạn_code hàm fehler erreur traceback typeerror питон*
    """,
    # Words that ask for it to be made, changed or explained.
    "code_made": """
    schreib* erstell* erklär* zeig* korrigier* écri* crée* corrige* expli* montre* escrib* escrev* crea*
    cria* scriv* corregg* spieg* come cómo como comment wie hoe jak как napisz schrijf yaz* напиши*
    исправ* объясн* перепиш* реализуй* viết giải_thích sửa ayud* quiero necesito brauche möchte
    j'ai_besoin preciso нуж* puedo posso puis-je kann_ich можно kodunu
    """,
    # Questions after a number, and orders to calculate or to prove.
    "math_task": """
    cuanto cuantos cuanta cuantas cuánto cuántos cuánta cuántas combien wie_viel* wieviel wieviele
    wie_groß wie_lang wie_hoch wie_weit wie_alt wie_schnell wie_teuer quanto quantos quanti quanta quantas
    quante hoeveel ile kaç* сколько какое_количество bao_nhiêu ngapi wangapi mangapi vingapi mingapi
    zingapi hány mennyi kolik câte berapa monta hur_många calcul* calcola* berechn berechne* résou*
    resuelv* resolv* risolv* wyznacz oblicz* hesapla* вычисли* реши* найди* докажи* посчитай* démontr*
    demuestr* demonstr* beweise* zeige_dass zeige,_dass dérivée derivada ableitung quelle_distance
    quelle_est_la_valeur quelle_est_la_probabilité bereken* loes probabili* wahrscheinlichkeit производн*
    вероятност* flächeninhalt умнож*
    """,
    # Terms of mathematics.
    "math_term": """
    dreieck* rechteck* umfang* gleichung* triangle* équation* aire triángulo* ecuación* área* треугольник*
    уравнени* площад* равнобедрен* triangolo* equazione* derivata* trójkąt* równani* üçgen* denklem* summe
    produkt teilbar* ganze_zahl* ganzer_zahl* ganzen_zahl* prozent* pourcentage* somme produit dérivée*
    divisible* porcentaje* suma derivada* percentual* somma prodotto porcentagem* yüzde* toplam* процент*
    сумм* произведени* sayı* katın* katin* equação* triângulo*
    """,
    # Requests for a translation.
    "translation": """
    übersetz* traduis* traduire* traduisez* traduction* traduce* traduci* traduz* traducción* traduzione*
    tradução* перевед* перевод dịch çevir* przetłumacz* vertaal* översätt* tafsiri*
    """,
    # Orders of a deed, and questions after something that only a tool can know.
    "tool_action": """
    schick* buch* stell* bestell* such* envoie* réserve* cherche* envía* reserva* busca* invia* prenota*
    cerca envia* отправ* закаж* найди* поставь* включи* wyślij znajdź gönder* bul* hava_durumu procur*
    необходимо* погода* прогноз* wetter* météo* weather*
    """,
}
"""Words of languages with letters of ours, or Cyrillic ones."""

SIGNS: Final = {
    "code": """
    代码 程序 函数 算法 编程 脚本 正则 数据库 查询语句 コード 関数 プログラム スクリプト クラス 코드 함수
    프로그램 스크립트 클래스 دالة كود برنامج कोड फ़ंक्शन फंक्शन प्रोग्राम โค้ด ฟังก์ชัน โปรแกรม কোড ফাংশন
    파이썬 パイソン بايثون जावा पायथन
    """,
    "code_made": """
    需要 필요 欲しい 怎么 如何 どう 어떻게 写 编写 实现 解释 修改 用 書い 作成 直し 説明 작성 수정 설명
    만들 اكتب اشرح लिख সংশোধন লিখ เขียน แก้ อธิบาย
    """,
    "math_task": """
    多少 几个 几只 几本 几天 几人 几元 几米 几支 几张 几块 几枝 几颗 几条 几千 几袋 几次 几种 几棵 几件
    几盒 几页 几分 几小 几时 求 计算 解方程 证明 等于 概率 則 则 いくつ 何人 何個 何円 何枚 何本 何匹 何時
    何分 何冊 何回 何キ 何倍 何歳 何ページ 何パーセント 何メートル 何ドル 全部で いくら 求め 計算 何% 証明
    몇 얼마 구하 계산 증명 كم احسب أوجد ما_ثمن ما_مساحة ما_هو_ثمن فما कितन ज्ञात गणना কত নির্ণয় เท่าไ
    เท่าใด กี่ จงหา คำนวณ எத்தனை ఎన్ని πόσ υπολόγισ כמה
    """,
    "math_term": """
    方程 函数 三角形 椭圆 双曲线 抛物线 数列 向量 集合 概率 平方 立方 面积 体积 周长 半径 直径 圆 复数
    不等式 积分 导数 极限 矩阵 证明 三角 座標 面積 体積 確率 関数 方程式 解方程 微分 積分 넓이 확률 방정식
    함수 삼각형 미분 مساحة مثلث معادلة احتمال त्रिभुज क्षेत्रफल समीकरण प्रायिकता
    """,
    "translation": """
    翻译 翻譯 翻訳 번역 ترجم अनुवाद অনুবাদ แปล
    """,
    "tool_action": """
    查 帮我 订 天气 天気 날씨 探し 予定 追加 登録 セットして お願いします 预订 发送 设置 打开 送って 予約
    調べ 検索 確認 보내 예약 찾아 알려 أرسل احجز ابحث भेज बुक খুঁজ ส่ง จอง
    """,
}
"""Pieces of text in scripts that put no spaces between words, or other endings on them."""
