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
