// The page: asks for what it shows, and asks again when something changed.

import * as charts from "./charts.js";
import { byId, bytes, el, many, ms, number, percent, table, time, tokens, usd } from "./dom.js";

/** How often to ask whether something changed; nothing is asked while nobody looks. */
const EVERY_MS = 3000;
/** How often to look at patch, mod and hooks, which takes longer. */
const STATE_EVERY_MS = 5 * 60 * 1000;

const MARKS = {
  compaction: { name: "compaction", color: "bad" },
  blocked: { name: "compaction that was blocked", color: "warn", dashes: true },
  announced: { name: "compaction without a summary", color: "warn" },
  prune: { name: "drop without a compaction: pruned", color: "good", dashes: true },
};

let mark = null;
let chosen = null;
let listed = [];
let shownWords = "";
let stateAt = -Infinity;
let totalTimer = 0;

async function ask(what) {
  const response = await fetch(`api/${what}`);
  const answer = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw Object.assign(new Error(answer.error), { isAnswer: true });
  return answer;
}

function say(text) {
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

function complain(error) {
  byId("trouble").hidden = !error;
  byId("trouble").textContent = error ?? "";
}

// What there is at all.

function overview(all) {
  byId("empty").hidden = !all.is_empty;
  const run = all.capture.all;
  const facts = [
    ["Sessions", number(all.sessions)],
    ["Turns", number(all.turns)],
    ["Compactions", number(all.compactions)],
    ["On disk", bytes(all.bytes_stored), `of ${bytes(all.bytes_raw)} of transcripts`],
    ["Capture time", run ? ms(run.p50_ms) : "–", run ? `median; 95 % within ${ms(run.p95_ms)}` : "no hook was measured yet"],
    ["Success rate", run ? percent(1 - run.failed / run.runs) : "–", run ? `of ${many(run.runs, "hook")} in 30 days${run.recall_timeouts ? `; recall out of time in ${number(run.recall_timeouts)}` : ""}` : "no hook was measured yet"],
  ];
  const fact = ([name, value, more]) =>
    el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, value, more ? el("span", { class: "muted" }, more) : null));
  byId("numbers").replaceChildren(...facts.map(fact));
  days(all.days);
  capture(all.capture);
  size(all.tiers);
  byId("learnings").hidden = all.learnings.length === 0;
  byId("kinds").replaceChildren(table("Learnings by kind", ["Kind", "Number"], all.learnings.map(([kind, count]) => [kind, number(count)])));
}

// What pruning does to all sessions: they are replayed in the background.

async function total() {
  const { sessions, pending, left_out, sentence, tally, prices_dated } = await ask("total");
  byId("headline").hidden = sessions + pending === 0;
  byId("total").textContent = sessions ? sentence.replaceAll(" %", "\u00a0%") : "Replaying your sessions …";
  const about = [`${many(sessions, "session")}, each replayed without and with pruning by your settings, at the API's prices of ${prices_dated}: ${tally}.`];
  if (left_out) about.push(`Left out, as the model did not answer or they are too large: ${number(left_out)}.`);
  if (pending) about.push(`Still being replayed: ${number(pending)}.`);
  byId("total-about").textContent = about.join(" ");
  clearTimeout(totalTimer);
  if (pending) totalTimer = setTimeout(() => total().catch((error) => complain(error.message)), EVERY_MS);
}

const noon = (day) => new Date(`${day}T12:00:00`).getTime() / 1000;

function days(list) {
  if (!list.some((day) => day.done + day.blocked + day.announced)) {
    charts.clear(byId("days"), el("p", { class: "muted" }, "No compaction in the last 30 days."));
    return;
  }
  const sum = list.reduce((sum, day) => sum + day.done, 0);
  charts.show(byId("days"), {
    label: `Compactions per day in the last 30 days: ${sum} in all.`,
    x: list.map((day) => noon(day.day)),
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

function capture({ all, events, days }) {
  if (!all) {
    charts.clear(
      byId("capture"),
      el("p", { class: "muted" }, "No hook was measured in the last 30 days. "),
      el("p", {}, el("code", {}, "ctxbridge hooks status"), " says whether hooks are installed, and ", el("code", {}, "ctxbridge hooks install"), " wires them."),
    );
    return;
  }
  const row = (it) => [it.name, number(it.runs), ms(it.p50_ms), ms(it.p95_ms), percent(1 - it.failed / it.runs)];
  charts.show(byId("capture"), {
    label: `Time of hooks per day: median ${ms(all.p50_ms)}, 95 % within ${ms(all.p95_ms)}.`,
    unit: " ms",
    x: days.map((day) => noon(day.name)),
    lines: [
      { name: "median", color: "accent", values: days.map((day) => day.p50_ms) },
      { name: "95 % within", color: "warn", values: days.map((day) => day.p95_ms) },
    ],
    rows: { heads: ["Event or day", "Runs", "Median", "95 % within", "Succeeded"], rows: [...events, ...days].map(row) },
  });
}

function size(tiers) {
  const parts = [["Compressed transcripts", "segments_bytes"], ["Database", "database_bytes"], ["Search index", "index_bytes"], ["Vectors", "vectors_bytes"]];
  const heads = ["Part", ...tiers.map((tier) => tier.tier)];
  const rows = parts.map(([name, key]) => [name, ...tiers.map((tier) => bytes(tier[key]))]);
  byId("size").replaceChildren(tiers.length ? table("Size of the archive by tier", heads, rows) : el("p", { class: "muted" }, "There is no archive yet."));
}

// Sessions, and the search in them.

const short = (id) => id.slice(0, 8);
const nameOf = (session) => session.title ?? `Session ${short(session.session)}`;

function entry(id, name, about, ...more) {
  const open = () => choose(id, true);
  const button = el("button", { type: "button", class: "entry", "aria-current": id === chosen ? "true" : null, click: open, "data-session": id },
    el("span", { class: "name" }, name), el("span", { class: "muted" }, about), ...more);
  return el("li", {}, button);
}

function sessions() {
  if (shownWords) return;
  const list = listed.map((session) => {
    const about = [time(session.last_ms), session.folder ?? "?", session.context_tokens ? tokens(session.context_tokens) : null];
    return entry(session.session, nameOf(session), about.filter(Boolean).join(" · "));
  });
  keepingFocus(byId("sessions"), list);
}

/** Replaces a list so that who is in it with the keyboard stays where they are. */
function keepingFocus(host, children) {
  const at = host.contains(document.activeElement) ? [...host.querySelectorAll("button")].indexOf(document.activeElement) : -1;
  const id = document.activeElement?.dataset?.session;
  host.replaceChildren(...children);
  if (at >= 0) {
    const buttons = [...host.querySelectorAll("button")];
    (buttons.find((button) => button.dataset.session === id) ?? buttons[at])?.focus({ preventScroll: true });
  }
}

async function search(words) {
  shownWords = words;
  if (!words) {
    byId("found").textContent = "";
    sessions();
    return;
  }
  byId("found").textContent = "Searching …";
  try {
    const { hits, notes } = await ask(`search/${encodeURIComponent(words)}`);
    if (shownWords !== words) return;
    byId("found").textContent = [hits.length ? many(hits.length, "hit") : "Nothing found", ...notes].join("; ");
    const piece = (text, at) => (at % 2 ? el("mark", {}, text) : text);
    const hit = (hit) => entry(hit.session, hit.summary || hit.handle, `${time(hit.at_ms)} · ${hit.handle} · session ${short(hit.session)}`,
      el("span", { class: "snippet" }, ...hit.pieces.map(piece)));
    byId("sessions").replaceChildren(...hits.map(hit));
  } catch (error) {
    if (shownWords === words) byId("found").textContent = error.message;
  }
}

// One session.

async function choose(id, isAsked) {
  if (id !== chosen) {
    charts.clear(byId("savings"));
    byId("saved").textContent = "";
  }
  chosen = id;
  for (const button of byId("sessions").querySelectorAll("button")) {
    if (button.dataset.session === id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  byId("replay").disabled = false;
  try {
    const series = await ask(`session/${encodeURIComponent(id)}`);
    if (chosen !== id) return;
    context(series);
    if (isAsked) byId("session-title").focus();
  } catch (error) {
    if (chosen === id) byId("session-about").textContent = error.message;
  }
}

function context({ session, turns, points, marks }) {
  byId("session-title").textContent = nameOf(session);
  const optimized = session.optimized ? many(session.optimized, "optimize cycle") : null;
  const window = session.window_tokens ? `window of ${tokens(session.window_tokens)}` : null;
  byId("session-about").textContent = [short(session.session), session.folder, session.model, window, many(turns, "turn"), optimized].filter(Boolean).join(" · ");
  if (!points.length) {
    charts.clear(byId("context"), el("p", { class: "muted" }, "The client did not tell how large the context was."));
    return;
  }
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
  const counts = kinds.map((kind) => `${MARKS[kind].name}: ${marks.filter((mark) => mark.kind === kind).length}`);
  const happened = marks.map((mark) => [mark.at_ms, MARKS[mark.kind].name, mark.after_tokens]);
  const sizes = points.map(([at, size]) => [at, "turn", size]);
  const rows = [...sizes, ...happened].sort((a, b) => a[0] - b[0]);
  charts.show(byId("context"), {
    label: `Context of the session over time, up to ${tokens(Math.max(...points.map(([, size]) => size)))}. ${counts.join("; ")}`,
    x: points.map(([at]) => at / 1000),
    lines: [{ name: "context in tokens", color: "accent", values: points.map(([, size]) => size) }],
    marks: marks.map((mark) => ({ x: mark.at_ms / 1000, ...MARKS[mark.kind] })),
    legend: [{ name: "context in tokens", color: "accent" }, ...kinds.map((kind) => MARKS[kind])],
    rows: { heads: ["Time", "What", "Context in tokens"], rows: rows.map(([at, what, size]) => [time(at), what, size == null ? "–" : number(size)]) },
  });
}

async function replay() {
  const id = chosen;
  byId("replay").disabled = true;
  byId("saved").textContent = "Replaying …";
  try {
    const all = await ask(`savings/${encodeURIComponent(id)}`);
    if (chosen === id) savings(all);
  } catch (error) {
    if (chosen === id) byId("saved").textContent = error.message;
  }
  byId("replay").disabled = false;
}

function savings({ without, pruned, saved_tokens, saved_usd, answers, model, prices_dated }) {
  const part = without.cost_usd > 0 ? ` (${percent(saved_usd / without.cost_usd)})` : "";
  const said = saved_usd < 0 ? `Pruning would cost ${usd(-saved_usd)} more` : `Pruning saves ${usd(saved_usd)}${part}`;
  const compacted = pruned.compactions === without.compactions ? "" : `, ${many(pruned.compactions, "compaction")} instead of ${number(without.compactions)}`;
  byId("saved").textContent = `${said}${compacted}; tokens that need not be sent: ${number(saved_tokens)}. ${many(answers, "answer")} of ${model}, prices of ${prices_dated}.`;
  const x = [...new Set([...without.contexts, ...pruned.contexts].map(([call]) => call))].sort((a, b) => a - b);
  const line = ({ contexts }) => {
    const values = new Map(contexts);
    let last = null;
    return x.map((call) => (last = values.get(call) ?? last));
  };
  const row = (name, key, shown) => [name, shown(without[key]), shown(pruned[key])];
  const share = (name, part, all) => [name, ...[without, pruned].map((totals) => (totals[all] ? percent(totals[part] / totals[all]) : "–"))];
  charts.show(byId("savings"), {
    label: `Context at each answer without and with pruning. ${said}.`,
    isTime: false,
    x,
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

// Patch, mod and hooks.

async function state() {
  stateAt = performance.now();
  const words = { ok: "fine", warning: "look", failed: "broken" };
  const check = ({ id, status, detail, next }) =>
    el("li", { class: status }, el("span", { class: "badge" }, words[status]), el("strong", {}, id.replaceAll("_", " ")), " ", detail,
      next ? el("span", { class: "muted" }, ` – ${next}`) : null);
  try {
    const { checks, compactions } = await ask("state");
    byId("state").replaceChildren(...checks.map(check));
    asked(compactions);
  } catch (error) {
    byId("state").replaceChildren(el("li", { class: "failed" }, error.message));
  }
}

function asked({ answered, left, newest }) {
  byId("asked").hidden = newest.length === 0;
  byId("asked-about").textContent = `${many(answered, "compaction")} answered, without a summary; left to the client: ${number(left)}.`;
  const became = (it) => `${many(it.messages_before, "message")} became ${number(it.messages_after)}`;
  const compaction = (it) => {
    const isLeft = it.messages_after == null;
    return el("li", { class: isLeft ? "warning" : "ok" }, el("span", { class: "badge" }, isLeft ? "left" : "answered"), el("strong", {}, time(it.at_ms)),
      ` ${isLeft ? it.reason ?? "?" : became(it)}`, el("span", { class: "muted" }, ` – session ${short(it.session)}, ${it.cause ?? "?"}`));
  };
  byId("asked-newest").replaceChildren(...newest.map(compaction));
}

// Live.

async function refresh() {
  const [all, list] = await Promise.all([ask("overview"), ask("sessions")]);
  overview(all);
  await total();
  listed = list.sessions;
  sessions();
  if (!chosen && listed.length) chosen = listed[0].session;
  if (chosen) await choose(chosen, false);
}

async function look() {
  if (document.hidden) return;
  try {
    const now = (await ask("changes")).mark;
    if (now !== mark) {
      await refresh();
      mark = now;
    }
    complain(null);
    say("live");
  } catch (error) {
    complain(error.isAnswer ? error.message : "The server does not answer; `ctxbridge dashboard` starts it again, with a new address.");
    say("not live");
  }
  if (performance.now() - stateAt > STATE_EVERY_MS) state();
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search(byId("words").value.trim());
});
byId("words").addEventListener("input", (event) => {
  if (!event.target.value.trim()) search("");
});
byId("replay").addEventListener("click", replay);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) say("paused");
  else look();
});

async function forever() {
  await look();
  setTimeout(forever, EVERY_MS);
}
forever();
