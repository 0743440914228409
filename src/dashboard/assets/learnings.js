// Learnings, listed.

import { ask, path } from "./api.js";
import { ago, byId, dotted, el, many, nameOf, number } from "./dom.js";
import { inline } from "./markdown.js";
import { turnLink } from "./sessions.js";

let asked = 0;

/** A learning, with the way to the turn in which it was said. */
export function learningRow(learning, withSession = true) {
  const said = learning.said > 1 ? `said ${many(learning.said, "time")}` : null;
  return el("li", {}, el("a", { class: "row", href: turnLink(learning.session, learning.turn), "data-key": learning.id },
    el("span", {}, el("span", { class: "kind" }, learning.kind), ...inline(learning.sentence)),
    el("span", { class: "side muted" }, ago(learning.at_ms)),
    el("span", { class: "muted" }, ...dotted(withSession ? nameOf(learning) : null, said, learning.is_rewound ? "rewound" : null, learning.id))));
}

/** The kinds that there are, with their numbers. */
export function kinds(list) {
  const chosen = byId("kind").value;
  const all = list.reduce((sum, [, count]) => sum + count, 0);
  const option = ([kind, count, name = `${kind}s`]) => el("option", { value: kind, selected: kind === chosen }, `${name} (${number(count)})`);
  byId("kind").replaceChildren(option(["all", all, "all kinds"]), ...list.map(option));
}

export async function loadLearnings() {
  const mine = (asked += 1);
  const words = byId("learning-words").value.trim();
  const { learnings, has_more } = await ask(path("learnings", byId("kind").value, ...(words ? [words] : [])));
  if (mine !== asked) return;
  const none = words ? "Nothing found." : "Nothing was learned yet. Hooks look for learnings before a compaction and after a session; `ctxbridge archive optimize` looks through older ones.";
  const shown = has_more ? `The ${number(learnings.length)} that are most worth reading; words find the others.` : many(learnings.length, "learning");
  byId("learnings-about").textContent = learnings.length ? shown : none;
  byId("learnings").replaceChildren(...learnings.map((learning) => learningRow(learning)));
}

const again = () => loadLearnings().catch((error) => (byId("learnings-about").textContent = error.message));

byId("learnings-filter").addEventListener("submit", (event) => {
  event.preventDefault();
  again();
});
byId("kind").addEventListener("change", again);
