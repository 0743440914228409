// The little of Markdown that makes answers readable: blocks of code, headings, tables, bold and code in a line. No HTML, no links.

import { el } from "./dom.js";

const FENCE = /^[ \t]*(?:```|~~~)/;
const HEADING = /^#{1,6}\s+/;
const ROW = /^\s*\|.*\|\s*$/;

/** Blocks of a text. `marked` makes nodes of a text without form, in which what was searched for is marked. */
export function blocks(text, marked) {
  const made = [];
  let plain = [];
  const lines = text.split("\n");
  const close = () => {
    const said = plain.join("\n").replace(/^\n+|\s+$/g, "");
    if (said) made.push(el("p", { class: "text" }, ...inline(said, marked)));
    plain = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    if (FENCE.test(line)) {
      close();
      const from = at + 1;
      while (at + 1 < lines.length && !FENCE.test(lines[at + 1])) at += 1;
      made.push(el("pre", {}, ...marked(lines.slice(from, at + 1).join("\n"))));
      at += 1;
    } else if (HEADING.test(line)) {
      close();
      made.push(el("p", { class: "text heading" }, ...inline(line.replace(HEADING, ""), marked)));
    } else if (ROW.test(line) && /^[\s|:-]+$/.test(lines[at + 1] ?? "")) {
      close();
      const rows = [];
      while (at < lines.length && ROW.test(lines[at])) rows.push(lines[at++]);
      at -= 1;
      made.push(grid(rows, marked));
    } else plain.push(line);
  }
  close();
  return made;
}

function grid([head, , ...body], marked) {
  const cells = (row) => row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => inline(cell.trim(), marked));
  const row = (row, name) => el("tr", {}, ...cells(row).map((cell) => el(name, name === "th" ? { scope: "col" } : {}, ...cell)));
  return el("div", { class: "grid", tabindex: "0", role: "group", "aria-label": "Table" }, el("table", {}, el("thead", {}, row(head, "th")), el("tbody", {}, ...body.map((line) => row(line, "td")))));
}

/** Bold and code. What is not closed in its line stays as it is. */
export function inline(text, marked = (plain) => [plain]) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).flatMap((piece, at) => {
    if (at % 2 === 0) return piece ? marked(piece) : [];
    return [piece.startsWith("`") ? el("code", {}, ...marked(piece.slice(1, -1))) : el("strong", {}, ...marked(piece.slice(2, -2)))];
  });
}
