// Draws the charts and binds the few controls; everything else on the page is HTML from the gateway.
"use strict";

const NOTES = {
  speed: "Output tokens per second of one stream.",
  first_token: "Mean time from dispatch to the first token; waiting for a busy backend comes before. What is red takes longest.",
  gain: "Decode rate relative to the baseline's over the last hour, or day where an hour has too few requests, with its 95 % interval. Below 1, speculation loses.",
  acceptance: "Accepted share of the draft tokens. High acceptance alone is no gain.",
};
const KEPT = 80;
const PATIENCE = 5000; // milliseconds that an answer may take; as the page tells htmx
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

// A chart is made anew when its kind, its lines or the theme change, else only told of new data.
function draw(id, names, data, options, kind = "") {
  const place = byId(id);
  const shape = JSON.stringify([kind, names, document.documentElement.dataset.theme]);
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

// What the chart over time can show: in words, whether backends add up, and a value with its unit.
const LINES = {
  backends: { note: "Requests per second of each backend over the last 15 minutes.", adds: true, value: (value) => value.toFixed(1) },
  speeds: { note: "Output tokens per second of one stream, of each backend over the last 15 minutes.", value: (value) => `${Math.round(value)} tok/s` },
  first_tokens: { note: "Mean time from dispatch to the first token, of each backend over the last 15 minutes.", value: (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`) },
  acceptance: { note: "Accepted share of the draft tokens, of each backend over the last 15 minutes.", value: (value) => `${Math.round(value * 100)} %` },
};

function drawOverTime(found) {
  const shown = document.querySelector("#lines input:checked").value;
  const { adds, value: text } = LINES[shown];
  const all = Object.keys(found.backends);
  const names = all.filter((name) => found[shown][name].some((value) => value));
  const said = (value) => (value === null || value === undefined ? "–" : text(value));
  // Where backends add up, each is drawn on top of those before it, the topmost first.
  const sums = found.times.map(() => 0);
  const values = names.map((name) => (adds ? found[shown][name].map((value, at) => (sums[at] += value)) : found[shown][name]));
  const order = names.map((name, at) => ({ name, at, colour: series(all.indexOf(name)) }));
  if (adds) order.reverse();
  draw("time-chart", names, [found.times, ...order.map(({ at }) => values[at])], {
    scales: { y: { range: (_, low, high) => [0, adds ? Math.max(1, high * 1.08) : (high || 1) * 1.08] } },
    axes: axes({ values: (_, ticks) => ticks.map(clockTime), space: 70 }, { values: (_, ticks) => ticks.map(adds ? (tick) => (Number.isInteger(tick) ? String(tick) : tick.toFixed(1)) : text), size: adds ? 46 : 70 }),
    series: [
      { value: (_, value) => (value === null ? "–" : clockTime(value)) },
      ...order.map(({ name, colour: ink }) => ({
        label: name, stroke: ink, fill: adds ? ink : undefined, width: adds ? 1 : 2, points: { show: !adds, size: 4 }, spanGaps: true,
        value: (_, value, __, index) => (index === null ? "–" : said(shownOverTime[shown][name]?.[index])),
      })),
    ],
  }, shown);
}

let shownOverTime = { times: [], backends: {}, speeds: {}, first_tokens: {}, acceptance: {} };
let lastData = null;

function fillModels(models) {
  const select = byId("model");
  if (select.options.length === models.length) return;
  select.replaceChildren(...models.map((name) => new Option(name, name)));
}

function drawAll() {
  if (!lastData) return;
  shownOverTime = lastData.over_time;
  drawPositions(lastData.positions, Object.keys(lastData.over_time.backends));
  drawOverTime(lastData.over_time);
  fillModels(lastData.models);
}

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(`/ui/data?window=${byId("window").value}`, { signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) return;
  lastData = await answer.json();
  drawAll();
}

let answered = Date.now();

function pulse(good) {
  const tag = byId("pulse");
  if (good) answered = Date.now();
  const text = good ? "live" : `no answer since ${clockTime(answered / 1000)}`;
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
byId("lines").addEventListener("change", (event) => {
  byId("time-note").textContent = LINES[event.target.value].note;
  drawAll();
});
for (const form of ["choices", "shown", "lines"]) byId(form).addEventListener("submit", (event) => event.preventDefault());

const pause = byId("pause");
pause.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  if (!paused) waiting.splice(0).forEach(show);
});
// What ended while the list was held, and will be shown.
const waiting = [];
function show(line) {
  const list = byId("decisions");
  list.insertAdjacentHTML("afterbegin", line);
  while (list.children.length > KEPT) list.lastElementChild.remove();
}
// The gateway ends the stream now and then and browsers come back by themselves; where it was refused, they do not.
function follow() {
  const stream = new EventSource("/ui/decisions");
  stream.addEventListener("decision", (event) => {
    if (pause.getAttribute("aria-pressed") === "true") {
      waiting.push(event.data);
      if (waiting.length > KEPT) waiting.shift();
    } else show(event.data);
  });
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 10000);
  });
}
document.body.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt.id === "live") pulse(event.detail.successful);
});
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const id of Object.keys(charts)) charts[id].shape = "";
  drawAll();
});

follow();
const again = () => refresh().catch(() => pulse(false));
again();
setInterval(again, 2000);
