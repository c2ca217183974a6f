"""Bodies of requests of every shape that a classification may meet: languages, code, data, conversations."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import json
from base64 import b64encode
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PROSE: Final = {
    "English": (
        "The report of the committee said 14 of the 60 bridges need repairs; who pays for them is open.",
        "“We don't know yet,” the mayor answered when she was asked about the ferry, “but the plan is ready.”",
        "Could you please tell me how the two proposals differ, and which of them you would rather choose?",
        "In spring the river rises by almost two metres, so the lower road is closed for several weeks.",
        "My sister has been working as a nurse in Dublin since 2019 and would like to move back home now.",
        "Nobody had expected that the old printing house would find a new owner within just three months.",
    ),
    "German": (
        "Der Ausschuss hat gesagt, dass 14 der 60 Brücken repariert werden müssen; wer das bezahlt, ist offen.",
        "Können Sie mir bitte erklären, worin sich die beiden Vorschläge unterscheiden und was günstiger wäre?",
        "Im Frühjahr steigt der Fluss um fast zwei Meter, deshalb ist die untere Straße mehrere Wochen gesperrt.",
        "Meine Schwester arbeitet seit 2019 als Krankenschwester in Köln und möchte nun wieder nach Hause ziehen.",
        "Niemand hätte erwartet, daß die alte Druckerei innerhalb von drei Monaten einen neuen Besitzer findet.",
    ),
    "French": (
        "La commission a déclaré que 14 des 60 ponts doivent être réparés ; on ne sait pas encore qui paiera.",
        "Pourriez-vous m'expliquer en quoi les deux propositions diffèrent, et laquelle vous préféreriez choisir ?",
        "Au printemps, la rivière monte de près de deux mètres et la route basse est fermée plusieurs semaines.",
        "Ma sœur travaille comme infirmière à Lyon depuis 2019 et souhaite maintenant revenir à la maison.",
        "Personne n'aurait cru que l'ancienne imprimerie trouverait un repreneur en seulement trois mois.",
    ),
    "Spanish": (
        "La comisión dijo que 14 de los 60 puentes necesitan reparaciones; todavía no se sabe quién las pagará.",
        "¿Podría explicarme en qué se diferencian las dos propuestas y cuál de ellas preferiría usted?",
        "En primavera el río sube casi dos metros, por eso la carretera baja se cierra durante varias semanas.",
        "Mi hermana trabaja como enfermera en Sevilla desde 2019 y ahora le gustaría volver a casa.",
        "Nadie esperaba que la vieja imprenta encontrara un nuevo dueño en tan solo tres meses.",
    ),
    "Turkish": (
        "Komisyon, 60 köprüden 14'ünün onarılması gerektiğini söyledi; bunu kimin ödeyeceği ise belli değil.",
        "İki önerinin birbirinden nasıl ayrıldığını ve hangisini seçeceğinizi bana anlatır mısınız lütfen?",
        "İlkbaharda nehir neredeyse iki metre yükselir, bu yüzden aşağı yol birkaç hafta boyunca kapalı kalır.",
        "Ablam 2019'dan beri İzmir'de hemşire olarak çalışıyor ve artık eve dönmek istiyor.",
    ),
    "Russian": (
        "Комиссия сообщила, что 14 из 60 мостов нуждаются в ремонте; кто за это заплатит, пока неизвестно.",
        "Не могли бы вы объяснить, чем отличаются оба предложения и какое из них вы бы предпочли выбрать?",
        "Весной река поднимается почти на два метра, поэтому нижняя дорога закрыта на несколько недель.",
        "Моя сестра с 2019 года работает медсестрой в Казани и теперь хотела бы вернуться домой.",
        "Никто не ожидал, что старая типография найдёт нового владельца всего за три месяца.",
    ),
    "Chinese": (
        "委员会表示，60座桥梁中有14座需要维修，由谁来支付这笔费用目前还没有定论。",
        "请您告诉我这两个方案有什么不同，如果由您来选择，您更愿意选哪一个？",
        "春天河水会上涨将近两米，所以下面的那条路要关闭好几个星期。",
        "我姐姐从2019年起在南京当护士，现在她想搬回老家，离父母近一些。",
        "谁也没有想到，那家旧印刷厂只用了三个月就找到了新的主人。",
    ),
    "Japanese": (
        "委員会によると、60本の橋のうち14本は修理が必要ですが、費用を誰が払うのかはまだ決まっていません。",
        "二つの提案はどこが違うのか、そしてあなたならどちらを選ぶのか、教えていただけますか。",
        "春になると川の水が二メートル近く上がるので、下の道は数週間のあいだ通れなくなります。",
        "姉は2019年から仙台で看護師として働いていますが、そろそろ実家に戻りたいと言っています。",
    ),
    "Korean": (
        "위원회는 다리 60개 중 14개에 수리가 필요하다고 밝혔지만 비용을 누가 낼지는 아직 정해지지 않았다.",
        "두 제안이 어떻게 다른지, 그리고 당신이라면 어느 쪽을 고를지 알려 주시겠어요?",
        "봄이 되면 강물이 거의 2미터나 불어나서 아랫길은 몇 주 동안 막힌다.",
        "언니는 2019년부터 부산에서 간호사로 일하고 있는데 이제는 집으로 돌아오고 싶어 한다.",
    ),
    "Arabic": (
        "قالت اللجنة إن 14 جسراً من أصل 60 تحتاج إلى إصلاح، ولم يُعرف بعد من سيدفع التكاليف.",
        "هل يمكنك أن تشرح لي الفرق بين الاقتراحين وأيهما تفضل أن تختار؟",
        "في الربيع يرتفع النهر قرابة مترين، ولذلك يُغلق الطريق السفلي عدة أسابيع.",
        "تعمل أختي ممرضة في تونس منذ عام 2019 وترغب الآن في العودة إلى البيت.",
    ),
    "Hindi": (
        "समिति ने कहा कि 60 में से 14 पुलों की मरम्मत ज़रूरी है; खर्च कौन उठाएगा, यह अभी तय नहीं है।",
        "क्या आप मुझे बता सकते हैं कि दोनों प्रस्तावों में क्या अंतर है और आप कौन सा चुनेंगे?",
        "वसंत में नदी लगभग दो मीटर ऊपर आ जाती है, इसलिए निचली सड़क कई हफ़्तों तक बंद रहती है।",
        "मेरी बहन 2019 से पुणे में नर्स है और अब घर लौटना चाहती है।",
    ),
    "emoji": ("🎉🎂 happy birthday 🥳🥳 see you at 7 👍🏽", "😀😃😄😁 🙈🙉🙊", "🚲➡️🏔️ next week? 🌧️☔"),
}  # fmt: skip

_CODE: Final = (
    "def load_{0}(path: str) -> dict[str, int]:\n    with open(path) as file:\n        return {{k: int(v) for k, v in rows(file)}}\n",
    "class Cache_{0}(Base):\n    def get(self, key):\n        if key not in self._items:\n            raise KeyError(key)\n        return self._items[key]\n",
    "for (int i = 0; i < n_{0}; ++i) {{\n    total += a[i] * b[i];\n    if (total > limit) break;\n}}\n",
    "SELECT name, count(*) FROM orders_{0} WHERE price >= 10 GROUP BY name;\n",
    "const view_{0} = items.filter((x) => x.done).map((x) => `<li>${{x.name}}</li>`);\n",
)
_MATHS: Final = (
    "Let $f_{{{0}}}(x) = \\frac{{x^2 - {0}}}{{x + 1}}$ and find $\\int_0^{0} f(x)\\,dx$. ",
    "Prove that $a^2 + b^2 \\ge 2ab$ for all real a, b, and solve x^2 - {0}x + 6 = 0. ",
    "A train travels {0} km at 80 km/h and returns at 120 km/h. What is its average speed? ",
)


def _prose(sentences: tuple[str, ...], random: Random) -> str:
    return f"{random.choice(sentences)} "


def _numbered(templates: tuple[str, ...], random: Random) -> str:
    return random.choice(templates).format(random.randint(2, 99))


def _object(random: Random) -> str:
    name, price = random.choice(("lamp", "chair", "desk")), random.random() * 100
    return f'  {{"id": {random.randint(1, 9999)}, "name": "{name}", "price": {price:.2f}, "tags": ["new", null]}},\n'


def _line_of_table(random: Random) -> str:
    return f"| {random.choice(('Oslo', 'Bergen', 'Tromsø'))} | {random.randint(1, 999)} | {random.random():.3f} | yes |\n"


def _log(random: Random) -> str:
    when = f"2026-03-{random.randint(1, 28):02}T12:{random.randint(0, 59):02}:07Z"
    return f"{when} ERROR worker-{random.randint(1, 9)} timeout after {random.randint(1, 900)} ms (exit code 3)\n"


TEXTS: Final[dict[str, Callable[[Random], str]]] = {
    **{name: lambda random, said=said: _prose(said, random) for name, said in _PROSE.items()},  # type: ignore[misc]
    "code": lambda random: _numbered(_CODE, random),
    "mathematics": lambda random: _numbered(_MATHS, random),
    "JSON": _object,
    "table": _line_of_table,
    "log": _log,
    "base64": lambda random: b64encode(random.randbytes(60)).decode(),
}
"""By name of a kind of text: what makes a piece of it."""

CONVERSATION: Final = "conversation"
"""The shape of a request with a system prompt, turns and tools, ending with an order in English."""

SHAPES: Final = (*TEXTS, CONVERSATION)


def seeded(seed: str) -> Random:
    """What draws the pieces: the same ones for the same seed."""
    return Random(seed)  # noqa: S311 - no secret


def text(kind: str, chars: int, random: Random) -> str:
    """A text of a kind and of so many characters."""
    pieces, length = [], 0
    while length < chars:
        pieces.append(TEXTS[kind](random))
        length += len(pieces[-1])
    return "".join(pieces)[:chars]


def _tool(number: int, random: Random) -> dict[str, Any]:
    verb, noun = random.choice(("get", "set", "find", "book")), random.choice(("light", "weather", "flight"))
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": "Where"}}}
    description = f"{verb.title()} the {noun} of a place, by its name or number {number}."
    return {
        "type": "function",
        "function": {"name": f"{verb}_{noun}_{number}", "description": description, "parameters": parameters},
    }


def request(shape: str, chars: int, random: Random) -> dict[str, Any]:
    """The body of a request of a shape, whose last message has so many characters."""
    if shape != CONVERSATION:
        return {"model": "m", "messages": [{"role": "user", "content": text(shape, chars, random)}]}
    turns = [
        {"role": "system", "content": f"You are a helpful assistant. {text('English', 1200, random)}"},
        {"role": "user", "content": text("English", 300, random)},
        {
            "role": "assistant",
            "content": f"{text('English', 300, random)}\n```\n{text('code', 200, random)}\n```",
        },
        {"role": "user", "content": text("English", 100, random)},
        {"role": "assistant", "content": f"{text('English', 200, random)} Which place do you mean?"},
        {"role": "user", "content": f"Book it and set the light. {text('English', chars, random)}"[:chars]},
    ]
    return {"model": "m", "messages": turns, "tools": [_tool(number, random) for number in range(10)]}


def body(shape: str, chars: int, random: Random) -> bytes:
    """The same as bytes."""
    return json.dumps(request(shape, chars, random), ensure_ascii=False).encode()
