// Making elements. Whatever comes from a transcript is text here, never HTML.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
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

export const number = (value) => grouped.format(value);
export const tokens = (value) => (value == null ? "–" : `${short.format(value)} tokens`);
export const compact = (value) => short.format(value);
export const usd = (value) => `${value < 0 ? "−" : ""}$${Math.abs(value).toFixed(2)}`;
export const percent = (share) => `${(share * 100).toFixed(share < 1 && share > 0.99 ? 2 : 0)} %`;
export const ms = (value) => (value < 1000 ? `${value < 10 ? value.toFixed(1) : Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);
export const many = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;

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
