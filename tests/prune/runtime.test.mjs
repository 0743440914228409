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
const prune = new Function(`"use strict"; ${source}; return ${NAME};`)();

const marker = (chars) => ` [earlier context pruned: ${chars} chars]`;
const LONG = "x".repeat(200);
const MARKER = marker(LONG.length);
const user = (content) => ({ type: "user", message: { role: "user", content } });
const text = (value) => ({ type: "text", text: value });

// An old message and one kept turn; every test runs with these settings.
const conversation = (old) => [user("first"), old, user("last")];
Object.assign(process.env, {
  CLAUDE_TEXT_PRUNE_KEEP: "1",
  CLAUDE_TEXT_PRUNE_THRESHOLD: "0",
  CLAUDE_TEXT_PRUNE_MAX_CHARS: "10",
  CLAUDE_TEXT_PRUNE_TAIL_TOKENS: "0",
  CLAUDE_TEXT_PRUNE_STEP: "1",
});

const throwing = () => {
  throw new Error("not for you");
};
const withGetter = (object, key) =>
  Object.defineProperty(object, key, { get: throwing, enumerable: true });

function assertReturned(messages) {
  assert.equal(prune(messages), messages);
}

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

test("prunes, so that the tests below can fail", () => {
  const pruned = prune(conversation(user(LONG)));
  assert.equal(pruned[1].message.content, "x".repeat(10) + MARKER);
});

test("what is no array comes back", () => {
  const arrayLike = Object.create(Array.prototype);
  Object.assign(arrayLike, conversation(user(LONG)), { length: 3 });
  for (const value of [undefined, null, 0, NaN, "text", {}, new Set(), throwing, arrayLike]) {
    assert.ok(Object.is(prune(value), value));
  }
});

test("an array with holes keeps them", () => {
  const messages = conversation(user(LONG));
  messages.splice(1, 0, undefined);
  delete messages[1];
  const pruned = prune(messages);
  assert.equal(pruned.length, 4);
  assert.ok(!(1 in pruned));
  assert.notEqual(pruned[2], messages[2]);
});

test("a getter that throws, anywhere", () => {
  for (const key of ["type", "isMeta", "isCompactSummary", "message"]) {
    assertReturned(conversation(withGetter(user(LONG), key)));
  }
  const old = user([text(LONG)]);
  withGetter(old.message.content[0], "text");
  assertReturned(conversation(old));
  assertReturned(conversation({ type: "user", message: withGetter({}, "content") }));
  // Met only when the copy is made, after another message was already cut.
  const messages = conversation(user(LONG));
  messages.splice(2, 0, withGetter(user(LONG), "toolUseResult"));
  assertReturned(messages);
});

test("a proxy that throws, and one that is revoked", () => {
  assertReturned(conversation(new Proxy(user(LONG), { get: throwing })));
  assertReturned(conversation(new Proxy(user(LONG), { ownKeys: throwing })));
  assertReturned(new Proxy(conversation(user(LONG)), { get: throwing }));
  for (const target of [user(LONG), conversation(user(LONG))]) {
    const { proxy, revoke } = Proxy.revocable(target, {});
    revoke();
    assertReturned(Array.isArray(target) ? proxy : conversation(proxy));
  }
});

test("a proxy that behaves is pruned like what it stands for", () => {
  const pruned = prune(new Proxy(conversation(new Proxy(user(LONG), {})), {}));
  assert.equal(pruned[1].message.content, "x".repeat(10) + MARKER);
});

test("a tool input without end", () => {
  const input = {};
  input.self = input;
  const call = { type: "assistant", message: { content: [{ type: "tool_use", input }] } };
  assertReturned([call, ...conversation(user(LONG))]);
});

test("an environment that throws, or is not there", () => {
  const messages = conversation(user(LONG));
  replaced(process, "env", { get: throwing }, () => assertReturned(messages));
  replaced(process, "env", { value: undefined }, () => assertReturned(messages));
  replaced(globalThis, "process", { get: throwing }, () => assertReturned(messages));
  replaced(globalThis, "process", { value: undefined }, () => assertReturned(messages));
});

test("settings are read at each call", () => {
  const messages = conversation(user(LONG));
  const off = { value: { ...process.env, CLAUDE_TEXT_PRUNE: "0" } };
  replaced(process, "env", off, () => assertReturned(messages));
  assert.notEqual(prune(messages), messages);
});

test("frozen input is copied, and everything else keeps its identity and order", () => {
  const usage = Object.freeze({ input_tokens: 1 });
  const tool = Object.freeze({ type: "tool_use", id: "toolu_1", input: Object.freeze({}) });
  const block = Object.freeze({ citations: null, type: "text", text: LONG, cache_control: usage });
  const content = Object.freeze([tool, block, Object.freeze(text("short"))]);
  const message = Object.freeze({ id: "msg_1", content, role: "assistant", usage });
  const old = Object.freeze({ uuid: "u", message, type: "assistant", timestamp: 1 });
  const messages = Object.freeze(conversation(old));

  const pruned = prune(messages);
  assert.equal(pruned[0], messages[0]);
  assert.equal(pruned[2], messages[2]);
  assert.equal(pruned[1].message.usage, usage);
  assert.equal(pruned[1].message.content[0], tool);
  assert.equal(pruned[1].message.content[2], content[2]);
  const cut = { ...block, text: "x".repeat(10) + MARKER };
  const expected = { ...old, message: { ...message, content: [tool, cut, content[2]] } };
  assert.equal(JSON.stringify(pruned[1]), JSON.stringify(expected));
  assert.equal(block.text, LONG);
});

test("an unchanged conversation is the very same array", () => {
  assertReturned([]);
  assertReturned(conversation(user("short")));
  // The one value that is not equal to itself.
  for (const old of [NaN, user(NaN), user([NaN])]) assertReturned(conversation(old));
  const pruned = prune(conversation(user(LONG)));
  assertReturned(pruned);
});

test("symbols are copied too", () => {
  const key = Symbol("key");
  assert.equal(prune(conversation({ ...user(LONG), [key]: 1 }))[1][key], 1);
});

test("a lone surrogate is a character like any other", () => {
  const cut = (value) => prune(conversation(user(value)))[1].message.content;
  const [high, low] = ["\ud83d", "\ude00"];
  // At the cut: a high one without its low one, the reverse, and a pair of the wrong order.
  const cases = [
    ["x".repeat(9) + high, LONG],
    ["x".repeat(10), low + LONG],
    ["x".repeat(9) + low, high + LONG],
    ["x".repeat(9) + high, high + low + LONG],
    ["x".repeat(9), high + low + LONG],
  ];
  for (const [kept, rest] of cases) {
    assert.equal(cut(kept + rest), kept + marker(kept.length + rest.length));
  }
});

test("nothing is printed", () => {
  const written = [];
  const write = { value: (chunk) => written.push(chunk) };
  const messages = [
    conversation(user(LONG)),
    conversation(withGetter(user(LONG), "message")),
    null,
  ];
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

  for (const loaded of [context[NAME], module.exports, imported.default]) {
    assert.equal(loaded.name, NAME);
    assert.equal(loaded(conversation(user(LONG)))[1].message.content, "x".repeat(10) + MARKER);
  }
});

// What is cut counts at once: conversations of prompts of 35,000 characters, which are 10,000 tokens, with answers whose usage
// says what a request with these messages took, and 20,000 tokens for what comes besides.
const PROMPT_CHARS = 35000;
const PROMPT_TOKENS = 10000;
const BASE_TOKENS = 20000;
let conversations = 0;

function measured(prompts, inputOf) {
  conversations += 1;
  const messages = [];
  for (let number = 0; number < prompts; number += 1) {
    const uuid = `c${conversations}-u${number}`;
    messages.push({ ...user("x".repeat(PROMPT_CHARS)), uuid });
    const usage = { input_tokens: 5, cache_read_input_tokens: inputOf(number) - 5, output_tokens: 7 };
    const message = { id: `c${conversations}-m${number}`, role: "assistant", content: [], usage };
    messages.push({ type: "assistant", uuid: `c${conversations}-a${number}`, message });
  }
  return messages;
}

const whole = (factor) => (number) => BASE_TOKENS + (number + 1) * PROMPT_TOKENS * factor;
const freedOf = (messages) => prune(prune(messages), "freed");
const next = (messages) => [...messages, { ...user("next"), uuid: `c${conversations}-next` }];
const around = (expected, tolerance = 100) => (actual) =>
  assert.ok(Math.abs(actual - expected) < tolerance, `${actual}, not ${expected}`);

test("after a resume, usage of whole requests is told what is cut", () => {
  around(5 * PROMPT_TOKENS)(freedOf(next(measured(5, whole(1)))));
});

test("what usage does not account for was not freed", () => {
  // A token is two estimated ones: what came after the first prompt counts half.
  around(PROMPT_TOKENS + 2.5 * PROMPT_TOKENS, 200)(freedOf(next(measured(6, whole(0.5)))));
  assert.equal(freedOf(next(measured(6, () => 9))), 9);
});

test("after a resume, usage of pruned requests is left alone, whatever a token is", () => {
  // One prompt is kept, so that each request had one whole, and markers.
  for (const factor of [0.7, 1, 1.3]) {
    const pruned = (number) => BASE_TOKENS + Math.round((PROMPT_TOKENS + number * 15) * factor);
    const freed = freedOf(next(measured(8, pruned)));
    // The newest answered prompt was whole in its request, and is cut now.
    around(PROMPT_TOKENS, 200)(freed);
  }
});

test("a request of this process is known exactly, and what it had cut is not freed again", () => {
  const messages = measured(4, whole(1));
  const [first, second] = [messages.slice(0, 5), messages.slice(0, 7)];
  around(2 * PROMPT_TOKENS)(freedOf(first));
  // Says the same usage as unpruned, which the memory knows better.
  around(PROMPT_TOKENS)(freedOf(second));
  // The same request once more, and with what it gave back.
  around(PROMPT_TOKENS)(freedOf(second));
  around(PROMPT_TOKENS)(freedOf(prune(second)));
});

test("lines of one answer are one answer", () => {
  const messages = measured(4, whole(1));
  const { uuid, ...line } = messages[7];
  const result = { ...user([{ type: "tool_result", tool_use_id: "t", content: "ok" }]), uuid: "r" };
  around(4 * PROMPT_TOKENS)(freedOf(next([...messages, result, { ...line, uuid: "other" }])));
});

test("usage is lowered in a copy, once, and never below nothing", () => {
  const messages = next(measured(4, whole(1)));
  const before = JSON.stringify(messages);
  const once = prune(messages, "usage");
  const usage = once[7].message.usage;
  assert.equal(usage.output_tokens, 7);
  assert.equal(usage.input_tokens, 0);
  around(BASE_TOKENS, 200)(usage.cache_read_input_tokens);
  assert.equal(JSON.stringify(messages), before);
  assert.equal(prune(once, "usage")[7].message.usage, usage);
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
  for (const usage of [undefined, null, 5, {}, { input_tokens: "many" }, withGetter({}, "input_tokens")]) {
    const messages = next(measured(3, whole(1)));
    messages.forEach((message) => {
      if (message.type === "assistant") message.message.usage = usage;
    });
    const pruned = prune(messages);
    assert.equal(prune(pruned, "freed"), 0);
    assert.ok(pruned[0].message.content.length < 200);
    assert.ok(prune(messages, "usage")[0].message.content.length < 200);
  }
  for (const odd of [null, undefined, 7, [], [null]]) assert.equal(prune(odd, "freed"), 0);
});
