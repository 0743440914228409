// Patch, mod and hooks, and what the archive takes on disk. It is of interest when something is wrong.

import { ask } from "./api.js";
import * as charts from "./charts.js";
import { byId, bytes, el, many, ms, number, percent, shortId, table, time } from "./dom.js";
import { inline } from "./markdown.js";
import { dayLabel } from "./overview.js";

const WORDS = { ok: "fine", warning: "look", failed: "broken" };

const check = ({ id, status, detail, next }) =>
  el("li", { class: status }, el("span", { class: "badge" }, WORDS[status]), el("strong", {}, id.replaceAll("_", " ")), " ", ...inline(detail),
    next ? el("span", { class: "muted" }, " – ", ...inline(next)) : null);

/** Looks at patch, mod and hooks. What is broken is told in every view. */
export async function health() {
  const { checks, compactions } = await ask("state");
  const fine = checks.filter(({ status }) => status === "ok");
  const others = checks.filter(({ status }) => status !== "ok");
  const failed = checks.filter(({ status }) => status === "failed");
  byId("state-about").textContent = others.length ? `${many(others.length, "check")} of ${number(checks.length)} to look at.` : `All ${number(checks.length)} checks are fine.`;
  byId("state").replaceChildren(...[...failed, ...others.filter((one) => !failed.includes(one))].map(check));
  byId("fine").hidden = !fine.length;
  byId("fine").querySelector("summary").textContent = `${many(fine.length, "check")} ${fine.length === 1 ? "is" : "are"} fine`;
  byId("state-fine").replaceChildren(...fine.map(check));
  wrong(failed);
  asked(compactions);
}

function wrong(failed) {
  byId("system-badge").hidden = !failed.length;
  byId("system-badge").replaceChildren(number(failed.length), el("span", { class: "unseen" }, " broken"));
  byId("wrong").hidden = !failed.length;
  const one = ({ id, detail, next }) => el("p", {}, el("strong", {}, id.replaceAll("_", " ")), " ", ...inline(detail), next ? el("span", { class: "muted" }, " – ", ...inline(next)) : null);
  byId("wrong").replaceChildren(...failed.map(one));
}

function asked({ answered, left, newest }) {
  byId("asked").hidden = newest.length === 0;
  byId("asked-about").textContent = `${many(answered, "compaction")} answered, without a summary; left to the client: ${number(left)}.`;
  const became = (it) => `${many(it.messages_before, "message")} became ${number(it.messages_after)}`;
  const compaction = (it) => {
    const isLeft = it.messages_after == null;
    return el("li", { class: isLeft ? "warning" : "ok" }, el("span", { class: "badge" }, isLeft ? "left" : "answered"), el("strong", {}, time(it.at_ms)),
      ` ${isLeft ? it.reason ?? "?" : became(it)}`, el("span", { class: "muted" }, ` – session ${shortId(it.session)}, ${it.cause ?? "?"}`));
  };
  byId("asked-newest").replaceChildren(...newest.map(compaction));
}

/** Time of hooks per day. `days` are all days of the overview, so that a day without hooks is a gap. */
export function capture({ all, events, days: measured }, days) {
  if (!all) {
    byId("capture-about").textContent = "No hook was measured in the last 30 days.";
    charts.clear(
      byId("capture"),
      el("p", {}, el("code", {}, "ctxbridge hooks status"), " says whether hooks are installed, and ", el("code", {}, "ctxbridge hooks install"), " wires them."),
    );
    return;
  }
  const late = all.recall_timeouts ? ` Recall ran out of time in ${number(all.recall_timeouts)}.` : "";
  byId("capture-about").textContent = `${many(all.runs, "run")} in 30 days: median ${ms(all.p50_ms)}, 95 % within ${ms(all.p95_ms)}; ${percent(1 - all.failed / all.runs)} succeeded.${late}`;
  const byDay = new Map(measured.map((day) => [day.name, day]));
  const first = days.findIndex((day) => byDay.has(day.day));
  const shown = first < 0 ? measured.map((day) => day.name) : days.slice(first).map((day) => day.day);
  const row = (it) => [it.name, number(it.runs), ms(it.p50_ms), ms(it.p95_ms), percent(1 - it.failed / it.runs)];
  charts.show(byId("capture"), {
    label: `Time of hooks per day: median ${ms(all.p50_ms)}, 95 % within ${ms(all.p95_ms)}.`,
    tick: (value) => ms(value).replace(".0", ""),
    step: 1,
    labels: shown.map((day) => dayLabel(day)),
    lines: [
      { name: "median", color: "accent", values: shown.map((day) => byDay.get(day)?.p50_ms ?? null) },
      { name: "95 % within", color: "warn", values: shown.map((day) => byDay.get(day)?.p95_ms ?? null) },
    ],
    rows: { heads: ["Event or day", "Runs", "Median", "95 % within", "Succeeded"], rows: [...events, ...measured].map(row) },
  });
}

export function size({ tiers, bytes_raw, bytes_on_disk }) {
  byId("size-about").textContent = tiers.length ? `${bytes(bytes_on_disk)} in all, for ${bytes(bytes_raw)} of transcripts.` : "There is no archive yet.";
  const parts = [["Compressed transcripts", "segments_bytes"], ["Database", "database_bytes"], ["Search index", "index_bytes"], ["Vectors", "vectors_bytes"]];
  const heads = ["Part", ...tiers.map((tier) => tier.tier)];
  const rows = parts.map(([name, key]) => [name, ...tiers.map((tier) => (tier[key] ? bytes(tier[key]) : "–"))]);
  byId("size").replaceChildren(...(tiers.length ? [table("Size on disk by tier", heads, rows)] : []));
}
