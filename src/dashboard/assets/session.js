// One session: its context by call, what pruning saves in it, its learnings, and the conversation.

import { ask, path } from "./api.js";
import * as charts from "./charts.js";
import { offerNewTurns, read } from "./conversation.js";
import { ago, byId, compact, dotted, el, many, nameOf, number, percent, project, replaceKeepingFocus, shortId, time, tokens, usd } from "./dom.js";
import { learningRow } from "./learnings.js";
import { highlights } from "./sessions.js";

const MARKS = {
  compaction: { name: "compaction", color: "bad" },
  blocked: { name: "compaction that was blocked", color: "warn", dashes: true },
  announced: { name: "compaction without a summary", color: "warn" },
  prune: { name: "drop without a compaction, as by pruning", color: "good", dashes: true },
};

let chosen = null;
let shownAt = null;
let turns = 0;

/** Opens a session at a turn, if one is given, with what was searched for marked. */
export async function open(id, at, words) {
  const isOther = id !== chosen;
  chosen = id;
  if (isOther) {
    charts.clear(byId("replayed"));
    byId("turns").replaceChildren();
    byId("replay").disabled = false;
  }
  const place = `${id} ${at} ${words}`;
  const isMoved = isOther || place !== shownAt;
  shownAt = place;
  const reading = isMoved ? read(id, at ?? "0", words ? highlights(words) : []) : null;
  const [series, learned] = await Promise.all([ask(path("session", id)), ask(path("learned", id)), reading]);
  if (chosen !== id) return null;
  about(series);
  byId("learned").hidden = !learned.learnings.length;
  byId("learned").querySelector("summary").textContent = `${learned.has_more ? "Show the first" : "Show"} ${many(learned.learnings.length, "learning")}`;
  replaceKeepingFocus(byId("learned-list"), learned.learnings.map((learning) => learningRow(learning, false)));
  if (!isOther && series.session.turns > turns) offerNewTurns();
  turns = series.session.turns;
  return nameOf(series.session);
}

function about({ session, unit, count, points, marks }) {
  byId("session-title").textContent = nameOf(session);
  const optimized = session.optimized ? many(session.optimized, "optimize cycle") : null;
  const window = session.window_tokens ? `window of ${tokens(session.window_tokens)}` : null;
  byId("session-about").replaceChildren(...dotted(
    el("span", { title: session.folder }, project(session.folder) ?? "?"), ago(session.last_ms), session.model, window, many(session.turns, "turn"),
    count && unit === "call" ? many(count, "call") : null, optimized, el("code", {}, shortId(session.session))));
  saved(session.saved);
  context(unit, points, marks);
}

function context(unit, points, marks) {
  byId("context-title").textContent = `Context by ${unit}`;
  if (!points.length) {
    charts.clear(byId("context"), el("p", { class: "muted" }, "The client did not tell how large the context was."));
    return;
  }
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
  const counts = kinds.map((kind) => `${MARKS[kind].name}: ${marks.filter((mark) => mark.kind === kind).length}`);
  const happened = marks.map((mark) => [mark.at_ms, MARKS[mark.kind].name, mark.after_tokens]);
  const sizes = points.map(([at, ms, size]) => [ms, `${unit} ${number(at)}`, size]);
  const rows = [...sizes, ...happened].sort((a, b) => a[0] - b[0]);
  charts.show(byId("context"), {
    label: `Context of the session at each ${unit}, up to ${tokens(Math.max(...points.map(([, , size]) => size)))}. ${counts.join("; ")}`,
    x: points.map(([at]) => at),
    step: 1, height: 190,
    lines: [{ name: "context in tokens", color: "accent", values: points.map(([, , size]) => size) }],
    // It happened between two of them.
    marks: marks.map((mark) => ({ x: mark.behind + 0.5, ...MARKS[mark.kind] })),
    legend: [{ name: "context in tokens", color: "accent" }, ...kinds.map((kind) => MARKS[kind])],
    rows: { heads: ["Time", "Event", "Context in tokens"], rows: rows.map(([at, what, size]) => [time(at), what, size == null ? "–" : number(size)]) },
  });
}

/** What pruning saves, as far as the session was replayed in the background. */
function saved(known) {
  if (!known) {
    byId("saved").textContent = "Not replayed yet.";
    return;
  }
  const { compactions_avoided, saved_tokens, saved_usd } = known;
  const money = saved_usd < -0.005 ? `${usd(-saved_usd)} more would be spent` : saved_usd < 0.005 ? "The cost stays the same" : `${usd(saved_usd)} saved`;
  const sent = saved_tokens < 0 ? `${compact(-saved_tokens)} more tokens sent` : `${compact(saved_tokens)} tokens not sent`;
  const avoided = compactions_avoided ? `, ${many(compactions_avoided, "compaction")} avoided` : "";
  byId("saved").textContent = `${money}, ${sent}${avoided}.`;
}

async function replay() {
  const id = chosen;
  byId("replay").disabled = true;
  charts.clear(byId("replayed"), el("p", { class: "muted" }, "Replaying …"));
  try {
    const all = await ask(path("savings", id));
    if (chosen === id) compared(all);
  } catch (error) {
    if (chosen === id) charts.clear(byId("replayed"), el("p", {}, error.message));
  }
  byId("replay").disabled = false;
}

function compared({ without, pruned, saved_tokens, saved_usd, answers, model, prices_dated }) {
  const part = without.cost_usd > 0 ? ` (${percent(Math.abs(saved_usd) / without.cost_usd)})` : "";
  const said = saved_usd < 0 ? `Pruning would cost ${usd(-saved_usd)} more${part}` : `Pruning saves ${usd(saved_usd)}${part}`;
  const before = { compactions_avoided: without.compactions - pruned.compactions, saved_tokens, saved_usd };
  saved(before);
  const x = [...new Set([...without.contexts, ...pruned.contexts].map(([call]) => call))].sort((a, b) => a - b);
  const line = ({ contexts }) => {
    const values = new Map(contexts);
    let last = null;
    return x.map((call) => (last = values.get(call) ?? last));
  };
  const row = (name, key, shown) => [name, shown(without[key]), shown(pruned[key])];
  const share = (name, part, all) => [name, ...[without, pruned].map((totals) => (totals[all] ? percent(totals[part] / totals[all]) : "–"))];
  charts.show(byId("replayed"), {
    label: `Context at each of ${many(answers, "answer")} of ${model}, without and with pruning, at prices of ${prices_dated}. ${said}.`,
    x, step: 1, height: 190,
    lines: [
      { name: "without pruning", color: "warn", values: line(without) },
      { name: "with pruning", color: "good", values: line(pruned) },
    ],
    rows: {
      heads: ["", "Without", "With pruning"],
      rows: [
        row("Tokens sent", "input_tokens", number), row("of them read from the cache", "cache_read_tokens", number), row("Cost", "cost_usd", usd),
        row("Largest request in tokens", "peak_tokens", number), row("Compactions", "compactions", number),
        share("Word for word in the last request", "verbatim_chars", "text_chars"), share("References lost", "lost_references", "references"),
        share("Blind edits", "blind_edits", "edits"),
      ],
    },
  });
}

byId("replay").addEventListener("click", replay);
