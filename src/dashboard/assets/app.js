// The page: which view is shown, and what it asks for; it asks again when something changed.

import { ask } from "./api.js";
import { byId } from "./dom.js";
import { kinds, loadLearnings } from "./learnings.js";
import { memory, overview, recent, savings } from "./overview.js";
import { open } from "./session.js";
import { loadSessions, search } from "./sessions.js";
import { capture, health, size } from "./system.js";

/** How often to ask whether something changed; nothing is asked while nobody looks. */
const EVERY_MS = 3000;
/** How often to look at patch, mod and hooks, which takes longer. */
const HEALTH_EVERY_MS = 5 * 60 * 1000;

let mark = null;
let healthAt = -Infinity;

function say(text) {
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

function complain(error) {
  byId("trouble").hidden = !error;
  if (byId("trouble").textContent !== (error ?? "")) byId("trouble").textContent = error ?? "";
}

/** The view that the address names, with its arguments. */
function route() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  if (view === "session" && rest[0]) return { view, nav: "sessions", id: rest[0], at: rest[1], words: rest[2] };
  if (view === "search") return { view: "sessions", nav: "sessions", words: rest.join("/") };
  if (["sessions", "learnings", "system"].includes(view)) return { view, nav: view, words: "" };
  return { view: "overview", nav: "overview" };
}

const TITLES = { overview: "Overview", sessions: "Sessions", learnings: "Learnings", system: "System", session: "Session" };
const HEADINGS = { overview: "savings-title", sessions: "sessions-title", learnings: "learnings-title", system: "system-title", session: "session-title" };

/** Shows the view of the address. Who came by a link hears its title, and goes on from there with the keyboard. */
async function show(isAsked) {
  const { view, nav, id, at, words } = route();
  const focused = document.activeElement;
  for (const name of Object.keys(TITLES)) byId(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[view]} – ctxbridge`;
  if (isAsked && !at) scrollTo(0, 0);
  try {
    if (view === "overview") await Promise.all([savings(() => loadSessions().then(recent)), memory()]);
    if (view === "sessions") await search(words);
    if (view === "learnings") await loadLearnings();
    if (view === "session") {
      const title = await open(id, at, words);
      if (title) document.title = `${title} – ctxbridge`;
    }
  } catch (error) {
    if (!error.isAnswer) throw error;
    if (view === "session") byId("session-about").textContent = error.message;
    else complain(error.message);
  }
  // Who types somewhere by now goes on typing.
  const isElsewhere = ![focused, document.body].includes(document.activeElement);
  if (isAsked && !isElsewhere) byId(HEADINGS[view]).focus({ preventScroll: Boolean(at) });
}

async function refresh() {
  const [all, list] = await Promise.all([ask("overview"), loadSessions()]);
  overview(all);
  recent(list);
  kinds(all.learnings);
  size(all);
  capture(all.capture, all.days);
  await show(false);
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
  if (performance.now() - healthAt > HEALTH_EVERY_MS) {
    healthAt = performance.now();
    health().catch((error) => (byId("state-about").textContent = error.message));
  }
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = byId("words").value.trim();
  const hash = words ? `#/search/${encodeURIComponent(words)}` : "#/sessions";
  if (location.hash === hash) show(true);
  else location.hash = hash;
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
addEventListener("hashchange", () => show(true).catch((error) => complain(error.message)));
document.addEventListener("visibilitychange", () => {
  if (document.hidden) say("paused");
  else look();
});

async function forever() {
  await look();
  setTimeout(forever, EVERY_MS);
}
forever();
