// Draws the charts and binds the few controls; everything else on the page is HTML from the gateway.
"use strict";

const NOTES = {
  speed: "Output tokens per second of one stream.",
  gain: "Decode rate relative to the baseline's, since the start, with its 95 % interval. Below 1, speculation loses.",
  acceptance: "Accepted share of the draft tokens. High acceptance alone is no gain.",
};
const KEPT = 80;
const HEIGHT = 200;
const charts = {};
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clockTime = (unix) => new Date(unix * 1000).toLocaleTimeString([], { hour12: false });
const series = (index) => colour(`--s${index % 8}`);

function axes(unit, values) {
  const line = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return [{ ...line, ...unit }, { ...line, size: 46, ...values }];
}

// A chart is made anew when its lines or the theme change, else only told of new data.
function draw(id, names, data, options) {
  const place = byId(id);
  const shape = JSON.stringify([names, document.documentElement.dataset.theme]);
  const width = place.clientWidth;
  const old = charts[id];
  if (old && old.shape === shape) {
    if (old.plot.width !== width) old.plot.setSize({ width, height: HEIGHT });
    old.plot.setData(data);
    return;
  }
  if (old) old.plot.destroy();
  place.textContent = "";
  if (!names.length) {
    delete charts[id];
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = "Nothing to draw yet.";
    place.append(empty);
    return;
  }
  charts[id] = { shape, plot: new uPlot({ width, height: HEIGHT, cursor: { y: false }, ...options }, data, place) };
}

// A backend has one colour in both charts.
function drawPositions(rows, backends) {
  const most = Math.max(0, ...rows.map((row) => row.shares.length));
  const places = Array.from({ length: most }, (_, at) => at);
  const lines = rows.map((row) => places.map((at) => row.shares[at] ?? null));
  const percent = (value) => (value === null ? "–" : `${Math.round(value * 100)} %`);
  draw("positions-chart", rows.map((row) => row.backend), [places, ...lines], {
    scales: { x: { time: false }, y: { range: [0, 1] } },
    axes: axes({ incrs: [1] }, { values: (_, ticks) => ticks.map(percent) }),
    series: [
      { label: "position", value: (_, value) => (value === null ? "–" : value) },
      ...rows.map((row) => ({
        label: row.backend, stroke: series(backends.indexOf(row.backend)), width: 2, points: { show: true, size: 5 }, value: (_, value) => percent(value),
      })),
    ],
  });
}

function drawShares(shares) {
  const names = Object.keys(shares.backends);
  const rate = (value) => (value === null ? "–" : value.toFixed(1));
  // Stacked: each line is drawn on top of those before it, the topmost first.
  const sums = shares.times.map(() => 0);
  const stacked = names.map((name) => shares.backends[name].map((value, at) => (sums[at] += value)));
  draw("shares-chart", shares.times.length ? names : [], [shares.times, ...stacked.slice().reverse()], {
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: axes({ values: (_, ticks) => ticks.map(clockTime), space: 70 }, { values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : tick.toFixed(1))) }),
    series: [
      { value: (_, value) => (value === null ? "–" : clockTime(value)) },
      ...names.map((name, at) => ({ name, at })).reverse().map(({ name, at }) => ({
        label: name, stroke: series(at), fill: series(at), width: 1, points: { show: false },
        value: (_, value, __, index) => (index === null ? "–" : rate(shownShares.backends[name]?.[index] ?? null)),
      })),
    ],
  });
}

let shownShares = { times: [], backends: {} };
let lastData = null;

function fillModels(models) {
  const select = byId("model");
  if (select.options.length === models.length) return;
  select.replaceChildren(...models.map((name) => new Option(name, name)));
}

function drawAll() {
  if (!lastData) return;
  shownShares = lastData.shares;
  drawPositions(lastData.positions, Object.keys(lastData.shares.backends));
  drawShares(lastData.shares);
  fillModels(lastData.models);
}

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(`/ui/data?window=${byId("window").value}`);
  if (!answer.ok) return;
  lastData = await answer.json();
  drawAll();
}

function pulse(good) {
  const tag = byId("pulse");
  const text = good ? "live" : "no answer";
  if (tag.textContent === text) return;
  tag.textContent = text;
  tag.className = `tag ${good ? "good" : "bad"}`;
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  drawAll();
}

const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;

byId("theme").addEventListener("click", theme);
byId("window").addEventListener("change", () => refresh().catch(() => pulse(false)));
byId("shown").addEventListener("change", (event) => { byId("heat-note").textContent = NOTES[event.target.value]; });
for (const form of ["choices", "shown"]) byId(form).addEventListener("submit", (event) => event.preventDefault());

const pause = byId("pause");
pause.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
});
document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (pause.getAttribute("aria-pressed") === "true") event.preventDefault();
});
document.body.addEventListener("htmx:sseMessage", () => {
  const list = byId("decisions");
  while (list.children.length > KEPT) list.lastElementChild.remove();
});
document.body.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt.id === "live") pulse(event.detail.successful);
});
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const id of Object.keys(charts)) charts[id].shape = "";
  drawAll();
});

const again = () => refresh().catch(() => pulse(false));
again();
setInterval(again, 2000);
