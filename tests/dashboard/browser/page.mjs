// node page.mjs CASE URL: what a user does with the dashboard. The archive has sessions with compactions and measured hooks, and one
// session whose texts want to be scripts.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { launch, painted, visit } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Serious violations, as axe-core finds them. The policy of the page lets nobody add a script, so it is run by the debugger. */
async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  assert(found.passes.length > 10, "axe looked at hardly anything");
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).join("; ")}`);
}

const rows = (page, host) => page.locator(`${host} tbody tr`).count();
const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

async function chartsHaveData(page) {
  // The newest session has but two turns.
  await page.locator("#sessions button").nth(1).click();
  await page.waitForFunction(() => document.activeElement.id === "session-title");
  for (const host of ["#context", "#days", "#capture"]) {
    await page.waitForSelector(`${host} canvas`);
    const [colors] = await painted(page, host);
    assert(colors > 3, `${host} has ${colors} colors`);
    await page.locator(`${host} summary`).click();
    assert((await rows(page, host)) > 3, `${host} has no rows`);
    const label = await page.locator(`${host} [role=img]`).getAttribute("aria-label");
    assert(label.length > 30, label);
  }
}

const cases = {
  async loads(browser, url) {
    await visit(browser, url, {}, async (page) => {
      assert.match(await page.locator("#numbers").innerText(), /Sessions\s+3/);
      assert.equal(await page.locator("#sessions button").count(), 3);
      assert.equal(await page.locator("#empty").isVisible(), false);
      await chartsHaveData(page);
      // Two of the sessions are replayed in the background; the page asks until they are.
      await page.waitForFunction(() => /instead of \$/.test(document.querySelector("#total").textContent), null, { timeout: 60_000 });
      await page.waitForFunction(() => /3 sessions.*the same/.test(document.querySelector("#total-about").textContent), null, { timeout: 60_000 });
      assert.match(await page.locator("#context .legend").innerText(), /compaction/);
      await page.waitForSelector("#state .badge");
      await page.waitForSelector("#asked-newest .badge");
      const asked = await page.locator("#asked").innerText();
      assert.match(asked, /1 compaction answered.*90 messages became 12/s);
      assert(asked.includes("<img src=x"), asked);
      await page.locator("#replay").click();
      await page.waitForSelector("#savings canvas");
      assert.match(await page.locator("#saved").innerText(), /\$\d.*tokens/);
      assert((await painted(page, "#savings"))[0] > 3);
      assert.deepEqual(await violations(page), []);
    });
  },

  async searches(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await page.fill("#words", "quokka");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /^\d+ hit/.test(document.querySelector("#found").textContent));
      assert((await page.locator("#sessions mark").allInnerTexts()).some((text) => /quokka/i.test(text)));
      // The texts of this session want to be scripts, and are shown as they are.
      assert((await page.locator("#sessions").innerText()).includes("<img src=x"));
      await page.locator("#sessions button").first().click();
      await page.waitForFunction(() => document.activeElement.id === "session-title");
      assert.match(await page.locator("#session-title").innerText(), /<script>/);
      assert.equal(await page.locator("main img, main script").count(), 0);
      await page.fill("#words", "");
      await page.waitForFunction(() => document.querySelectorAll("#sessions button").length === 3);
      await page.fill("#words", "zyzzyvaxq");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#found").textContent.startsWith("Nothing found"));
    });
  },

  async dark(browser, url) {
    const light = await visit(browser, url, { colorScheme: "light" }, async (page) => {
      const light = await background(page);
      // Switched while the page is open, charts follow.
      const before = await page.locator("#context canvas").evaluate((canvas) => canvas.toDataURL());
      await page.emulateMedia({ colorScheme: "dark" });
      await page.waitForFunction((before) => document.querySelector("#context canvas")?.toDataURL() !== before, before);
      return light;
    });
    await visit(browser, url, { colorScheme: "dark" }, async (page) => {
      assert.notEqual(await background(page), light);
      await chartsHaveData(page);
      assert.deepEqual(await violations(page), []);
    });
  },

  async narrow(browser, url) {
    await visit(browser, url, { viewport: { width: 360, height: 740 } }, async (page) => {
      await chartsHaveData(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert(wide <= 360, `${wide} px wide`);
      assert.deepEqual(await violations(page), []);
    });
  },

  async keyboard(browser, url) {
    await visit(browser, url, {}, async (page) => {
      const focused = () => page.evaluate(() => [document.activeElement.tagName, document.activeElement.id, document.activeElement.className].join(" "));
      const seen = [];
      for (let step = 0; step < 12; step += 1) {
        await page.keyboard.press("Tab");
        seen.push(await focused());
        if (seen.at(-1).startsWith("BODY")) break;
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.notEqual(outline, "none", `${seen.at(-1)} has the keyboard, and does not show it`);
      }
      assert(seen.length > 8, seen.join(", "));
      assert.deepEqual(seen.slice(0, 3), ["A  skip", "INPUT words ", "BUTTON  "]);
      assert.equal(seen.filter((place) => place.startsWith("BUTTON  entry")).length, 3, seen.join(", "));
      await page.locator("#sessions button").nth(1).focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.activeElement.id === "session-title");
      assert.equal(await page.locator("#sessions button").nth(1).getAttribute("aria-current"), "true");
    });
  },

  async live(browser, url) {
    await visit(browser, url, {}, async (page, seen) => {
      // The same canvas, since nothing flickers; and nothing is asked for while nothing changes but whether something did.
      await page.evaluate(() => (window.before = document.querySelector("#context canvas")));
      const from = seen.requests.length;
      console.log("ready");
      await page.waitForFunction(() => /Sessions\s+4/.test(document.querySelector("#numbers").innerText), null, { timeout: 30_000 });
      assert(await page.evaluate(() => window.before.isConnected));
      assert(seen.requests.slice(from).some((request) => request.endsWith("api/changes")));
    });
  },

  async empty(browser, url) {
    await visit(browser, url, {}, async (page) => {
      assert.match(await page.locator("#empty").innerText(), /hooks install/);
      assert.match(await page.locator("#capture").innerText(), /hooks status/);
      assert.deepEqual(await violations(page), []);
    });
  },
};

const [name, url] = process.argv.slice(2);
assert(cases[name], `there is no case ${name}`);
const browser = await launch();
try {
  await cases[name](browser, url);
} finally {
  await browser.close();
}
