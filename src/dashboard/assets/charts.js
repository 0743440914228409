// Charts: uPlot for the eye, and the same numbers as a table for everybody else.

import uPlot from "./vendor/uPlot.esm.js";
import { compact, el, table } from "./dom.js";

/** Rows of a table at most; a chart may have thousands of points. */
const MOST_ROWS = 300;
/** Slots of a bar chart at least, so that one or two bars do not fill it. */
const FEWEST_SLOTS = 8;
/** Width that a label below a chart needs. */
const LABEL_PIXELS = 64;
/** The same for a number. */
const NUMBER_PIXELS = 44;
/** Width of the y axis. */
const AXIS_PIXELS = 58;
/** Room at the right, where half of the last label stands. */
const EDGE_PIXELS = 20;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const charts = new Map();

/**
 * Shows, or brings up to date, the chart in an element. `about` has:
 * `label` (what it says, in one sentence), `labels` (one below each value) or `x` (numbers, from 1), `lines` ([{name, color, values,
 * isBars}]), `tick` (of values, for people), `step` (the smallest of the y axis), `height`, `marks` ([{x, color, dashes}]), `legend`
 * ([{name, color, dashes}]) and `rows` ({heads, rows}) for the table, which may stand elsewhere.
 */
export function show(host, about) {
  const shape = JSON.stringify(about.lines.map((line) => [line.name, line.isBars ?? false]));
  let chart = charts.get(host);
  if (!chart || chart.shape !== shape) {
    clear(host);
    chart = build(host, shape, about);
    charts.set(host, chart);
  }
  chart.about = about;
  draw(chart);
}

/** Leaves a sentence in place of a chart. */
export function clear(host, ...said) {
  const chart = charts.get(host);
  chart?.plot?.destroy();
  chart?.observer.disconnect();
  charts.delete(host);
  host.replaceChildren(...said);
}

/** With the colors as they are now. */
function repaint() {
  for (const chart of charts.values()) {
    chart.plot?.destroy();
    chart.plot = null;
    draw(chart);
  }
}

function build(host, shape, { rows, height = 220 }) {
  const canvas = el("div", { role: "img", class: "plot" });
  canvas.style.height = `${height}px`;
  const legend = el("ul", { class: "legend", "aria-hidden": "true" });
  const holder = rows ? el("div", { class: "scroll", tabindex: "0", role: "region" }) : null;
  const details = rows ? el("details", {}, el("summary", {}, "Data as a table"), holder) : null;
  host.replaceChildren(legend, canvas, ...(details ? [details] : []));
  const chart = { canvas, legend, holder, shape, height, plot: null, about: null };
  chart.observer = new ResizeObserver(() => {
    if (!canvas.clientWidth) return;
    if (chart.plot) chart.plot.setSize({ width: canvas.clientWidth, height });
    else if (chart.about) draw(chart);
  });
  chart.observer.observe(canvas);
  return chart;
}

function draw(chart) {
  const { about } = chart;
  chart.canvas.setAttribute("aria-label", about.rows ? `${about.label} The same is in the table below.` : about.label);
  const x = about.labels ? about.labels.map((_, at) => at) : about.x;
  const data = [x, ...about.lines.map((line) => line.values)];
  // In a view that is not shown there is no room yet; the observer tells when there is.
  if (chart.plot) chart.plot.setData(data);
  else if (chart.canvas.clientWidth) chart.plot = new uPlot(options(chart), data, chart.canvas);
  const item = ({ name, color, dashes }) => el("li", {}, el("span", { class: `swatch ${color}${dashes ? " dashes" : ""}` }), name);
  const legend = about.legend ?? about.lines;
  chart.legend.hidden = legend.length < 2;
  chart.legend.replaceChildren(...legend.map(item));
  if (!about.rows) return;
  const { heads, rows } = about.rows;
  chart.holder.setAttribute("aria-label", `${about.label} Data`);
  const shown = rows.slice(-MOST_ROWS);
  const rest = rows.length - shown.length;
  chart.holder.replaceChildren(
    rest ? el("p", { class: "muted" }, `The newest ${MOST_ROWS} of ${rows.length}.`) : "",
    table(about.label, heads, shown),
  );
}

/** A step of 1, 2 or 5 times a power of ten, so that a range has at most so many of them. */
export function niceStep(range, most, smallest) {
  const rough = Math.max(range / most, smallest);
  const power = 10 ** Math.floor(Math.log10(rough) + 1e-9);
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough * (1 - 1e-9));
}

/** The y axis: from zero, or below if there is something below, to a tick above all. */
function upright(low, high, about, height) {
  const bottom = Math.min(low ?? 0, 0);
  const top = Math.max(high ?? 0, 0);
  const step = niceStep(top - bottom, Math.max(2, Math.floor(height / 45)), about.step ?? 1);
  const from = Math.floor(bottom / step) * step;
  return { from, to: Math.max(Math.ceil(top / step), from === 0 ? 1 : 0) * step, step };
}

/** The x axis: a slot for each label, or the numbers with a little room. */
function along(about) {
  if (!about.labels) {
    const last = about.x.at(-1) ?? 1;
    const room = last < 3 ? 0.5 : 0;
    return [1 - room, last + room];
  }
  const missing = Math.max(0, FEWEST_SLOTS - about.labels.length) / 2;
  return [-0.5 - missing, about.labels.length - 0.5 + missing];
}

/** Positions below which a label stands: the newest, and others as far as there is room. */
function ticksAlong(about, width) {
  const most = Math.max(2, Math.floor(width / (about.labels ? LABEL_PIXELS : NUMBER_PIXELS)));
  if (!about.labels) {
    const last = about.x.at(-1) ?? 1;
    const step = niceStep(last, most, 1);
    const ticks = Array.from({ length: Math.floor(last / step) }, (_, at) => (at + 1) * step);
    return step === 1 ? ticks : [1, ...ticks];
  }
  const [first, last] = along(about);
  const every = Math.ceil((last - first) / most);
  return about.labels.map((_, at) => at).filter((at) => (about.labels.length - 1 - at) % every === 0);
}

/** Texts at the axes of a chart. */
export const ticks = (host) => ticksOf(charts.get(host));

function ticksOf({ about, height, canvas }) {
  const { from, to, step } = uprightOf(about, height);
  const values = Array.from({ length: Math.round((to - from) / step) + 1 }, (_, at) => from + at * step);
  const positions = ticksAlong(about, canvas.clientWidth - AXIS_PIXELS - EDGE_PIXELS);
  return { x: positions.map((tick) => below(about, tick)), y: values.map(about.tick ?? compact), values, positions };
}

const below = (about, tick) => about.labels?.[tick] ?? compact(tick);

function uprightOf(about, height) {
  const values = about.lines.flatMap((line) => line.values).filter((value) => value != null);
  return upright(Math.min(...values), Math.max(...values), about, height);
}

function options(chart) {
  const axis = { stroke: color("muted"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false } };
  const font = "12px system-ui, sans-serif";
  const about = () => chart.about;
  const line = (line) => ({
    label: line.name,
    stroke: color(line.color),
    fill: line.isBars ? color(line.color) : undefined,
    width: line.isBars ? 0 : 2,
    paths: line.isBars ? uPlot.paths.bars({ size: [0.7, 28] }) : undefined,
    points: { show: !line.isBars && line.values.filter((value) => value != null).length < 40 },
  });
  const { height } = chart;
  const at = () => ticksOf(chart);
  return {
    width: chart.canvas.clientWidth,
    height,
    padding: [8, EDGE_PIXELS, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => along(about()) },
      y: { range: () => [at().values[0], at().values.at(-1)] },
    },
    axes: [
      {
        ...axis, font, size: 28, gap: 6, grid: { show: false },
        splits: () => at().positions,
        values: () => at().x,
      },
      {
        ...axis, font, size: AXIS_PIXELS, gap: 6,
        splits: () => at().values,
        values: () => at().y,
      },
    ],
    series: [{}, ...about().lines.map(line)],
    hooks: { draw: [(plot) => marks(plot, about().marks ?? [])] },
  };
}

/** Upright lines where something happened. */
function marks(plot, list) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = 2 * devicePixelRatio;
  for (const mark of list) {
    const x = plot.valToPos(mark.x, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    ctx.strokeStyle = color(mark.color);
    ctx.setLineDash(mark.dashes ? [4 * devicePixelRatio, 4 * devicePixelRatio] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
