// What several cases look at: views, charts, and what axe-core finds.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { painted } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations, as axe-core finds them. The policy of the page lets nobody add a script, so it is run by the debugger. */
export async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert(found.passes.length > 10, "axe looked at hardly anything");
  return found.violations.map(({ id, impact, nodes }) => `${id} (${impact}): ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")}`);
}

/** Goes to a view by its address, as a link does. */
export async function go(page, hash) {
  await page.evaluate((hash) => (location.hash = hash), hash);
  const view = hash.replace(/^#\/?/, "").split("/")[0];
  const id = { "": "overview", search: "sessions" }[view] ?? view;
  await page.waitForSelector(`#view-${id}:not([hidden])`);
}

export const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** Session of the list whose name has this text. */
export const sessionOf = (page, text) => page.locator("#sessions a.row", { hasText: text });

/** Opens a session from the list. */
export async function openSession(page, text) {
  await go(page, "#/sessions");
  await sessionOf(page, text).first().click();
  await page.waitForSelector("#view-session:not([hidden])");
  await page.waitForSelector("#turns .turn");
}

export async function chartHasData(page, host) {
  await page.waitForSelector(`${host} canvas`);
  const [colors] = await painted(page, host);
  assert(colors > 3, `${host} has ${colors} colors`);
  const label = await page.locator(`${host} [role=img]`).getAttribute("aria-label");
  assert(label.length > 30, label);
}

/** The data of a chart is also in a table. */
export async function chartHasTable(page, host) {
  await page.locator(`${host} summary`).click();
  assert((await page.locator(`${host} tbody tr`).count()) > 1, `${host} has no rows`);
}
