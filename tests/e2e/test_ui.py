"""The status page as people see it: in a headless Chromium, on a desk and on a phone, light and dark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.stack import POLICIES, Loop, eventually, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.stack import Stack

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
CHAT = "/v1/chat/completions"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions")
PATIENCE = 60.0
"""Seconds that anything on the page may take, on a machine that may be busy."""

WIDE, PHONE = (1280, 900), (390, 844)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no chromium and chromium-driver (Debian)"),
    pytest.mark.xdist_group("chromium"),
    pytest.mark.timeout(300),
]


def ask(stack: Stack, text: str, **given: Any) -> None:
    headers = given.pop("headers", {})
    body = {
        "model": "gemma-4-31b",
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "max_tokens": 48,
    }
    stack.http.post(CHAT, json=body | given, headers=headers)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    loop = Loop()
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))
    with running(loop, tmp_path_factory.mktemp("ui"), fleet, policy) as found:
        for number in range(4):
            for text in (
                "Solve 3x + 4 = 19 for x.",
                "Write a Python function that adds two numbers.",
                "Hello.",
            ):
                ask(found, f"{text} {number}")
        yield found
    loop.close()


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield found
    found.quit()


class Browser:
    """A page that is open."""

    def __init__(
        self, driver: Any, url: str, size: tuple[int, int], theme: str, *, rows: int = 3, charts: int = 2
    ) -> None:
        self.driver = driver
        width, height = size
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        driver.get(f"{url}/ui")
        driver.execute_script("localStorage.clear()")
        driver.refresh()
        self.until(lambda: self.text("#pulse"), "live")
        self.until(lambda: len(self.all("#heat-part tbody tr")) >= rows, wanted=True)
        self.until(lambda: len(self.all(".u-over")), charts)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Read in one step: the page may put another element there at any time."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, read: Callable[[], Any], wanted: Any) -> None:
        eventually(read, lambda found: found == wanted, PATIENCE)

    def complaints(self) -> list[str]:
        """What the console said, and what axe calls serious."""
        console = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]
        self.run(AXE.read_text())
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then((r) => done(JSON.stringify(r.violations)))"
        )
        serious = [each for each in json.loads(found) if each["impact"] in {"serious", "critical"}]
        return console + [
            f"{each['id']}: {[node['html'][:200] for node in each['nodes']]}" for each in serious
        ]


@pytest.fixture
def browser(driver: Any, stack: Stack) -> Browser:
    driver.get_log("browser")
    return Browser(driver, stack.url, WIDE, "light")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_nothing_sticks_out_and_nothing_is_wrong(
    driver: Any, stack: Stack, size: tuple[int, int], theme: str
) -> None:
    driver.get_log("browser")
    page = Browser(driver, stack.url, size, theme)
    page.one("#positions-title ~ details summary").click()
    page.one("#explain button[type=submit]").click()
    page.until(lambda: page.text("#explained .verdict").startswith("Goes to"), wanted=True)
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(16, 19, 23)") == (theme == "dark")
    assert page.complaints() == []


def test_the_heat_map_shows_speed_gain_and_acceptance(browser: Browser) -> None:
    shown = browser.text("#heat-part")
    assert "gemma31-dflash7" in shown
    assert {"math", "code", "chat"} <= set(shown.split())
    browser.one("label[for=show-acceptance]").click()
    browser.until(lambda: "tokens a step" in browser.text("#heat-part"), wanted=True)
    assert "acceptance alone is no gain" in browser.text("#heat-note")
    browser.one("label[for=show-gain]").click()
    browser.until(lambda: "too few" in browser.text("#heat-part"), wanted=True)
    browser.one("label[for=show-first-token]").click()
    browser.until(lambda: "ms" in browser.text("#heat-part"), wanted=True)


def test_the_chart_over_time_shows_requests_speed_and_first_tokens(browser: Browser) -> None:
    for choice, words in (
        ("speed", "Output tokens per second"),
        ("first-token", "Mean time from dispatch"),
        ("acceptance", "Accepted share"),
    ):
        browser.one(f"label[for=line-{choice}]").click()
        browser.until(lambda words=words: browser.text("#time-note").startswith(words), wanted=True)  # type: ignore[misc]
        assert len(browser.all("#time-chart .u-over")) == 1
        assert "gemma31-mtp4" in browser.text("#time-chart .u-legend")
    assert browser.complaints() == []


def test_a_stream_that_ends_is_taken_up_again_in_silence(
    driver: Any, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ui.routes._STREAM_SECONDS", 1.0)
    page = Browser(driver, stack.url, WIDE, "light")
    driver.get_log("browser")
    streams = (
        "return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/decisions')).length"
    )
    eventually(lambda: page.run(streams), lambda found: found >= 2, PATIENCE)
    ask(stack, "Hello.", headers={"x-specroute-backend": "gemma31-dspark7", "x-request-id": "later"})
    page.until(lambda: "gemma31-dspark7" in page.text("#decisions li"), wanted=True)
    assert page.complaints() == []


def test_everything_can_be_reached_with_the_keyboard(browser: Browser) -> None:
    reached = []
    for _ in range(16):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.run("return document.activeElement.id || document.activeElement.className"))
    for name in (
        "skip",
        "window",
        "theme",
        "show-speed",
        "heat-part",
        "line-requests",
        "pause",
        "decisions",
        "request",
        "model",
    ):
        assert name in reached
    browser.one("#show-speed").send_keys(Keys.ARROW_RIGHT)
    browser.until(lambda: browser.text("#heat-note").startswith("Mean time"), wanted=True)


def test_decisions_stream_by_with_their_reason_and_can_be_held(browser: Browser, stack: Stack) -> None:
    ask(stack, "Hello.", headers={"x-specroute-backend": "gemma31-dspark7"})
    browser.until(lambda: "gemma31-dspark7" in browser.text("#decisions li"), wanted=True)
    assert "the caller chose it" in browser.text("#decisions li")
    browser.one("#pause").click()
    ask(stack, "Hello.", headers={"x-specroute-backend": "gemma31-eagle5"})
    ask(stack, "Hello.", model="nobody")
    browser.until(lambda: "1" in browser.text("#totals-part"), wanted=True)
    assert "gemma31-dspark7" in browser.text("#decisions li")
    assert browser.one("#pause").get_attribute("aria-pressed") == "true"
    ask(stack, "Hello.", model="nobody", headers={"x-request-id": "the-last"})
    browser.until(
        lambda: browser.run("return waiting.some((line) => line.includes('the-last'))"), wanted=True
    )
    browser.one("#pause").click()
    first, second = (each.text for each in browser.all("#decisions li")[:2])
    assert "the-last" in first
    assert "the model is not known" in first
    assert "the model is not known" in second


def test_a_gateway_that_hangs_is_not_live(browser: Browser) -> None:
    slow = {"offline": False, "latency": 600_000, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
    browser.until(lambda: browser.text("#pulse").startswith("no answer since "), wanted=True)
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow | {"latency": 0})
    browser.until(lambda: browser.text("#pulse"), "live")


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("Write a Python function that sorts.", "code"),
        (
            '{"model": "gemma-4-31b", "messages": [{"role": "user", "content": "Solve 2x = 4 for x."}]}',
            "math",
        ),
        ('{"model": 3}', "whose 'model' is a string"),
        ('{"model": "<img src=x onerror=alert(1)>", "messages": []}', "<img src=x onerror=alert(1)>"),
    ],
)
def test_a_pasted_request_is_explained(browser: Browser, pasted: str, said: str) -> None:
    box = browser.one("#request")
    box.clear()
    box.send_keys(pasted)
    browser.one("#explain button[type=submit]").click()
    browser.until(lambda: said in browser.text("#explained"), wanted=True)
    assert browser.all("#explained img") == []


def test_the_theme_can_be_chosen_and_stays(browser: Browser) -> None:
    browser.one("#theme").click()
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.driver.refresh()
    browser.until(lambda: browser.run("return document.documentElement.dataset.theme"), "dark")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)"


def test_nothing_comes_from_outside(browser: Browser, stack: Stack) -> None:
    loaded = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 6
    assert all(each.startswith(stack.url) for each in loaded)


def test_a_mistake_in_the_policy_is_shown_until_it_is_mended(browser: Browser, stack: Stack) -> None:
    assert "in force" in browser.text("#policy-part")
    good = stack.policy.read_text()
    stack.policy.write_text(good.replace("version: 1", "version: 7", 1))
    browser.until(lambda: "version" in browser.text("#policy-part .problem"), wanted=True)
    stack.policy.write_text(good)
    browser.until(lambda: browser.text("#policy-part .problem"), "")


def test_a_gateway_that_is_gone_is_said(driver: Any, tmp_path: Path) -> None:
    loop = Loop()
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))
    with running(loop, tmp_path, fleet, policy) as own:
        for text in ("Solve 3x + 4 = 19 for x.", "Write a Python function.", "Hello."):
            ask(own, text)
            ask(own, text)
        page = Browser(driver, own.url, WIDE, "light")
    loop.close()
    page.until(lambda: page.text("#pulse").startswith("no answer since "), wanted=True)


async def ill(scope: Any, receive: Any, send: Any) -> None:
    """A server that tells its load, which is none, and else answers nothing well."""
    if scope["type"] == "http":
        tells = scope["path"] == "/metrics"
        load = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n" if tells else b""
        await send({"type": "http.response.start", "status": 200 if tells else 500, "headers": []})
        await send({"type": "http.response.body", "body": load})


def test_long_names_fit_a_phone_and_servers_that_are_out_come_first(driver: Any, tmp_path: Path) -> None:
    names = [f"gemma-4-31b-it-mi300x-rack-{at:02d}-slot-1-mtp-prod-eu-west" for at in range(12)]
    fleet = "version: 1\nbackends:\n" + "".join(
        f'  - {{name: {name}, url: "http://127.0.0.1:{at + 1}", model: google/gemma-4-31B-it, served_model: m}}\n'
        for at, name in enumerate(names)
    )
    policy = "version: 1\nroutes: [{name: all, prefer: [any]}]\n"
    loop = Loop()
    with running(loop, tmp_path, fleet, policy, applications={names[-1]: ill}) as own:
        own.until(names[-1], available=False)
        for _ in range(6):
            ask(own, "Hello.", model="google/gemma-4-31B-it", headers={"x-specroute-workload": "chat"})
        page = Browser(driver, own.url, PHONE, "light", rows=1, charts=1)
        assert names[-1] in page.text("#fleet-part tbody tr")
        assert page.run("return document.documentElement.scrollWidth") <= PHONE[0]
    loop.close()
