// Charts: uPlot for the eye, and the same numbers as a table for everybody else.

import uPlot from "./vendor/uPlot.esm.js";
import { compact, el, table, time } from "./dom.js";

/** Rows of a table at most; a chart may have thousands of points. */
const MOST_ROWS = 300;
const HEIGHT = 220;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const charts = new Map();

/**
 * Shows, or brings up to date, the chart in an element. `about` has:
 * `label` (what it says, in one sentence), `x` (numbers), `isTime`, `lines` ([{name, color, values, isBars}]), `unit` (of values, for
 * people), `marks` ([{x, color, dashes}]), `legend` ([{name, color, dashes}]) and `rows` ({heads, rows}) for the table.
 */
export function show(host, about) {
  const shape = JSON.stringify(about.lines.map((line) => [line.name, line.isBars ?? false]));
  let chart = charts.get(host);
  if (!chart || chart.shape !== shape) {
    clear(host);
    chart = build(host, shape);
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
export function repaint() {
  for (const chart of charts.values()) {
    chart.plot?.destroy();
    chart.plot = null;
    draw(chart);
  }
}

function build(host, shape) {
  const canvas = el("div", { role: "img", class: "plot" });
  const legend = el("ul", { class: "legend", "aria-hidden": "true" });
  const holder = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Data" });
  const details = el("details", {}, el("summary", {}, "Data as a table"), holder);
  host.replaceChildren(legend, canvas, details);
  const chart = { canvas, legend, holder, shape, plot: null, about: null };
  chart.observer = new ResizeObserver(() => {
    chart.plot?.setSize({ width: canvas.clientWidth, height: HEIGHT });
  });
  chart.observer.observe(canvas);
  return chart;
}

function draw(chart) {
  const { about } = chart;
  chart.canvas.setAttribute("aria-label", `${about.label} The same is in the table below.`);
  const data = [about.x, ...about.lines.map((line) => line.values)];
  if (chart.plot) chart.plot.setData(data);
  else chart.plot = new uPlot(options(chart), data, chart.canvas);
  const item = ({ name, color, dashes }) => {
    const swatch = el("span", { class: `swatch ${color}${dashes ? " dashes" : ""}` });
    return el("li", {}, swatch, name);
  };
  chart.legend.replaceChildren(...(about.legend ?? about.lines).map(item));
  const { heads, rows } = about.rows;
  chart.holder.setAttribute("aria-label", `${about.label} Data`);
  const shown = rows.slice(-MOST_ROWS);
  const rest = rows.length - shown.length;
  chart.holder.replaceChildren(
    rest ? el("p", { class: "muted" }, `The newest ${MOST_ROWS} of ${rows.length}.`) : "",
    table(about.label, heads, shown),
  );
}

function options(chart) {
  const axis = { stroke: color("muted"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 } };
  const font = "12px system-ui, sans-serif";
  const isTime = chart.about.isTime ?? true;
  const line = (line) => ({
    label: line.name,
    stroke: color(line.color),
    fill: line.isBars ? color(line.color) : undefined,
    width: line.isBars ? 0 : 2,
    paths: line.isBars ? uPlot.paths.bars({ size: [0.7, 28] }) : line.isSteps ? uPlot.paths.stepped({ align: 1 }) : undefined,
    points: { show: !line.isBars && chart.about.x.length < 40 },
  });
  return {
    width: chart.canvas.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { setScale: false } },
    scales: { x: { time: isTime }, y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.08] } },
    axes: [
      { ...axis, font, space: 64, values: isTime ? moments : undefined },
      { ...axis, font, size: 56, values: (_, values) => values.map((value) => `${compact(value)}${chart.about.unit ?? ""}`) },
    ],
    series: [{}, ...chart.about.lines.map(line)],
    hooks: { draw: [(plot) => marks(plot, chart.about.marks ?? [])] },
  };
}

/** Day or time of day, whichever tells more; with the first time, and with each of another day, the day. */
function moments(_, seconds) {
  let before = "";
  return seconds.map((second) => {
    const [day, clock] = time(second * 1000).split(" ");
    const isAnother = day !== before;
    before = day;
    const short = day.slice(5);
    if (clock === "00:00") return short;
    return isAnother ? `${clock}\n${short}` : clock;
  });
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
