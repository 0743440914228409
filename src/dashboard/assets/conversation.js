// A conversation to read: some turns at a time, with calls of tools folded. All of it is put into the page as text.

import { ask, path } from "./api.js";
import { byId, compact, dotted, el, many, number, time } from "./dom.js";
import { blocks as formatted } from "./markdown.js";

const WHO = { prompt: "You", answer: "Claude", note: "Client", summary: "Summary of a compaction: from here on, the model had this in place of what was said before" };
/** Tools that are named in the line of a group at most. */
const MOST_TOOLS = 4;

let page = null;
let session = null;
let found = [];
let pattern = null;
let asked = 0;

/** Finds any of these texts as whole words. */
function patternOf(texts) {
  if (!texts.length) return null;
  const escaped = texts.map((text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).sort((a, b) => b.length - a.length);
  return new RegExp(`(?<![\\p{L}\\p{N}_])(${escaped.join("|")})(?![\\p{L}\\p{N}_])`, "giu");
}

/** A text, with what was searched for marked. */
function marked(text) {
  if (!pattern) return [text];
  return text.split(pattern).map((piece, at) => (at % 2 ? el("mark", {}, piece) : piece));
}

const blocks = (text) => formatted(text, marked);
const cutNote = (message) => (message.cut_chars ? el("p", { class: "cut" }, `… ${many(message.cut_chars, "more character")}`) : null);

function folded(kind, summary, ...children) {
  return el("details", { class: kind }, el("summary", {}, ...summary), ...children);
}

function call(message) {
  const { tool, about, text, output, is_error, agents = [] } = message;
  const work = agents.map((messages, at) =>
    folded("agent-work", [`Sub-agent${agents.length > 1 ? ` ${at + 1}` : ""}: ${many(messages.length, "message")}`], el("div", { class: "agent" }, ...conversed(messages))));
  const body = [
    text && text !== "{}" ? el("pre", {}, ...marked(text)) : null,
    ...work,
    output == null ? el("p", { class: "cut" }, "It has no result.") : el("p", { class: "who" }, is_error ? "Error" : "Result"),
    output == null ? null : el("pre", {}, ...marked(output || "(nothing)")),
    cutNote(message),
  ];
  return folded(is_error ? "call failed-call" : "call", [el("strong", {}, tool), about ? " " : "", about ? el("code", {}, ...marked(about)) : null].filter(Boolean), ...body.filter(Boolean));
}

function one(message) {
  const { kind, text, output, is_error, agents = [] } = message;
  if (kind === "call") return call(message);
  if (kind === "thinking") return folded("thinking", ["Thinking"], ...blocks(text), cutNote(message) ?? "");
  if (kind === "result") return folded(is_error ? "failed-call" : "result", ["Result of a tool"], el("pre", {}, ...marked(output ?? "")), cutNote(message) ?? "");
  if (kind === "agent") return folded("agent-work", [`Sub-agent: ${many(agents[0].length, "message")}`], el("div", { class: "agent" }, ...conversed(agents[0])));
  if (kind === "note") return folded("note", ["Note of the client"], ...blocks(text), cutNote(message) ?? "");
  if (kind === "summary") {
    return el("div", { class: "message summary" }, folded("", [WHO.summary], ...blocks(text), cutNote(message) ?? ""));
  }
  return el("div", { class: `message ${kind}` }, el("p", { class: "who" }, WHO[kind]), ...blocks(text), cutNote(message));
}

/** Whether a message is work in between, which is folded together. */
const isWork = ({ kind }) => kind === "call" || kind === "thinking" || kind === "result";

/** Messages, with neighboring calls in one group. */
function conversed(messages) {
  const shown = [];
  for (let at = 0; at < messages.length; ) {
    let end = at;
    while (end < messages.length && isWork(messages[end])) end += 1;
    if (end - at > 1) shown.push(group(messages.slice(at, end)));
    else shown.push(one(messages[at]));
    at = Math.max(end, at + 1);
  }
  return shown;
}

function group(messages) {
  const counts = new Map();
  for (const { tool } of messages.filter(({ kind }) => kind === "call")) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  const named = [...counts].sort((a, b) => b[1] - a[1]);
  const names = named.slice(0, MOST_TOOLS).map(([tool, count]) => (count > 1 ? `${tool} ×${count}` : tool));
  if (named.length > MOST_TOOLS) names.push("…");
  const calls = messages.filter(({ kind }) => kind === "call").length;
  const failed = messages.filter(({ is_error }) => is_error).length;
  const summary = [calls ? el("strong", {}, many(calls, "tool call")) : "Thinking", names.length ? `: ${names.join(", ")}` : "", failed ? ` (${number(failed)} failed)` : ""];
  return el("div", { class: "calls" }, folded("group", summary, ...messages.map(one)));
}

function turn(one) {
  const tags = [one.is_pinned ? "pinned" : null, one.is_rewound ? "rewound" : null, one.is_superseded && !one.is_rewound ? "earlier version" : null, one.agent ? "sub-agent" : null].filter(Boolean);
  const head = el("header", {},
    el("h4", {}, `Turn ${number(one.position + 1)}`),
    ...dotted(one.at_ms ? time(one.at_ms) : null, one.context_tokens ? `context of ${compact(one.context_tokens)} tokens` : null, el("code", {}, one.handle)),
    ...tags.flatMap((tag) => [" ", el("span", { class: "tag" }, tag)]));
  const made = el("article", { class: one.position === page.target ? "turn target" : "turn", "data-position": one.position, "aria-label": `Turn ${one.position + 1}` },
    head,
    one.trouble ? el("p", { class: "cut" }, `It cannot be read: ${one.trouble}`) : null,
    ...conversed(one.messages),
    one.omitted ? el("p", { class: "cut" }, `${many(one.omitted, "more message")}`) : null,
    one.is_cut ? el("p", {}, el("button", { type: "button", class: "whole", click: () => whole(one.position) }, "Show this turn in full")) : null);
  if (one.position === page.target) unfold(made);
  return made;
}

/** Opens what hides a hit. */
function unfold(host) {
  for (const mark of host.querySelectorAll("mark")) {
    for (let at = mark.parentElement; at && at !== host; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  }
}

async function whole(position) {
  const at = byId("turns").querySelector(`[data-position="${position}"]`);
  try {
    const read = await ask(path("turn", session, position));
    const made = turn({ ...read, is_cut: false });
    at.replaceWith(made);
    unfold(made);
    made.setAttribute("tabindex", "-1");
    made.focus({ preventScroll: true });
  } catch (error) {
    at.append(el("p", { class: "cut" }, error.message));
  }
}

/** Turns, with those that left the conversation folded together. */
function listed(turns) {
  const shown = [];
  const branch = (one) => (one.is_rewound ? "rewound" : one.is_superseded ? "superseded" : one.agent ? "agent" : "");
  for (let at = 0; at < turns.length; ) {
    let end = at + 1;
    while (end < turns.length && branch(turns[end]) === branch(turns[at])) end += 1;
    const run = turns.slice(at, end);
    const count = many(run.length, "turn");
    const why = {
      rewound: `${count} ${run.length === 1 ? "was" : "were"} rewound: the conversation went back to before, and on without`,
      superseded: `${count} of an earlier version: the client rewrote the transcript without`,
      agent: `Work of sub-agents that no call names: ${count}`,
    }[branch(run[0])];
    if (why) {
      const hasTarget = run.some(({ position }) => position === page.target);
      shown.push(el("details", { class: "branch", open: hasTarget }, el("summary", {}, why), ...run.map(turn)));
    } else shown.push(...run.map(turn));
    at = end;
  }
  return shown;
}

/** Shows turns of a session: from a position, before one, the last ones, or from a hit on, in which `texts` are marked. */
export async function read(id, at, texts) {
  const mine = (asked += 1);
  const answer = await ask(path("conversation", id, at));
  if (mine !== asked) return null;
  [session, page, found, pattern] = [id, answer, texts, patternOf(texts)];
  const before = page.before.map((message) => el("article", { class: "turn" }, one(message)));
  byId("turns").replaceChildren(...before, ...listed(page.turns));
  const gone = [page.rewound ? `${number(page.rewound)} rewound` : null, page.superseded ? `${number(page.superseded)} of earlier versions` : null].filter(Boolean);
  const where = page.total ? `Turns ${number(page.from + 1)} to ${number(page.to)} of ${number(page.total)}` : "It has no turns yet";
  byId("conversation-about").textContent = where + (gone.length ? `, ${gone.join(", ")}` : "");
  byId("earlier").hidden = page.from === 0;
  byId("later").hidden = page.to >= page.total;
  byId("jump").hidden = page.from === 0 && page.to >= page.total;
  byId("turn-number").max = page.total;
  if (page.target != null) {
    const target = byId("turns").querySelector(`[data-position="${page.target}"]`);
    (target?.querySelector("mark") ?? target)?.scrollIntoView({ block: "center" });
  }
  return page;
}

/** Offers to go on, as there are new turns. */
export const offerNewTurns = () => {
  byId("later").hidden = false;
};

async function go(at, isAtTop) {
  try {
    await read(session, at, found);
    (isAtTop ? byId("conversation") : byId("turns").lastElementChild)?.scrollIntoView({ block: isAtTop ? "start" : "end" });
  } catch (error) {
    byId("conversation-about").textContent = error.message;
  }
}

byId("earlier").addEventListener("click", () => go(`before-${page.from}`, false));
byId("later").addEventListener("click", () => go(page.to, true));
byId("jump").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = Number.parseInt(byId("turn-number").value, 10);
  if (wanted >= 1) go(Math.min(wanted, page.total) - 1, true);
});
