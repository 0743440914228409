// A headless browser, and a page in it that is watched: for errors, and for requests that leave this machine.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

/** Where the browser is: as the variable says, the one that npm brought (Linux on x64), or the Chrome of the machine. */
async function place() {
  if (process.env.CTXBRIDGE_CHROMIUM) return { executablePath: process.env.CTXBRIDGE_CHROMIUM };
  if (process.platform === "linux" && process.arch === "x64") {
    const { default: brought } = await import("@sparticuz/chromium");
    return { executablePath: await brought.executablePath() };
  }
  return { channel: "chrome" };
}

export async function launch() {
  const where = await place();
  if (where.executablePath) assert(existsSync(where.executablePath), `${where.executablePath} does not exist`);
  // Containers and CI have no user namespaces for the sandbox, and the page is our own.
  return chromium.launch({ ...where, args: ["--no-sandbox", "--disable-gpu"] });
}

/** Opens the dashboard, does something with it, and says what it asked for and complained of. `answers` stand for those of the server. */
export async function visit(browser, url, { answers = {}, ...options }, work) {
  // Where LANG is C, headless Chromium has a language that its own Intl does not know.
  const context = await browser.newContext({ locale: "en-US", viewport: { width: 1280, height: 900 }, ...options });
  const seen = { requests: [], complaints: [] };
  await context.route("**/*", (route) => {
    const asked = route.request().url();
    seen.requests.push(asked);
    const answer = Object.entries(answers).find(([path]) => asked.endsWith(path));
    return answer ? route.fulfill({ json: answer[1] }) : route.continue();
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    seen.complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#live").textContent === "live");
  const result = await work(page, seen);
  const origin = new URL(url).origin;
  const strangers = seen.requests.filter((request) => !request.startsWith(`${origin}/`) && !request.startsWith("data:"));
  assert.deepEqual(strangers, [], "requests that left loopback");
  assert(seen.requests.length > 5, "requests were not counted");
  assert.deepEqual(seen.complaints, []);
  await context.close();
  return result;
}

/** Whether something was drawn on every canvas in an element: that many colors that are not see-through. */
export const painted = (page, selector) =>
  page.locator(`${selector} canvas`).evaluateAll((canvases) =>
    canvases.map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const colors = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) colors.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
      return colors.size;
    }),
  );
