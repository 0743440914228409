// The first view: what pruning saves, what memory was used, what happened lately.

import { ask } from "./api.js";
import * as charts from "./charts.js";
import { ago, byId, bytes, compact, dotted, el, many, nameOf, number, percent, replaceKeepingFocus, table, usd } from "./dom.js";
import { turnLink, sessionRow } from "./sessions.js";

/** How often to ask for savings while sessions are still being replayed. */
const EVERY_MS = 3000;
/** Number of sessions in the list. */
const RECENT = 6;

let totalTimer = 0;
let wasPending = false;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `Nov 23`, or `Nov 2026` of a month. */
export function dayLabel(day, length = "day") {
  const [year, month, date] = day.split("-").map(Number);
  return length === "month" ? `${MONTHS[month - 1]} ${year}` : `${MONTHS[month - 1]} ${date}`;
}

/** The archive in numbers, as `ctxbridge archive status` counts them. */
export function overview(all) {
  byId("empty").hidden = !all.is_empty;
  const learnings = all.learnings.reduce((sum, [, count]) => sum + count, 0);
  const facts = [
    ["Sessions", number(all.sessions)],
    ["Turns", number(all.turns)],
    ["Compactions", number(all.compactions)],
    ["Learnings", number(learnings)],
    ["Archive", bytes(all.bytes_stored), `of ${bytes(all.bytes_raw)} of transcripts`],
  ];
  const fact = ([name, value, more]) =>
    el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, value, more ? el("span", { class: "muted" }, more) : null));
  byId("numbers").replaceChildren(...facts.map(fact));
  days(all.days);
}

/** The newest sessions. */
export function recent(list) {
  replaceKeepingFocus(byId("recent"), list.slice(0, RECENT).map(sessionRow));
  if (!list.length) byId("recent").replaceChildren(el("li", { class: "muted" }, "There is none yet."));
  byId("recent-more").hidden = list.length <= RECENT;
}

/** What pruning saves over all sessions: they are replayed in the background, and `done` is called once all are. */
export async function savings(done) {
  const all = await ask("total");
  byId("savings").hidden = all.sessions + all.pending === 0;
  heroes(all);
  const about = [];
  if (all.sessions) {
    about.push(`Estimated: ${many(all.sessions, "session")}, each replayed without and with pruning by your settings, at the API's prices of ${all.prices_dated}: ${all.tally}.`);
  }
  if (all.left_out) about.push(`Left out, as the model did not answer or they are too large: ${number(all.left_out)}.`);
  if (all.pending) about.push(`Still being replayed: ${number(all.pending)}.`);
  if (byId("savings-about").textContent !== about.join(" ")) byId("savings-about").textContent = about.join(" ");
  clearTimeout(totalTimer);
  if (all.pending) totalTimer = setTimeout(() => savings(done).catch(() => {}), EVERY_MS);
  else if (wasPending) done();
  wasPending = all.pending > 0;
}

function heroes({ sessions, compactions_avoided, saved_tokens, saved_usd, without, pruned, over_time }) {
  const cost = (value, plain, costly) => (value < 0 ? costly : plain);
  const share = (part, whole) => (whole > 0 ? ` (${percent(Math.abs(part) / whole)})` : "");
  const kinds = [
    {
      id: "avoided", key: "compactions_avoided", tick: number, shown: number, step: 1, value: compactions_avoided,
      name: cost(compactions_avoided, "Compactions avoided", "More compactions"),
      about: `${number(pruned.compactions)} instead of ${number(without.compactions)}`,
    },
    {
      id: "tokens", key: "saved_tokens", tick: compact, shown: compact, step: 1, value: saved_tokens,
      name: cost(saved_tokens, "Tokens not sent", "More tokens sent"),
      about: `${compact(pruned.input_tokens)} instead of ${compact(without.input_tokens)}${share(saved_tokens, without.input_tokens)}`,
    },
    {
      id: "dollars", key: "saved_usd", tick: (value) => (Number.isInteger(value) ? usd(value).replace(".00", "") : usd(value)), shown: usd, step: 0.01, value: saved_usd,
      name: cost(saved_usd, "Dollars saved", "More dollars spent"),
      about: `${usd(pruned.cost_usd)} instead of ${usd(without.cost_usd)}${share(saved_usd, without.cost_usd)}`,
    },
  ];
  if (!byId("hero-avoided")) {
    const hero = ({ id }) => el("div", { class: "hero", id: `hero-${id}` }, el("h3", {}), el("p", { class: "figure" }), el("p", { class: "about" }), el("div", { class: "chart" }));
    byId("heroes").replaceChildren(...kinds.map(hero));
  }
  const { length, periods } = over_time;
  for (const { id, key, name, value, about, tick, shown, step } of kinds) {
    const hero = byId(`hero-${id}`);
    hero.querySelector("h3").textContent = name;
    const figure = hero.querySelector(".figure");
    figure.textContent = sessions ? shown(Math.abs(value)) : "…";
    figure.className = `figure ${value > 0 ? "good" : value < 0 ? "bad" : ""}`;
    hero.querySelector(".about").textContent = sessions ? about : "Replaying your sessions";
    const host = hero.querySelector(".chart");
    if (!periods.length) charts.clear(host);
    else {
      charts.show(host, {
        label: `${name} by ${length}, from ${periods[0].from} on: ${shown(Math.abs(value))} in all.`,
        labels: periods.map((period) => dayLabel(period.from, length)),
        lines: [{ name, color: value < 0 ? "bad" : "good", isBars: true, values: periods.map((period) => period[key]) }],
        tick, step, height: 130,
      });
    }
  }
  byId("savings-data").hidden = !periods.length;
  const rows = periods.filter((period) => period.sessions).map((period) =>
    [period.from, number(period.sessions), number(period.compactions_avoided), number(period.saved_tokens), usd(period.saved_usd)]);
  const heads = [{ day: "Day", week: "Week from", month: "Month from" }[length], "Sessions", "Compactions avoided", "Tokens not sent", "Saved"];
  byId("savings-data").querySelector(".scroll").replaceChildren(table("Savings over time", heads, rows));
}

function days(list) {
  if (!list.some((day) => day.done + day.blocked + day.announced)) {
    charts.clear(byId("days"), el("p", { class: "muted" }, "None in the last 30 days."));
    return;
  }
  const sum = list.reduce((sum, day) => sum + day.done, 0);
  charts.show(byId("days"), {
    label: `Compactions per day in the last 30 days: ${sum} in all.`,
    labels: list.map((day) => dayLabel(day.day)),
    step: 1, height: 160,
    // The taller bar is drawn first, and stands behind.
    lines: [
      { name: "done, blocked or without a summary", color: "warn", isBars: true, values: list.map((day) => day.done + day.blocked + day.announced) },
      { name: "done", color: "accent", isBars: true, values: list.map((day) => day.done) },
    ],
    legend: [{ name: "done", color: "accent" }, { name: "blocked, or without a summary", color: "warn" }],
    rows: {
      heads: ["Day", "Done", "Blocked", "Without a summary"],
      rows: list.map((day) => [day.day, number(day.done), number(day.blocked), number(day.announced)]),
    },
  });
}

/** Turns that came back into a conversation. */
export async function memory() {
  const { turns, sessions, most } = await ask("memory");
  const lately = turns
    ? `In the last 30 days, ${many(turns, "earlier turn")} came back into ${many(sessions, "session")}: after a compaction, or beside a prompt that had to do with them.`
    : "Nothing came back into a conversation in the last 30 days. Hooks bring turns back after a compaction, and beside prompts.";
  byId("memory-about").textContent = lately;
  const used = (turn) =>
    el("li", {}, el("a", { class: "row", href: turnLink(turn.session, turn.handle), "data-key": turn.handle },
      el("span", { class: "name" }, turn.summary || turn.handle),
      el("span", { class: "side muted" }, many(turn.times, "time")),
      el("span", { class: "muted" }, ...dotted(nameOf(turn), ago(turn.at_ms)))));
  replaceKeepingFocus(byId("memory"), most.map(used));
}
