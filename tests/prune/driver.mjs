// Runs runtime.js on cases from stdin, one JSON line each, and answers each with a line.
// The first line says what to load: {source, name}.

async function* lines(stream) {
  // Not node:readline, which also breaks lines at U+2028 and U+2029: JSON may hold those.
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

// The runtime is loaded in strict mode, where writing to what is frozen throws. It would catch that
// and return its input, which the comparison with Rust then shows.
function deepFreeze(value) {
  if (typeof value !== "object" || value === null) return value;
  Object.values(value).forEach(deepFreeze);
  return Object.freeze(value);
}

const input = lines(process.stdin);
const { source, name } = JSON.parse((await input.next()).value);
const prune = new Function(`"use strict"; ${source}; return ${name};`)();

for await (const line of input) {
  const { environment, messages, ends } = JSON.parse(line);
  for (const key of Object.keys(process.env)) {
    if (key.startsWith("CLAUDE_")) delete process.env[key];
  }
  Object.assign(process.env, environment);
  // Each case is another client.
  delete prune.state;
  deepFreeze(messages);
  // The query loop: what was sent is what it goes on with, and with what came since.
  let sent = [];
  let from = 0;
  for (const end of ends ?? []) {
    sent = prune(deepFreeze([...sent, ...messages.slice(from, end)]));
    from = end;
  }
  const given = ends ? deepFreeze([...sent, ...messages.slice(from)]) : messages;
  const pruned = prune(given);
  const answer = { messages: pruned, sameArray: pruned === given };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
