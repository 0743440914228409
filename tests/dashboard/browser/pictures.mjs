// node pictures.mjs URL FOLDER: what the dashboard looks like, and how soon something is seen of it.

import { join } from "node:path";
import { launch, visit } from "./browser.mjs";

const [url, folder] = process.argv.slice(2);
const looks = {
  light: { colorScheme: "light", viewport: { width: 1040, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1040, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 360, height: 740 } },
};

const browser = await launch();
for (const [name, look] of Object.entries(looks)) {
  await visit(browser, url, look, async (page) => {
    const [paint] = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint").map((entry) => entry.startTime));
    const data = await page.evaluate(() => Math.max(...performance.getEntriesByType("resource").filter(({ name }) => /api.(overview|sessions)/.test(name)).map(({ responseEnd }) => responseEnd)));
    await page.waitForFunction(() => document.querySelector("#savings-about").textContent && !/Still/.test(document.querySelector("#savings-about").textContent), null, { timeout: 120_000 })
      .catch(() => console.log("not all sessions were replayed in time"));
    await page.waitForFunction(() => document.querySelector("#state-about").textContent);
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: join(folder, `dashboard-${name}.png`), fullPage: name === "narrow" });
    await page.evaluate(() => document.querySelector("#recent a.row").click());
    await page.waitForSelector("#turns .turn");
    const read = await page.evaluate(() => Math.max(...performance.getEntriesByType("resource").filter(({ name }) => /api.conversation/.test(name)).map(({ duration }) => duration)));
    await page.waitForSelector("#context canvas");
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: join(folder, `dashboard-session-${name}.png`), fullPage: name === "narrow" });
    console.log(`${name}: first contentful paint after ${Math.round(paint)} ms, first data after ${Math.round(data)} ms, a page of a conversation in ${Math.round(read)} ms`);
  });
}
await browser.close();
