"use strict";
// The page of `recalljoin dashboard`: asks the server for numbers and draws them with uPlot.

const POLL = 2000;
const POINTS = 600;
const WHOLE_EVERY = 5; // recall of old batches settles later, so now and then all is asked again
const $ = (id) => document.getElementById(id);
const board = {
  joins: [], at: 0, paused: false, range: null, data: null, polls: 0, charts: new Map(), asked: 0,
};

// ---- words and numbers ------------------------------------------------------------------------

const known = (value) => value !== null && value !== undefined;
const count = (n) => !known(n) ? "–" : Math.abs(n) >= 1e6
  ? `${(n / 1e6).toPrecision(3)} M` : Math.abs(n) < 1 ? `${+n.toPrecision(2)}`
    : n.toLocaleString("en", { maximumFractionDigits: Math.abs(n) < 10 ? 2 : 0 });

function span(s) {
  if (!known(s)) return "–";
  const size = Math.abs(s);
  if (size === 0) return "0";
  if (size < 0.001) return `${+(s * 1e6).toPrecision(3)} µs`;
  if (size < 1) return `${+(s * 1000).toPrecision(3)} ms`;
  if (size < 120) return `${+s.toPrecision(3)} s`;
  if (size < 7200) return `${+(s / 60).toPrecision(3)} min`;
  return size < 172800 ? `${+(s / 3600).toPrecision(3)} h` : `${+(s / 86400).toPrecision(3)} d`;
}

const share = (x) => !known(x) ? "–" : x >= 0.99995 ? "1" : x.toFixed(4);
const tick = (x) => +x.toPrecision(4) + "";

function moment(s, hasDates) {
  if (!known(s)) return "–";
  if (!hasDates && s < 946684800) return span(s);
  return new Date(s * 1000).toISOString().replace("T", " ").slice(0, 19);
}

// Without the year, so that a row of a table fits into its card.
const shortMoment = (s, hasDates) => moment(s, hasDates).replace(/^\d{4}-(?=\d\d-)/, "");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "quiet", "grid", "card", "blue", "orange", "green", "red", "purple",
    "yellow", "sky"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
// Steps of axes of time: round in the unit that is shown.
const SPANS = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, .001, .002, .005, .01, .02, .05,
  .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000, 86400,
  172800, 432000, 864000, 8640000, 86400000];

function clockTicks(u, ticks) {
  const wide = u.scales.x.max - u.scales.x.min;
  return ticks.map((s) => {
    const at = new Date(s * 1000), day = at.toLocaleDateString("en-CA");
    if (wide > 172800) return day.slice(5);
    const time = at.toLocaleTimeString("en-GB").slice(0, wide < 300 ? 8 : 5);
    return wide > 86400 ? `${day.slice(5)}\n${time}` : time;
  });
}
const LINES = ["blue", "orange", "green", "purple", "yellow", "sky", "red"];

// ---- charts over time -------------------------------------------------------------------------

const column = (data, name) => data[name] || [];
const streamsIn = (data, what) => Object.keys(data)
  .filter((name) => name.startsWith(`${what}:`)).map((name) => name.slice(what.length + 1));

function perSecond(data, name) {
  const spans = column(data, "span");
  return column(data, name).map((n, i) => known(n) && spans[i] > 0 ? n / spans[i] : null);
}

const OVER_TIME = [
  { id: "recall", title: "Recall", note: "of the last period; red where a settled period missed",
    format: share, range: recallRange,
    series: (data) => {
      const settled = column(data, "recall_settled"), target = column(data, "target");
      const missed = settled.map((r, i) => known(r) && known(target[i]) && r < target[i] ? r : null);
      return [
        { label: "target", values: target, colour: "quiet", dash: [6, 4], width: 1 },
        { label: "provisional", values: column(data, "recall"), colour: "sky", dash: [3, 2] },
        { label: "settled", values: settled, colour: "blue", width: 2, gaps: false },
        { label: "missed", values: missed, colour: "red", points: true },
      ];
    } },
  { id: "wait", title: "Wait (K)", note: "how long tuples are held back for late ones",
    format: span, zero: true,
    series: (data, now) => [
      { label: "K", values: column(data, "k"), colour: "blue", width: 2, stepped: true },
      ...(known(now.max_wait) ? [{ label: "max_wait", colour: "red", dash: [6, 4], width: 1,
        values: column(data, "k").map(() => now.max_wait) }] : []),
    ] },
  { id: "rates", title: "Tuples and results a second", format: count, zero: true,
    series: (data) => [
      { label: "tuples", values: perSecond(data, "arrived"), colour: "blue" },
      { label: "results", values: perSecond(data, "produced"), colour: "green" },
    ] },
  { id: "lost", title: "Lost results and late tuples a second", format: count, zero: true,
    series: (data) => [
      { label: "lost results", values: perSecond(data, "lost"), colour: "red" },
      { label: "late tuples", values: perSecond(data, "late"), colour: "orange" },
      { label: "refused rows", values: perSecond(data, "refused"), colour: "purple" },
    ] },
  { id: "latency", title: "Latency", note: "mean wait of results, and time of a batch",
    format: span, zero: true,
    series: (data) => [
      { label: "wait of results", values: column(data, "latency"), colour: "blue" },
      { label: "batch", values: column(data, "took"), colour: "orange" },
    ] },
  { id: "watermark", title: "Watermark", format: span, zero: true,
    note: (data) => column(data, "watermark_lag").some(known)
      ? "how far it is behind the clock" : "in the streams' own time",
    series: (data) => {
      const lag = column(data, "watermark_lag");
      return lag.some(known) ? [{ label: "behind the clock", values: lag, colour: "blue" }]
        : [{ label: "watermark", values: column(data, "watermark"), colour: "blue" }];
    } },
  { id: "behind", title: "Lag of the streams", format: span, zero: true,
    note: "behind the stream that is furthest",
    series: (data) => streamsIn(data, "behind").map((name, i) => ({
      label: name, values: column(data, `behind:${name}`), colour: LINES[i % LINES.length],
    })) },
  { id: "sources", title: "Lag of the sources", format: span, zero: true,
    note: "behind the slowest stream; above the dashed line the join waits for the slowest",
    when: (now) => known(now.sources),
    series: (data) => [
      { label: "slowest", values: column(data, "source_behind"), colour: "blue", width: 2 },
      ...[["99 %", "source_p99", "orange"], ["half", "source_p50", "green"]]
        .filter(([, name]) => column(data, name).some(known))
        .map(([label, name, colour]) => ({ label, values: column(data, name), colour })),
      { label: "lead", values: column(data, "lead"), colour: "quiet", dash: [6, 4], width: 1,
        stepped: true },
    ] },
  { id: "memory", title: "Tuples in memory", format: count, zero: true,
    series: (data) => [
      { label: "waiting", values: column(data, "buffered"), colour: "orange" },
      { label: "in windows and horizon", values: column(data, "kept"), colour: "blue" },
    ] },
  { id: "stages", title: "Time by stage", note: "over all cells, in a batch", format: span,
    zero: true, stacked: true,
    series: (data) => ["route", "decode", "restore", "join", "emit", "state", "report"]
      .filter((stage) => data[`stage:${stage}`])
      .map((stage, i) => ({ label: stage, values: data[`stage:${stage}`],
        colour: LINES[i % LINES.length] })) },
];

function recallRange(u, low, high) {
  if (!known(low)) return [0, 1];
  const margin = Math.max(0.005, (1 - low) * 0.15);
  return [Math.max(0, low - margin), 1 + Math.min(0.01, margin / 4)];
}

function fromZero(u, low, high) {
  return [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.08 : 1];
}

function xOf(data) {
  const planned = column(data, "planned");
  return planned.some(known)
    ? { values: planned.map((x, i) => known(x) ? x : planned[i - 1] ?? 0), time: true }
    : { values: column(data, "batch"), time: false };
}

function stack(series) {
  // Drawn from the whole down to the first part, each over the one before.
  const sums = [];
  series.forEach((part, i) => sums.push(part.values.map((v, j) =>
    (v || 0) + (i ? sums[i - 1][j] : 0))));
  return series.map((part, i) => ({ ...part, raw: part.values, values: sums[i], fill: true }))
    .reverse();
}

function card(id, title, note) {
  let node = $(`card-${id}`);
  if (!node) {
    node = document.createElement("article");
    node.className = "card";
    node.id = `card-${id}`;
    const head = document.createElement("h2");
    const plot = document.createElement("div");
    plot.className = "plot";
    node.append(head, plot);
    $("charts").append(node);
  }
  const small = document.createElement("small");
  small.textContent = note ? ` – ${note}` : "";
  node.firstChild.replaceChildren(title, small);
  return node.lastChild;
}

function draw(spec, plot, x, series) {
  const kept = board.charts.get(spec.id);
  const width = Math.max(220, plot.clientWidth);
  if (!series.length || !x.values.length) {
    if (kept) { kept.chart.destroy(); board.charts.delete(spec.id); }
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = spec.empty || "nothing yet";
    plot.replaceChildren(empty);
    return;
  }
  const data = [x.values, ...series.map((each) => each.values)];
  const signature = JSON.stringify([x.time, series.map((each) => [each.label, each.colour]),
    document.documentElement.dataset.theme]);
  if (kept && kept.signature === signature) {
    kept.series = series;
    kept.chart.setData(data, true);
    if (kept.width !== width) { kept.width = width; kept.chart.setSize({ width, height: 200 }); }
  } else {
    if (kept) kept.chart.destroy();
    plot.replaceChildren();
    const entry = { signature, series, width };
    entry.chart = new uPlot(options(spec, entry, x, width), data, plot);
    board.charts.set(spec.id, entry);
  }
  const last = (each) => spec.format((each.raw || each.values).filter(known).at(-1));
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label",
    `${spec.title}: ${series.map((each) => `${each.label} ${last(each)}`).join(", ")}`);
}

function options(spec, entry, x, width) {
  const c = colours();
  const axis = { stroke: c.quiet, grid: { stroke: c.grid, width: 1 }, ticks: { stroke: c.grid } };
  const isTime = spec.overTime !== false;
  return {
    width, height: 200, legend: { live: true },
    cursor: {
      sync: isTime ? { key: "time" } : undefined,
      drag: { x: isTime, y: false, setScale: false }, bind: { dblclick: () => () => {
        if (isTime) showWhole();
      } },
    },
    scales: { x: { time: x.time, ...(x.range ? { range: x.range } : {}) },
      y: { range: spec.range || (spec.zero ? fromZero : undefined) } },
    axes: [
      { ...axis, ...(x.axis || {}), values: x.label ? (u, ticks) => ticks.map(x.label)
        : x.time ? clockTicks : undefined, space: 70, size: 34,
        incrs: x.label === span ? SPANS : undefined },
      { ...axis, size: 64, incrs: spec.format === span ? SPANS : undefined, values: (u, ticks) => ticks.map(spec.format === share ? tick
        : spec.format) },
    ],
    series: [
      { value: (u, v) => !known(v) ? "–" : x.time ? new Date(v * 1000).toLocaleTimeString("en-GB")
        : (x.label || tick)(v), label: x.name || "" },
      ...entry.series.map((each, i) => ({
        label: each.label, stroke: c[each.colour], width: each.width ?? 1.5, dash: each.dash,
        spanGaps: each.gaps === false,
        fill: each.fill ? c[each.colour] : undefined,
        paths: each.points ? () => null : each.stepped ? uPlot.paths.stepped({ align: 1 })
          : each.bars ? beside(...each.bars) : undefined,
        points: each.points ? { show: true, size: each.size || 7, fill: c[each.colour] }
          : { show: !each.bars && entry.series.every((one) =>
            one.values.filter(known).length < 3) },
        value: (u, v, s, j) => {
          const now = entry.series[i];
          if (known(j)) return spec.format((now.raw || now.values)[j]);
          return spec.format((now.raw || now.values).filter(known).at(-1));
        },
      })),
    ],
    hooks: isTime ? { setSelect: [onSelect], draw: [drawRestarts] } : {},
  };
}

function beside(i, n) {
  // Bars of several series stand side by side: each is drawn where its turn is.
  return (u, s, from, to) => {
    const path = new Path2D();
    const wide = Math.abs(u.valToPos(1, "x", true) - u.valToPos(0, "x", true)) * 0.8;
    const each = Math.min(wide / n, 80), base = u.valToPos(0, "y", true);
    for (let j = from; j <= to; j += 1) {
      const value = u.data[s][j];
      if (!value) continue;
      const left = u.valToPos(u.data[0][j], "x", true) + (i - n / 2) * each;
      const top = u.valToPos(value, "y", true);
      path.rect(left, top, Math.max(1, each - 1), base - top);
    }
    return { stroke: null, fill: path, clip: null, flags: 1 };
  };
}

function drawRestarts(u) {
  const now = board.joins[board.at];
  if (!now || !u.scales.x.time) return;
  const c = colours();
  u.ctx.save();
  u.ctx.strokeStyle = c.quiet;
  u.ctx.setLineDash([2, 4]);
  for (const run of now.runs.slice(1)) {
    if (run.since < u.scales.x.min || run.since > u.scales.x.max) continue;
    const at = Math.round(u.valToPos(run.since, "x", true));
    u.ctx.beginPath();
    u.ctx.moveTo(at, u.bbox.top);
    u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}

// ---- zoom -------------------------------------------------------------------------------------

function onSelect(u) {
  if (u.select.width < 4) return;
  const [begin, end] = [0, u.select.width].map((at) => u.posToVal(u.select.left + at, "x"));
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (u.scales.x.time) zoomTo(begin, end);
}

function zoomTo(begin, end) {
  if (!(end > begin)) return;
  board.range = [begin, end];
  $("whole").disabled = false;
  load(true);
}

function showWhole() {
  board.range = null;
  $("whole").disabled = true;
  load(true);
}

function zoomBy(factor, shift) {
  const x = board.data && xOf(board.data);
  if (!x || !x.time || x.values.length < 2) return;
  const [begin, end] = board.range || [x.values[0], x.values.at(-1)];
  const middle = (begin + end) / 2 + shift * (end - begin), half = (end - begin) / 2 * factor;
  zoomTo(middle - half, middle + half);
}

// ---- numbers from the server ------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function load(whole) {
  const mine = ++board.asked;
  try {
    board.joins = await ask("/api/joins");
    const at = board.at;
    const old = board.data, last = old && old.batch && old.batch.length ? old.batch.at(-1) : -1;
    const again = whole || !old || old.batch.length > 3 * POINTS || board.range;
    let path = `/api/joins/${at}/series?points=${POINTS}`;
    if (!again) path += `&after=${last}`;
    if (board.range) path += `&begin=${board.range[0]}&end=${board.range[1]}`;
    const found = await ask(path);
    if (mine !== board.asked) return; // a newer question has been asked meanwhile
    board.data = again ? found.columns : joined(old, found.columns);
    $("news").textContent = board.paused ? "paused" : "";
    render();
  } catch (error) {
    $("news").textContent = "the server does not answer";
  }
}

function joined(old, more) {
  const n = old.batch.length, added = more.batch.length;
  const names = new Set([...Object.keys(old), ...Object.keys(more)]);
  const data = {};
  for (const name of names) {
    data[name] = (old[name] || Array(n).fill(null)).concat(more[name] || Array(added).fill(null));
  }
  return data;
}

// ---- the page ---------------------------------------------------------------------------------

function condition(now) {
  if (now.fault) return ["bad", "its log cannot be read"];
  if (!known(now.batch)) return ["over", now.is_read ? "no batch yet" : "reading its log"];
  if (now.has_ended) return ["over", "ended"];
  if (now.stalled) return ["bad", `${now.stalled} has stalled`];
  if (now.below_target) return ["bad", "below its target"];
  if (!now.is_read) return ["over", "reading its log"];
  const silent = Date.now() / 1000 - (now.planned || 0) - (now.took || 0);
  if (now.planned && silent > 60) return ["warn", `no batch for ${span(silent)}`];
  if (now.at_max_wait) return ["warn", "K is at max_wait"];
  if (now.streams.some((each) => each.idle)) return ["warn", "a stream is idle"];
  return ["good", now.phase === "learning" ? "learning" : "as it should be"];
}

function alarmsOf(now) {
  const found = [];
  if (!known(now.batch)) return found;
  if (now.below_target) {
    found.push(["", `Recall of the last period is ${share(now.recall)}, below its target of `
      + `${now.target}.` + (now.at_max_wait ? " K has reached max_wait." : "")]);
  }
  if (now.stalled) {
    found.push(["", `Everything waits for stream ${now.stalled}, and nothing comes of it: `
      + `${count(now.buffered)} tuples wait.`]);
  }
  if (now.sources && known(now.sources.held_by) && !now.has_ended) {
    found.push(["mild", `The join waits for source ${now.sources.held_by}, which is `
      + `${span(now.sources.held_for)} behind the slowest stream.`]);
  }
  if (now.at_max_wait && !now.below_target) {
    found.push(["mild", `K has reached max_wait (${span(now.max_wait)}): the join may not wait any `
      + "longer, and recall may fall below its target."]);
  }
  for (const each of now.streams.filter((one) => one.idle && !now.has_ended)) {
    found.push(["mild", `Stream ${each.name} is idle: the others do not wait for it.`]);
  }
  if (now.horizon_limited) {
    found.push(["mild", "horizon_memory is too small for the delays: recall is known less well."]);
  }
  return found;
}

function tile(title, value, note, isBad) {
  const node = document.createElement("div");
  node.className = isBad ? "tile is-bad" : "tile";
  const [a, b, c] = ["span", "strong", "em"].map((name) => document.createElement(name));
  [a.textContent, b.textContent, c.textContent] = [title, value, note || ""];
  if (value.length > 11) b.className = "long";
  node.append(a, b, c);
  return node;
}

function tiles(now, data) {
  const last = (name) => perSecond(data, name).filter(known).at(-1);
  const lag = column(data, "watermark_lag").filter(known).at(-1);
  return [
    tile("Wait (K)", span(now.k), now.phase || ""),
    tile("Recall", share(now.recall), known(now.target) ? `target ${now.target}` : "no target",
      now.below_target),
    tile("Settled recall", share(now.recall_settled), "newest period that is over"),
    tile("Watermark", now.has_ended ? "ended" : moment(now.watermark, now.has_dates),
      known(lag) && !now.has_ended ? `${span(lag)} behind the clock` : ""),
    tile("Tuples a second", count(last("arrived")), `${count(now.totals.arrived)} in all`),
    tile("Results a second", count(last("produced")), `${count(now.totals.produced)} in all`),
    tile("Lost results", count(now.totals.lost), `${count(now.totals.late)} late tuples`),
    tile("Latency", span(now.latency), "mean wait of results"),
    tile("Batch", span(now.took), `number ${now.batch}`),
    tile("Waiting", count(now.buffered),
      `tuples, in ${now.n_cells} ${now.n_cells > 1 ? "cells" : "cell"}`),
  ];
}

function table(id, head, rows, none) {
  const node = $(id);
  const row = (cells, kind) => {
    const line = document.createElement("tr");
    for (const text of cells) {
      const cell = document.createElement(kind);
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };
  const top = document.createElement("thead"), body = document.createElement("tbody");
  top.append(row(head, "th"));
  body.append(...(rows.length ? rows : [[none]]).map((cells) => row(cells, "td")));
  node.replaceChildren(top, body);
}

function tables(now) {
  table("streams", ["stream", "time", "behind", "lag", "tuples/s", "tuples", "late", ""],
    now.streams.map((each) => [each.name, shortMoment(each.time, now.has_dates), span(each.behind),
      span(each.lag), count(each.rate), count(each.arrived), count(each.late),
      each.name === now.stalled ? "stalled" : each.idle ? "idle" : ""]));
  $("of-sources").hidden = !now.sources;
  if (now.sources) showSources(now.sources);
  const lost = now.lost.counts[0] || [];
  const why = now.lost.upto.map((upto, i) => [i === 0 ? "a member came just too late"
    : `would have needed a wait of up to ${span(upto).replace(" ", "\u00a0")}`, count(lost[i])]).filter((_, i) => lost[i]);
  if (now.totals.beyond) why.push(["unknown: late tuples beyond the horizon", count(now.totals.beyond)]);
  if (now.totals.released_early) {
    why.push(["tuples released early, as too many waited", count(now.totals.released_early)]);
  }
  if (now.totals.false_nulls) why.push(["rows without a partner in error", count(now.totals.false_nulls)]);
  table("why", ["in the last ten periods", "number"], why, "nothing was lost");
  table("refused", ["stream and reason", "rows"],
    now.refused.map((each) => [`${each.stream}: ${each.reason}`, count(each.n)]),
    "no row was refused");
}

function still(now) {
  const forecast = reaching(now.forecast || { k: [], recall: [] }, now.k);
  const spec = { overTime: false };
  draw({ ...spec, id: "forecast", title: "Recall that other waits would have given", format: share,
    range: recallRange, empty: "not known yet; the policy `slack` tells it" },
  card("forecast", "Recall that other waits would have given", "over the last period; the dot is now"),
  { values: forecast.k, time: false, name: "K", label: span }, forecast.k.length ? [
    { label: "recall", values: forecast.recall, colour: "blue", width: 2, stepped: true },
    { label: "target", values: forecast.k.map(() => now.target), colour: "quiet", dash: [6, 4],
      width: 1 },
    { label: "now", colour: "red", points: true, size: 10, values: present(forecast, now.k) },
  ] : []);
  const bins = now.delays.upto.map((_, i) => i);
  const named = (i) => !Number.isInteger(i) || !known(now.delays.upto[i]) ? "" : i === 0 ? "none"
    : `≤ ${span(now.delays.upto[i])}`;
  const whole = (u) => [-0.6, bins.length - 0.4];
  draw({ ...spec, id: "delays", title: "Delays of the streams", format: shareOf, zero: true },
    card("delays", "Delays of the streams", "share of the tuples of the last ten periods"),
    { values: bins, time: false, name: "delay", label: named, range: whole,
      axis: { splits: (u) => {
        const step = Math.ceil(bins.length / (u.width < 420 ? 3 : 5));
        return bins.filter((i) => i % step === 0);
      } } },
    now.streams.map((each, i) => {
      const counts = now.delays.counts[i] || [], all = counts.reduce((a, b) => a + b, 0);
      return { label: each.name, values: counts.map((n) => all ? n / all : 0),
        colour: LINES[i % LINES.length], bars: [i, now.streams.length], fill: true };
    }));
  draw({ ...spec, id: "cells", title: "Load of the cells", format: count, zero: true },
    card("cells", "Load of the cells", "tuples and results in a batch, mean of the last 20"),
    { values: now.loads.map((_, i) => i), time: false, name: "cell",
      label: (i) => Number.isInteger(i) ? `${i}` : "", range: () => [-0.6, now.loads.length - 0.4],
      axis: { splits: () => now.loads.map((_, i) => i).filter((i) =>
        i % Math.ceil(now.loads.length / 16) === 0) } },
    [{ label: "load", values: now.loads, colour: "blue", bars: [0, 1], fill: true }]);
}

const shareOf = (x) => !known(x) ? "–" : `${+(100 * x).toPrecision(3)} %`;

function reaching(forecast, k) {
  // A longer wait than all that were needed gives what the longest of them gives.
  if (!forecast.k.length || forecast.k.at(-1) >= k) return forecast;
  return { k: [...forecast.k, k], recall: [...forecast.recall, forecast.recall.at(-1)] };
}

function present(forecast, k) {
  // The point of the curve nearest to K.
  let best = 0;
  forecast.k.forEach((x, i) => { if (Math.abs(x - k) < Math.abs(forecast.k[best] - k)) best = i; });
  return forecast.k.map((_, i) => i === best ? forecast.recall[i] : null);
}

// Joins of one name are told apart by the end of their folders, as long as need be.
function nameOf(now) {
  const twins = board.joins.filter((one) => one !== now && one.name === now.name);
  if (!twins.length) return now.name;
  const parts = (one) => one.folder.replace(/\/+$/, "").split("/");
  const tail = (one, n) => parts(one).slice(-n).join("/");
  let n = 1;
  while (n < parts(now).length && twins.some((one) => tail(one, n) === tail(now, n))) n += 1;
  return tail(now, n);
}

function tabs() {
  $("joins").replaceChildren(...board.joins.map((now, i) => {
    const button = document.createElement("button");
    const dot = document.createElement("span");
    const [kind, words] = condition(now);
    dot.className = `dot ${kind}`;
    button.type = "button";
    button.setAttribute("role", "tab");
    button.setAttribute("aria-selected", String(i === board.at));
    button.append(dot, `${nameOf(now)}: ${words}`);
    button.onclick = () => choose(i);
    return button;
  }));
}

function render() {
  const now = board.joins[board.at], data = board.data;
  if (!now || !data) return;
  document.title = `${now.name}: ${condition(now)[1]} – recalljoin`;
  tabs();
  $("fault").hidden = !now.fault;
  $("fault").textContent = now.fault || "";
  const alarms = alarmsOf(now);
  $("alarms").hidden = !alarms.length;
  $("alarms").replaceChildren(...alarms.map(([kind, words]) => {
    const node = document.createElement("p");
    node.className = `alarm ${kind}`;
    node.textContent = words;
    return node;
  }));
  $("folder").textContent = `Control log: ${now.folder}; ${count(now.n_batches)} batches, `
    + `${now.runs.length || 1} ${now.runs.length > 1 ? "runs" : "run"}`;
  $("text").textContent = now.text;
  if (!known(now.batch)) { $("tiles").replaceChildren(); return; }
  $("tiles").replaceChildren(...tiles(now, data));
  const x = xOf(data);
  if (board.range) x.range = () => board.range;
  for (const spec of OVER_TIME) {
    if (spec.when && !spec.when(now)) continue;
    const series = spec.series(data, now);
    const note = typeof spec.note === "function" ? spec.note(data) : spec.note;
    draw(spec, card(spec.id, spec.title, note), x, spec.stacked ? stack(series) : series);
    if (spec.id === "lost") still(now);
  }
  tables(now);
}

function choose(i) {
  if (i >= board.joins.length || i === board.at) return;
  board.at = i;
  board.data = null;
  board.range = null;
  $("whole").disabled = true;
  $("find-source").value = "";
  clear();
  load(true);
}

function clear() {
  board.charts.forEach((entry) => entry.chart.destroy());
  board.charts.clear();
  $("charts").replaceChildren();
}

function pause() {
  board.paused = !board.paused;
  $("pause").setAttribute("aria-pressed", String(board.paused));
  $("pause").textContent = board.paused ? "Go on" : "Pause";
  $("news").textContent = board.paused ? "paused" : "";
  if (!board.paused) load(true);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (board.data) { clear(); render(); }
}

function otherTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", theme); } catch (error) { /* not allowed here */ }
  setTheme(theme);
}

function help() {
  if ($("help").open) $("help").close(); else $("help").showModal();
}

const KEYS = {
  " ": pause, p: pause, 0: showWhole, "+": () => zoomBy(0.5, 0), "=": () => zoomBy(0.5, 0),
  "-": () => zoomBy(2, 0), ArrowLeft: () => zoomBy(1, -0.25), ArrowRight: () => zoomBy(1, 0.25),
  t: otherTheme, "?": help, "/": findSource,
};

function findSource() {
  if (!$("of-sources").hidden && !$("find").hidden) $("find-source").focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest && event.target.closest("input")) return; // somebody writes
  const scrolls = event.target.closest && event.target.closest(".tall");
  if (scrolls && (event.key === " " || event.key.startsWith("Arrow"))) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const onButton = event.target.closest && event.target.closest("button, summary");
  if (onButton && (event.key === " " || event.key === "Enter")) return;
  const key = KEYS[event.key] || (/^[1-9]$/.test(event.key) && (() => choose(+event.key - 1)));
  if (!key) return;
  event.preventDefault();
  key();
});

let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => render(), 150);
});
$("pause").onclick = pause;
$("whole").onclick = showWhole;
$("theme").onclick = otherTheme;
$("keys").onclick = help;

for (const head of document.querySelectorAll("th[data-by]")) {
  head.firstChild.onclick = () => { sortSourcesBy(head.dataset.by); render(); };
}
$("find-source").oninput = () => render();

let saved = null;
try { saved = localStorage.getItem("theme"); } catch (error) { /* not allowed here */ }
const dark = matchMedia("(prefers-color-scheme: dark)");
setTheme(saved || (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!saved) setTheme(dark.matches ? "dark" : "light"); });

load(true);
setInterval(() => {
  if (board.paused || document.hidden) return;
  board.polls += 1;
  load(board.polls % WHOLE_EVERY === 0);
}, POLL);
