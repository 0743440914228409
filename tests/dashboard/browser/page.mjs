// node page.mjs CASE... URL: what a user does with the dashboard. The archive has sessions with compactions and measured hooks, one with
// a branch, and one whose texts want to be scripts.

import assert from "node:assert/strict";
import { launch, visit } from "./browser.mjs";
import { background, chartHasData, chartHasTable, go, openSession, sessionOf, violations } from "./checks.mjs";

const text = (page, selector) => page.locator(selector).innerText();
const replayed = (page) => page.waitForFunction(() => /^Estimated: 4 sessions/.test(document.querySelector("#savings-about").textContent) && !/Still/.test(document.querySelector("#savings-about").textContent), null, { timeout: 120_000 });

const cases = {
  async loads(browser, url) {
    await visit(browser, url, {}, async (page) => {
      assert.match(await text(page, "#numbers"), /Sessions\s+4/);
      assert.equal(await page.locator("#empty").isVisible(), false);
      // The sessions are replayed in the background; the page asks until they are.
      await replayed(page);
      assert.match(await text(page, "#hero-avoided"), /Compactions avoided\s+[1-9]\d*\s+\d+ instead of \d+/);
      assert.match(await text(page, "#hero-tokens"), /Tokens not sent\s+\d+(\.\d)?[KM]\s+.* instead of .*\d\s%/);
      assert.match(await text(page, "#hero-dollars"), /Dollars saved\s+\$\d+\.\d\d\s+\$.* instead of \$/);
      for (const host of ["#hero-avoided", "#hero-tokens", "#hero-dollars", "#days"]) await chartHasData(page, host);
      await page.locator("#savings-data summary").click();
      assert((await page.locator("#savings-data tbody tr").count()) > 0);
      await chartHasTable(page, "#days");
      assert.equal(await page.locator("#recent a.row").count(), 4);
      assert.match(await text(page, "#recent"), /saved/);
      assert.match(await text(page, "#memory"), /Choose a store for the ledger[\s\S]*1 time/);
      await page.locator("#memory a").first().click();
      await page.waitForSelector(".turn.target");
    });
  },

  async searches(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await go(page, "#/sessions");
      assert.equal(await page.locator("#sessions a.row").count(), 4);
      const names = await page.locator("#sessions .name").allInnerTexts();
      assert(names.every((name) => name && !/^Session /.test(name)), names.join(", "));
      assert.match(await text(page, "#sessions"), /\d turns/);
      await page.fill("#words", "quokka");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /^\d+ hit/.test(document.querySelector("#found").textContent));
      assert((await page.locator("#sessions mark").allInnerTexts()).some((text) => /quokka/i.test(text)));
      // The texts of this session want to be scripts, and are shown as they are.
      assert((await text(page, "#sessions")).includes("<img src=x"));
      await page.locator("#sessions a.row").first().click();
      await page.waitForSelector(".turn.target mark");
      assert((await page.locator(".turn.target mark").allInnerTexts()).every((text) => /^quokka$/i.test(text)));
      assert((await text(page, "#turns")).includes("<img src=x onerror=alert(1)>"));
      // It comes with an answer of its own.
      await page.waitForFunction(() => document.querySelector("#session-title").textContent.includes("<script>"));
      assert.equal(await page.locator("main img, main script").count(), 0);
      // Who types while the hits are on their way goes on typing.
      await page.route(/search/, async (route) => {
        await new Promise((later) => setTimeout(later, 500));
        await route.fallback();
      });
      const answered = page.waitForResponse(/search/);
      await page.goBack();
      await page.fill("#words", "zyzzyvaxq");
      await answered;
      await page.waitForFunction(() => /^\d+ hit/.test(document.querySelector("#found").textContent));
      await page.waitForTimeout(50);
      assert.equal(await page.evaluate(() => document.activeElement.id), "words");
      await page.unroute(/search/);
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#found").textContent.startsWith("Nothing found"));
      await page.fill("#words", "");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelectorAll("#sessions a.row").length === 4);
    });
  },

  async reads(browser, url) {
    await visit(browser, url, {}, async (page) => {
      // A hit in the result of a tool, which is folded: what hides it is opened, and others stay closed.
      await go(page, "#/search/quagga");
      await page.waitForSelector("#sessions mark");
      await page.locator("#sessions a.row").first().click();
      await page.waitForSelector(".turn.target mark");
      const hit = page.locator(".turn.target .calls mark").first();
      assert.equal(await hit.innerText(), "quagga");
      assert(await hit.isVisible(), "the hit is folded away");
      assert(await page.locator(".turn.target pre mark").last().isVisible());
      const closed = page.locator(".turn.target details.call", { hasText: "cargo test" });
      assert.equal(await closed.getAttribute("open"), null);
      assert(await page.locator(".turn.target").evaluate((turn) => turn.getBoundingClientRect().bottom > 0 && turn.getBoundingClientRect().top < innerHeight));

      await openSession(page, "Choose a store");
      // It is the session that was shown, so its turns stay until the others are there. Nothing is searched for now.
      await page.waitForFunction(() => document.querySelectorAll("#turns mark").length === 0);
      assert.match(await text(page, "#conversation-about"), /Turns 1 to 3 of 3, 1 rewound/);
      assert.match(await text(page, ".calls > details > summary"), /2 tool calls: Read, Bash/);
      assert.equal(await page.locator(".calls pre").first().isVisible(), false, "tools are folded");
      assert.equal(await page.locator("#turns .heading").innerText(), "Done");
      // A branch is folded where the conversation went on without it.
      const branch = page.locator("#turns > details.branch");
      assert.match(await branch.locator("> summary").innerText(), /1 turn was rewound/);
      assert.equal(await branch.locator(".turn").isVisible(), false);
      assert.equal(await page.locator("#turns > *").nth(1).evaluate((it) => it.className), "branch");
      await branch.locator("> summary").click();
      assert.match(await branch.innerText(), /Take the walrus database instead[\s\S]*Walrus it is/);

      await page.locator(".calls > details > summary").click();
      await page.locator("details.call", { hasText: "cargo test" }).locator("> summary").click();
      assert.match(await text(page, "#turns"), /3,500 more characters/);
      await page.locator("button.whole").click();
      await page.waitForFunction(() => document.querySelectorAll("button.whole").length === 0);
      assert(!(await page.locator("#turns").textContent()).includes("more characters"));

      await chartHasData(page, "#context");
      assert.match(await page.locator("#context [role=img]").getAttribute("aria-label"), /at each call/);
      await chartHasTable(page, "#context");
      assert.match(await text(page, "#session-about"), /3 turns · 4 calls|2 turns · 4 calls/);
      await page.locator("#learned summary").click();
      assert.match(await text(page, "#learned"), /I decided to keep SQLite/);
      await page.locator("#replay").click();
      await chartHasData(page, "#replayed");
      assert.match(await text(page, "#saved"), /tokens/);
    });
  },

  async pages(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await go(page, "#/sessions");
      const longest = page.locator("#sessions a.row").filter({ hasNotText: "Choose a store" }).filter({ hasNotText: "<script>" });
      await longest.first().click();
      await page.waitForSelector("#turns .turn");
      const about = () => text(page, "#conversation-about");
      const [, , last, total] = (await about()).match(/Turns (\d+) to (\d+) of (\d+)/).map(Number);
      assert(last < total, `${last} of ${total} turns are on one page`);
      assert.equal(await page.locator("#earlier").isVisible(), false);
      await page.locator("#later").click();
      await page.waitForFunction((next) => document.querySelector("#turns [data-position]").dataset.position === String(next), last);
      await page.locator("#earlier").click();
      await page.waitForFunction(() => document.querySelector("#turns [data-position]").dataset.position === "0");
      await page.fill("#turn-number", String(total));
      await page.keyboard.press("Enter");
      await page.waitForFunction((at) => document.querySelector("#turns [data-position]").dataset.position === String(at), total - 1);
      assert.equal(await page.locator("#later").isVisible(), false);
    });
  },

  async learnings(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await page.locator("nav a", { hasText: "Learnings" }).click();
      await page.waitForSelector("#learnings a.row");
      assert.match(await text(page, "#learnings"), /decision\s*I decided to keep SQLite because one writer is enough/);
      await page.fill("#learning-words", "zyzzyva");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("#learnings-about").textContent === "Nothing found.");
      await page.fill("#learning-words", "one writer");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelectorAll("#learnings a.row").length === 1);
      await page.selectOption("#kind", "decision");
      await page.waitForFunction(() => document.querySelectorAll("#learnings a.row").length === 1);
      await page.locator("#learnings a.row").click();
      await page.waitForSelector(".turn.target");
      assert.match(await text(page, ".turn.target"), /one writer is enough/);
    });
  },

  async health(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await page.waitForFunction(() => document.querySelector("#state-about").textContent);
      // What is only worth a look is told in its own view alone.
      assert.equal(await page.locator("#wrong").isVisible(), false);
      await page.locator("nav a", { hasText: "System" }).click();
      assert.match(await text(page, "#state"), /look/);
      assert.equal(await page.locator("#state .ok").count(), 0, "what is fine is folded");
      await page.locator("#fine summary").click();
      assert((await page.locator("#state-fine .ok").count()) > 0);
      const asked = await text(page, "#asked");
      assert.match(asked, /1 compaction answered.*90 messages became 12/s);
      assert(asked.includes("<img src=x"), asked);
      await chartHasData(page, "#capture");
      await chartHasTable(page, "#capture");
      assert.match(await text(page, "#size"), /Vectors/);
    });
    // Something broken is told in every view.
    const broken = { checks: [{ id: "archive", status: "failed", detail: "is damaged <b>", next: "run `ctxbridge archive optimize`" }], compactions: { answered: 0, left: 0, newest: [] } };
    await visit(browser, url, { answers: { "api/state": broken } }, async (page) => {
      await page.waitForSelector("#wrong:not([hidden])");
      assert.match(await text(page, "#wrong"), /archive is damaged <b> – run ctxbridge archive optimize/);
      assert.match(await text(page, "nav"), /System1/);
      await go(page, "#/learnings");
      assert(await page.locator("#wrong").isVisible());
      assert.deepEqual(await violations(page), []);
    });
  },

  async axes(browser, url) {
    await visit(browser, url, {}, async (page) => {
      const ticks = (about) =>
        page.evaluate(async (about) => {
          const charts = await import("./charts.js");
          const host = document.createElement("div");
          host.style.width = "360px";
          document.querySelector("#view-overview").append(host);
          const tick = about.isMoney ? (value) => `$${value.toFixed(2)}` : undefined;
          charts.show(host, { label: "A chart of a test.", height: 130, ...about, tick });
          const { x, y } = charts.ticks(host);
          charts.clear(host);
          host.remove();
          return { x, y };
        }, about);
      const bars = (values) => [{ name: "bars", color: "accent", isBars: true, values }];
      const line = (values) => [{ name: "line", color: "accent", values }];
      // One bar or two, each with its label; counts have no halves.
      assert.deepEqual(await ticks({ labels: ["Nov 23"], lines: bars([1]), step: 1 }), { x: ["Nov 23"], y: ["0", "1"] });
      const two = await ticks({ labels: ["Nov 22", "Nov 23"], lines: bars([2, 5]), step: 1 });
      assert.equal(two.x.at(-1), "Nov 23");
      assert(two.y.at(-1) >= 5 && two.y.every((tick) => /^\d+$/.test(tick)), two.y.join());
      assert.deepEqual((await ticks({ labels: ["Nov 23"], lines: bars([0]), step: 1 })).y, ["0", "1"]);
      assert.deepEqual((await ticks({ labels: ["Nov 23"], lines: bars([-3]), step: 1 })).y.at(0).replace("\u2212", "-") <= -3, true);
      // One call or two have whole numbers below them, and all begins at zero.
      assert.deepEqual((await ticks({ x: [1], lines: line([20_000]), step: 1 })).x, ["1"]);
      assert.deepEqual(await ticks({ x: [1, 2], lines: line([20_000, 20_000]), step: 1 }), { x: ["1", "2"], y: ["0", "10K", "20K"] });
      const dollars = await ticks({ labels: ["Nov"], lines: bars([0.03]), step: 0.01, isMoney: true });
      assert.deepEqual([dollars.y[0], new Set(dollars.y).size], ["$0.00", dollars.y.length]);
      const many = await ticks({ labels: Array.from({ length: 30 }, (_, day) => `Nov ${day + 1}`), lines: bars(Array(30).fill(1)), step: 1 });
      assert(many.x.length >= 2 && many.x.length < 8 && many.x.at(-1) === "Nov 30", many.x.join());
    });
  },

  async dark(browser, url) {
    const light = await visit(browser, url, { colorScheme: "light" }, async (page) => {
      const light = await background(page);
      await chartHasData(page, "#days");
      // Switched while the page is open, charts follow.
      const before = await page.locator("#days canvas").evaluate((canvas) => canvas.toDataURL());
      await page.emulateMedia({ colorScheme: "dark" });
      await page.waitForFunction((before) => document.querySelector("#days canvas")?.toDataURL() !== before, before);
      return light;
    });
    await visit(browser, url, { colorScheme: "dark" }, async (page) => {
      assert.notEqual(await background(page), light);
      await chartHasData(page, "#days");
    });
  },

  async fits(browser, url) {
    // axe-core takes seconds a view: each color scheme and each layout once.
    for (const [width, colorScheme, isChecked] of [[360, "light", true], [768, "dark"], [1280, "dark", true]]) {
      await visit(browser, url, { viewport: { width, height: 800 }, colorScheme }, async (page) => {
        await page.waitForSelector("#hero-dollars canvas", { timeout: 120_000 });
        const looks = [["#/", "#days canvas"], ["#/sessions", "#sessions a.row"], ["#/search/quagga", "#sessions mark"], ["#/learnings", "#learnings a.row"], ["#/system", "#capture canvas"]];
        for (const [hash, there] of looks) {
          await go(page, hash);
          await page.waitForSelector(there);
          await fitting(page, `${hash} at ${width} px, ${colorScheme}`, width, isChecked);
        }
        await openSession(page, "Choose a store");
        await page.waitForSelector("#context canvas");
        await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
        await fitting(page, `a session at ${width} px, ${colorScheme}`, width, isChecked);
      });
    }
  },

  async keyboard(browser, url) {
    await visit(browser, url, {}, async (page) => {
      await go(page, "#/sessions");
      await page.locator("#sessions a.row").nth(3).waitFor();
      // From the start of the page, with nothing focused.
      await page.reload();
      await page.locator("#sessions a.row").nth(3).waitFor();
      const focused = () => page.evaluate(() => [document.activeElement.tagName, document.activeElement.id, document.activeElement.className].join(" "));
      const seen = [];
      for (let step = 0; step < 20; step += 1) {
        await page.keyboard.press("Tab");
        seen.push(await focused());
        if (seen.at(-1).startsWith("BODY")) break;
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.notEqual(outline, "none", `${seen.at(-1)} has the keyboard, and does not show it`);
      }
      assert(seen[0].startsWith("A  skip"), seen.join(", "));
      assert.equal(seen.filter((place) => place.startsWith("A  row")).length, 4, seen.join(", "));
      assert(seen.some((place) => place.startsWith("INPUT words")), seen.join(", "));
      // By a link, one comes to the title of the view, and goes on from there.
      await sessionOf(page, "Choose a store").focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.activeElement.id === "session-title");
      await page.waitForSelector("#turns .turn");
      await page.locator(".calls > details > summary").focus();
      await page.keyboard.press("Enter");
      assert(await page.locator(".calls details.call summary").first().isVisible());
      await page.locator(".skip").focus();
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    });
  },

  async live(browser, url) {
    await visit(browser, url, {}, async (page, seen) => {
      // The same canvas, since nothing flickers; and nothing is asked for while nothing changes but whether something did.
      await replayed(page);
      await page.evaluate(() => (window.before = document.querySelector("#days canvas")));
      const from = seen.requests.length;
      console.log("ready");
      await page.waitForFunction(() => /Sessions\s+5/.test(document.querySelector("#numbers").innerText), null, { timeout: 30_000 });
      assert(await page.evaluate(() => window.before.isConnected));
      assert(seen.requests.slice(from).some((request) => request.endsWith("api/changes")));
    });
  },

  async empty(browser, url) {
    await visit(browser, url, {}, async (page) => {
      assert.match(await text(page, "#empty"), /ctxbridge setup[\s\S]*archive import/);
      assert.equal(await page.locator("#savings").isVisible(), false);
      assert.deepEqual(await violations(page), []);
      for (const hash of ["#/sessions", "#/learnings", "#/system"]) {
        await go(page, hash);
        assert.deepEqual(await violations(page), [], hash);
      }
      assert.match(await text(page, "#capture"), /hooks status/);
    });
  },
};

async function fitting(page, what, width, isChecked) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(wide <= width, `${what} is ${wide} px wide`);
  if (isChecked) assert.deepEqual(await violations(page), [], what);
}

const names = process.argv.slice(2, -1);
const url = process.argv.at(-1);
names.forEach((name) => assert(cases[name], `there is no case ${name}`));
const browser = await launch();
try {
  for (const name of names) {
    console.error(`case ${name}`);
    await cases[name](browser, url);
  }
} finally {
  await browser.close();
}
