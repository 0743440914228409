// What only JavaScript can do to the injected function. Run by tests/prune.rs; by hand, with
// `node tests/prune/runtime.test.mjs` or, in the engine of newer clients, `bun test tests/prune`.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const NAME = "ctxbridgeAggressiveTextPrune";
const source = readFileSync(
  new URL("../../patches/aggressive-text-prune/runtime.js", import.meta.url),
  "utf8",
);
const load = () => new Function(`"use strict"; ${source}; return ${NAME};`)();
const prune = load();

const uuid = (number) => `${String(number).padStart(8, "0")}-0000-4000-8000-000000000000`;
const user = (content) => ({ type: "user", message: { role: "user", content } });
const text = (value) => ({ type: "text", text: value });

// Ten rounds of 10,000 tokens each, with `old` behind the first of them, and a prompt when the
// cache is cold; every test runs with these settings.
const conversation = (old) => {
  const messages = [user("first")];
  for (let round = 1; round <= 10; round += 1) {
    const id = `msg_${round}`;
    const call = { type: "tool_use", id: `toolu_${round}`, name: "Read", input: { path: "/a" } };
    const result = { type: "tool_result", tool_use_id: `toolu_${round}`, content: "x".repeat(26000) };
    messages.push({ type: "assistant", message: { id, role: "assistant", content: [call] } });
    messages.push(user([result]));
    if (round === 1 && old !== undefined) messages.push(old);
  }
  messages.push(user("last"));
  messages.forEach((message, index) => {
    if (message === old) return;
    const minute = index === messages.length - 1 ? "59" : "00";
    Object.assign(message, { uuid: uuid(index), timestamp: `2026-11-01T10:${minute}:00.000Z` });
  });
  return messages;
};
Object.assign(process.env, {
  CLAUDE_TEXT_PRUNE_KEEP: "1",
  CLAUDE_TEXT_PRUNE_THRESHOLD: "0",
  CLAUDE_TEXT_PRUNE_KEEP_TOKENS: "10000",
});

const throwing = () => {
  throw new Error("not for you");
};
const withGetter = (object, key) =>
  Object.defineProperty(object, key, { get: throwing, enumerable: true });

function assertReturned(messages) {
  assert.equal(prune(messages), messages);
}

const isFolded = (messages) =>
  messages.some((message) => String(message?.message?.content).startsWith("[earlier context folded: "));

// Replaces a property of an object while `action` runs.
function replaced(object, key, descriptor, action) {
  const original = Object.getOwnPropertyDescriptor(object, key);
  Object.defineProperty(object, key, { configurable: true, ...descriptor });
  try {
    return action();
  } finally {
    if (original) Object.defineProperty(object, key, original);
    else delete object[key];
  }
}

test("folds, so that the tests below can fail", () => {
  assert.ok(isFolded(prune(conversation())));
});

test("what is no array comes back", () => {
  const arrayLike = Object.create(Array.prototype);
  const messages = conversation();
  Object.assign(arrayLike, messages, { length: messages.length });
  for (const value of [undefined, null, 0, NaN, "text", {}, new Set(), throwing, arrayLike]) {
    assert.ok(Object.is(prune(value), value));
  }
});

test("a getter that throws, anywhere", () => {
  for (const key of ["type", "isMeta", "isCompactSummary", "message", "uuid", "timestamp"]) {
    assertReturned(conversation(withGetter(user("old"), key)));
  }
  const old = user([text("old")]);
  withGetter(old.message.content[0], "text");
  assertReturned(conversation(old));
  assertReturned(conversation({ type: "user", message: withGetter({}, "content") }));
});

test("a proxy that throws, and one that is revoked", () => {
  assertReturned(conversation(new Proxy(user("old"), { get: throwing })));
  assertReturned(new Proxy(conversation(), { get: throwing }));
  for (const target of [user("old"), conversation()]) {
    const { proxy, revoke } = Proxy.revocable(target, {});
    revoke();
    assertReturned(Array.isArray(target) ? proxy : conversation(proxy));
  }
});

test("a tool input without end", () => {
  const input = {};
  input.self = input;
  const call = { type: "assistant", message: { content: [{ type: "tool_use", input }] } };
  assertReturned([call, ...conversation()]);
});

test("an environment that throws, or is not there", () => {
  const messages = conversation();
  replaced(process, "env", { get: throwing }, () => assertReturned(messages));
  replaced(process, "env", { value: undefined }, () => assertReturned(messages));
  replaced(globalThis, "process", { get: throwing }, () => assertReturned(messages));
  replaced(globalThis, "process", { value: undefined }, () => assertReturned(messages));
});

test("settings are read at each call", () => {
  const messages = conversation();
  const off = { value: { ...process.env, CLAUDE_TEXT_PRUNE: "0" } };
  replaced(process, "env", off, () => assertReturned(messages));
  assert.notEqual(prune(messages), messages);
});

test("what stays keeps its identity and order", () => {
  const messages = Object.freeze(conversation(user("between")).map(Object.freeze));
  const pruned = prune(messages);
  const kept = pruned.filter((message) => !message.isMeta);
  const places = kept.map((message) => messages.indexOf(message));
  assert.ok(places.every((place) => place >= 0));
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.equal(pruned[0], messages[0]);
  assert.equal(pruned.at(-1), messages.at(-1));
});

test("an unchanged conversation is the very same array, and so is one that was pruned", () => {
  assertReturned([]);
  assertReturned(conversation().slice(0, 5));
  for (const old of [NaN, user(NaN), user([NaN])]) assertReturned([old]);
  assertReturned(prune(conversation()));
});

test("the loop goes on with what was sent, in any client, and the next prompt begins with the whole", () => {
  const messages = conversation();
  const sent = load()(messages);
  const more = [
    { type: "assistant", uuid: uuid(90), message: { id: "msg_90", content: [text("so")] } },
    user("more"),
  ];
  const whole = [...messages, ...more];
  const inLoop = prune([...prune(messages), ...more]);
  assert.deepEqual(inLoop, prune(whole));
  // A client that was started anew knows nothing of the digest, and leaves it as it is.
  const elsewhere = load()([...sent, ...more]);
  assert.equal(elsewhere.filter((message) => message.isMeta).length, 1);
  assert.ok(isFolded(elsewhere));
});

test("what is freed is told once, and does not grow with the loop", () => {
  const client = load();
  const messages = conversation();
  const answers = messages.filter((message) => message.type === "assistant");
  answers.forEach((answer, index) => {
    answer.message.usage = { input_tokens: 50000 + 10000 * index };
  });
  const sent = client(messages);
  const freed = client(sent, "freed");
  assert.ok(freed > 20000 && freed < 80000, `${freed}`);
  const lowered = load()(messages, "usage").findLast((message) => message.type === "assistant");
  assert.equal(lowered.message.usage.input_tokens, 140000 - freed);
  assert.equal(messages.findLast((message) => message.type === "assistant").message.usage.input_tokens, 140000);
  const answer = {
    type: "assistant",
    uuid: uuid(91),
    message: { id: "msg_91", content: [text("so")], usage: { input_tokens: 60000 } },
  };
  const next = client([...sent, answer, user("more")]);
  assert.equal(client(next, "freed"), 0);
});

test("a lone surrogate is a character like any other", () => {
  const [high, low] = ["\ud83d", "\ude00"];
  for (const said of [`${"x".repeat(79)}${high}x`, `${"x".repeat(79)}${high}${low}`, low.repeat(90)]) {
    const messages = conversation();
    messages[17].message.content.unshift(text(said));
    const digest = prune(messages).find((message) => message.isMeta).message.content;
    const cut = said.codePointAt(79) > 0xffff ? 79 : 80;
    assert.ok(digest.split("\n").includes(`- said: ${said.slice(0, cut)}`), JSON.stringify(digest));
  }
});

test("nothing is printed", () => {
  const written = [];
  const write = { value: (chunk) => written.push(chunk) };
  const messages = [conversation(), conversation(withGetter(user("old"), "message")), null];
  replaced(process.stdout, "write", write, () =>
    replaced(process.stderr, "write", write, () => messages.forEach((each) => prune(each))),
  );
  assert.deepEqual(written, []);
});

test("it stands in a script, a module, a CommonJS wrapper, and is the only name there", async () => {
  const context = vm.createContext({ process });
  const before = Object.getOwnPropertyNames(context);
  vm.runInContext(source, context);
  const added = Object.getOwnPropertyNames(context).filter((name) => !before.includes(name));
  assert.deepEqual(added, [NAME]);

  const wrapper = `(function (exports, require, module, __filename, __dirname) {${source} module.exports = ${NAME}})`;
  const module = { exports: {} };
  vm.runInThisContext(wrapper)(module.exports, undefined, module);
  const folder = mkdtempSync(join(tmpdir(), "ctxbridge-"));
  const file = join(folder, "module.mjs");
  writeFileSync(file, `${source} export default ${NAME};`);
  const imported = await import(pathToFileURL(file));
  rmSync(folder, { recursive: true });

  for (const loaded of [module.exports, imported.default]) {
    assert.equal(loaded.name, NAME);
    assert.ok(isFolded(loaded(conversation())));
  }
  // An array of another realm is one as well.
  assert.ok(isFolded(context[NAME](conversation())));
});

// What is cut counts at once: conversations of prompts of 35,000 characters, which are 10,000 tokens, an hour apart, with answers
// whose usage says what a request with these messages took, and 20,000 tokens for what comes besides. Of an old prompt, 4,000
// characters and the handle stay.
const PROMPT_CHARS = 35000;
const PROMPT_TOKENS = 10000;
const BASE_TOKENS = 20000;
const LEFT_TOKENS = (4000 + 50) / 3.5;
const FREED_TOKENS = PROMPT_TOKENS - LEFT_TOKENS;
let conversations = 0;

const at = (hour) => `2026-11-01T${String(hour).padStart(2, "0")}:00:00.000Z`;

function measured(prompts, inputOf) {
  conversations += 1;
  const messages = [];
  for (let number = 0; number < prompts; number += 1) {
    const time = { timestamp: at(number) };
    messages.push({ ...user("x".repeat(PROMPT_CHARS)), uuid: `c${conversations}-u${number}`, ...time });
    const usage = { input_tokens: 5, cache_read_input_tokens: inputOf(number) - 5, output_tokens: 7 };
    const message = { id: `c${conversations}-m${number}`, role: "assistant", content: [], usage };
    messages.push({ type: "assistant", uuid: `c${conversations}-a${number}`, message, ...time });
  }
  return messages;
}

const whole = (factor) => (number) => BASE_TOKENS + (number + 1) * PROMPT_TOKENS * factor;
const freedOf = (messages) => prune(prune(messages), "freed");
const next = (messages) => [
  ...messages,
  { ...user("next"), uuid: `c${conversations}-next`, timestamp: at(20) },
];
const around = (expected, tolerance = 150) => (actual) =>
  assert.ok(Math.abs(actual - expected) < tolerance, `${actual}, not ${expected}`);

test("after a resume, usage of whole requests is told what is cut", () => {
  // The newest answered prompt came with the last prune, and too little came since.
  around(4 * FREED_TOKENS)(freedOf(next(measured(5, whole(1)))));
});

test("what usage does not account for was not freed", () => {
  // A token is two estimated ones: what came after the first prompt counts half.
  around(2.5 * PROMPT_TOKENS - 5 * LEFT_TOKENS, 200)(freedOf(next(measured(6, whole(0.5)))));
  assert.equal(freedOf(next(measured(6, () => 9))), 0);
});

test("after a resume, usage of pruned requests is left alone, whatever a token is", () => {
  // One prompt is kept, so that each request had one whole, and the start of the others.
  for (const factor of [0.7, 1, 1.3]) {
    const pruned = (number) => BASE_TOKENS + Math.round((PROMPT_TOKENS + number * LEFT_TOKENS) * factor);
    around(0, 2500)(freedOf(next(measured(8, pruned))));
  }
});

test("a request of this process is known exactly, and what it had cut is not freed again", () => {
  const messages = measured(4, whole(1));
  const [first, second] = [messages.slice(0, 5), messages.slice(0, 7)];
  around(2 * FREED_TOKENS)(freedOf(first));
  // Says the same usage as unpruned, which the memory knows better.
  around(FREED_TOKENS)(freedOf(second));
  // The same request once more, and with what it gave back.
  around(FREED_TOKENS)(freedOf(second));
  around(FREED_TOKENS)(freedOf(prune(second)));
});

test("what is cut of the newest answer is no reason to know less of it", () => {
  const messages = measured(5, whole(1));
  const answer = messages.pop();
  const thought = { type: "thinking", thinking: "t".repeat(7000), signature: "s" };
  const line = (uuid, content) => ({ ...answer, uuid, message: { ...answer.message, content } });
  // A line of thinking alone, one with a text, and both in one.
  for (const lines of [
    [line("thought", [thought]), line("said", [text("so")])],
    [line("both", [thought, text("so")])],
  ]) {
    const all = next([...messages, ...lines]);
    all.at(-1).message.content = "y".repeat(PROMPT_CHARS);
    around(5 * FREED_TOKENS, 200)(freedOf(all));
    const pruned = load()(all, "usage");
    assert.ok(!JSON.stringify(pruned).includes("ttt"));
  }
});

test("thinking that was cut at the end is known in the next request", () => {
  const thought = { type: "thinking", thinking: "t".repeat(70000), signature: "s" };
  const messages = conversation();
  messages.splice(-1, 0, {
    type: "assistant",
    uuid: uuid(90),
    timestamp: "2026-11-01T10:00:00.000Z",
    message: { id: "msg_90", role: "assistant", content: [thought] },
  });
  messages.at(-2).timestamp = "2026-11-01T10:58:00.000Z";
  const client = load();
  const before = messages.slice(0, -1);
  before.push({ ...messages.at(-1), uuid: undefined });
  const once = client(before);
  assert.ok(!JSON.stringify(once).includes("ttt"));
  assert.deepEqual(client(once), once);
});

test("lines of one answer are one answer", () => {
  const messages = measured(4, whole(1));
  const { uuid, ...line } = messages[7];
  const result = { ...user([{ type: "tool_result", tool_use_id: "t", content: "ok" }]), uuid: "r" };
  around(3 * FREED_TOKENS)(freedOf(next([...messages, result, { ...line, uuid: "other" }])));
});

test("usage is lowered in a copy, once, and never below nothing", () => {
  const messages = next(measured(4, whole(1)));
  const before = JSON.stringify(messages);
  const once = prune(messages, "usage");
  const usage = once[7].message.usage;
  assert.equal(usage.output_tokens, 7);
  assert.equal(usage.input_tokens, 0);
  around(BASE_TOKENS + PROMPT_TOKENS + 3 * LEFT_TOKENS, 200)(usage.cache_read_input_tokens);
  assert.equal(JSON.stringify(messages), before);
  assert.deepEqual(prune(once, "usage")[7].message.usage, usage);
  const little = next(measured(4, () => 30));
  for (const part of Object.values(prune(little, "usage")[7].message.usage)) assert.ok(part >= 0);
});

test("switched off, nothing is freed and nothing is another object", () => {
  process.env.CLAUDE_TEXT_PRUNE = "0";
  const messages = next(measured(4, whole(1)));
  assert.equal(prune(messages), messages);
  assert.equal(prune(messages, "usage"), messages);
  assert.equal(prune(messages, "freed"), 0);
  delete process.env.CLAUDE_TEXT_PRUNE;
});

test("what has no usage, or an odd one, frees nothing and is pruned all the same", () => {
  for (const usage of [undefined, null, 5, {}, { input_tokens: "many" }]) {
    const messages = next(measured(3, whole(1)));
    messages.forEach((message) => {
      if (message.type === "assistant") message.message.usage = usage;
    });
    const pruned = prune(messages);
    assert.equal(prune(pruned, "freed"), 0);
    assert.ok(pruned[0].message.content.length < 4200);
    assert.ok(prune(messages, "usage")[0].message.content.length < 4200);
  }
  for (const odd of [null, undefined, 7, [], [null]]) assert.equal(prune(odd, "freed"), 0);
});
