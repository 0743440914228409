// The list of sessions, and the search in all of them.

import { ask, path } from "./api.js";
import { ago, byId, dotted, el, many, nameOf, project, replaceKeepingFocus, usd } from "./dom.js";

let listed = [];
let shownWords = "";

/** Words of searches, in the forms that matched: what is highlighted in a conversation. */
const matched = new Map();

export const sessionLink = (id) => `#/session/${encodeURIComponent(id)}`;
export const turnLink = (id, handle, words) => `${sessionLink(id)}/${encodeURIComponent(handle)}${words ? `/${encodeURIComponent(words)}` : ""}`;

/** A session in a list. */
export function sessionRow(session) {
  const { saved } = session;
  const avoided = saved?.compactions_avoided > 0 ? `${many(saved.compactions_avoided, "compaction")} avoided` : null;
  const isCheaper = saved?.saved_usd >= 0.005;
  const money = isCheaper ? `${usd(saved.saved_usd)} saved` : saved?.saved_usd <= -0.005 ? `${usd(-saved.saved_usd)} more` : "";
  return el("li", {}, el("a", { class: "row", href: sessionLink(session.session), "data-key": session.session, title: session.folder },
    el("span", { class: "name" }, nameOf(session)),
    el("span", { class: "side muted" }, ago(session.last_ms)),
    el("span", { class: "muted" }, ...dotted(project(session.folder), many(session.turns, "turn"), avoided)),
    el("span", { class: `side${isCheaper ? " good" : " muted"}` }, money)));
}

/** Reads the first page of the list again, and as many others as were shown. */
export async function loadSessions() {
  const shown = Math.max(1, Math.ceil(listed.length / 100));
  let all = [];
  let more = true;
  for (let page = 0; page < shown && more; page += 1) {
    const { sessions, has_more } = await ask(path("sessions", all.length));
    all = [...all, ...sessions];
    more = has_more;
  }
  listed = all;
  byId("more-sessions").dataset.more = more;
  showSessions();
  return listed;
}

async function loadOlder() {
  const { sessions, has_more } = await ask(path("sessions", listed.length));
  listed = [...listed, ...sessions];
  byId("more-sessions").dataset.more = has_more;
  showSessions();
}

function showSessions() {
  if (shownWords) return;
  replaceKeepingFocus(byId("sessions"), listed.map(sessionRow));
  byId("more-sessions").hidden = byId("more-sessions").dataset.more !== "true";
}

/** Shows the hits for some words, or all sessions if there are none. */
export async function search(words) {
  // What is being typed stays when the same list is only brought up to date.
  if (shownWords !== words) byId("words").value = words;
  shownWords = words;
  byId("sessions-title").textContent = words ? `Turns with “${words}”` : "Sessions";
  if (!words) {
    byId("found").textContent = "";
    showSessions();
    return;
  }
  byId("found").textContent = "Searching …";
  byId("more-sessions").hidden = true;
  try {
    const { hits, notes } = await ask(path("search", words));
    if (shownWords !== words) return;
    matched.set(words, [...new Set(hits.flatMap((hit) => hit.pieces.filter((_, at) => at % 2)).map((piece) => piece.toLowerCase()))]);
    byId("found").textContent = [hits.length ? many(hits.length, "hit") : "Nothing found", ...notes].join("; ");
    byId("sessions").replaceChildren(...hits.map((hit) => found(hit, words)));
  } catch (error) {
    if (shownWords !== words) return;
    byId("found").textContent = error.message;
    byId("sessions").replaceChildren();
  }
}

function found(hit, words) {
  // Behind the prompt, the summary has tools and files.
  const [prompt] = hit.summary.split(" | ");
  const piece = (text, at) => (at % 2 ? el("mark", {}, text) : text);
  return el("li", {}, el("a", { class: "row", href: turnLink(hit.session, hit.handle, words), "data-key": hit.handle },
    el("span", { class: "name" }, nameOf(hit)),
    el("span", { class: "side muted" }, ago(hit.at_ms)),
    el("span", { class: "muted" }, ...dotted(prompt === hit.title ? null : prompt, hit.is_rewound ? "rewound" : null)),
    el("span", { class: "side muted" }, ...dotted(project(hit.folder), hit.handle)),
    el("span", { class: "snippet" }, ...hit.pieces.map(piece))));
}

/** What to highlight for the words of a search: the forms that it matched, or the words where it was not made here. */
export const highlights = (words) => matched.get(words) ?? words?.toLowerCase().match(/[\p{L}\p{N}_]{2,}/gu) ?? [];

byId("more-sessions").addEventListener("click", () => loadOlder().catch((error) => (byId("found").textContent = error.message)));
