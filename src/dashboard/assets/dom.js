// Making elements, and numbers for people. Whatever comes from a transcript is text here, never HTML.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null && child !== false));
  return made;
}

/** A table with a caption that is read out, and numbers to the right. */
export function table(caption, heads, rows) {
  const cell = (value, column) => (column === 0 ? el("th", { scope: "row" }, value) : el("td", {}, value));
  return el(
    "table",
    {},
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))),
  );
}

const grouped = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const minus = (text) => text.replace("-", "\u2212");

export const number = (value) => minus(grouped.format(value));
export const compact = (value) => minus(short.format(value));
export const tokens = (value) => (value == null ? "–" : `${compact(value)} tokens`);
export const usd = (value) => `${value < 0 ? "\u2212" : ""}$${Math.abs(value) >= 1000 ? grouped.format(Math.round(Math.abs(value))) : cents.format(Math.abs(value))}`;
export const percent = (share) => `${(share * 100).toFixed(share < 1 && share > 0.99 ? 2 : 0)}\u00a0%`;
export const ms = (value) => (value < 1000 ? `${value < 10 ? value.toFixed(1) : Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);
export const many = (count, name, names = `${name}s`) => `${number(count)} ${count === 1 ? name : names}`;
export const shortId = (id) => id.slice(0, 8);
export const nameOf = (session) => session.title || `Session ${shortId(session.session)}`;

/** The last part of a folder's path: the project, as people call it. A number by itself says too little. */
export function project(folder) {
  const parts = folder?.split(/[\\/]/).filter(Boolean) ?? [];
  return (parts.at(-1)?.length < 3 ? parts.slice(-2).join("/") : parts.at(-1)) ?? null;
}

export function bytes(value) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at ? value.toFixed(1) : value} ${units[at]}`;
}

/** Local time, to the minute. */
export function time(at) {
  if (!at) return "–";
  const date = new Date(at);
  const two = (part) => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

const UNITS = [["year", 365 * 86_400], ["month", 30 * 86_400], ["week", 7 * 86_400], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

/** How long ago something was, with the time itself to be seen by pointing at it. */
export function ago(at) {
  if (!at) return "–";
  const seconds = Math.max(0, (Date.now() - at) / 1000);
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? [null, 1];
  const said = unit ? `${many(Math.floor(seconds / length), unit)} ago` : "just now";
  return el("time", { datetime: new Date(at).toISOString(), title: time(at) }, said);
}

/** Parts of a line with dots between them; empty ones are left out. */
export function dotted(...parts) {
  const known = parts.filter((part) => part != null && part !== "" && part !== false);
  return known.flatMap((part, at) => (at ? [" · ", part] : [part]));
}

/** Replaces the children of an element, so that who is in it with the keyboard stays where they are. */
export function replaceKeepingFocus(host, children) {
  const within = () => [...host.querySelectorAll("a, button")];
  const at = host.contains(document.activeElement) ? within().indexOf(document.activeElement) : -1;
  const key = document.activeElement?.dataset?.key;
  host.replaceChildren(...children);
  if (at >= 0) (within().find((one) => key && one.dataset.key === key) ?? within()[at])?.focus({ preventScroll: true });
}
