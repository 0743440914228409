function ctxbridgeAggressiveTextPrune(messages, purpose) {
  // The twin of src/prune in the ctxbridge sources, which documents every rule;
  // the tests there hold the two to the same result. This runs inside somebody
  // else's program: it must not throw, print, or change what it was given.
  //
  // With the purpose "freed", it answers how many tokens it cut of an array that
  // it returned; with "usage", the newest usage in that array is lower by them.
  const DEFAULT_ENABLED = true;
  const DEFAULT_KEEP_TURNS = 4;
  const DEFAULT_THRESHOLD_TOKENS = 20000;
  const DEFAULT_MAX_CHARS = 80;
  const DEFAULT_TAIL_TOKENS = 10000;
  const DEFAULT_STEP = "40000";
  const DEFAULT_SCOPE = "all";
  const DEFAULT_HANDLES = true;
  const CHARS_PER_TOKEN = 3.5;
  const TOKENS_PER_MEDIA_BLOCK = 2000;
  const MIN_SAVED_CHARS = 100;
  const MARKED =
    / \[earlier context pruned: ([0-9]{1,9}) chars(?:, recall ctx:[0-9a-f]{8}(?:\.[0-9]{1,9}){1,2})?\]$/;
  const LONGEST_MARKER = 100;
  const KEEP = /(?:^|[ \t\r\n])#keep(?![A-Za-z0-9_\-/#])/i;
  const WRITERS = /^(?:Write|Edit|MultiEdit|NotebookEdit)$/;
  const LARGE_ARGUMENTS = ["content", "old_string", "new_string", "new_source"];

  const setting = (name) => process.env["CLAUDE_TEXT_PRUNE" + name];

  const isOn = (name, fallback) => {
    const value = setting(name);
    if (value === undefined) return fallback;
    if (/^(?:0|false|off|no)$/i.test(value)) return false;
    return fallback || /^(?:1|true|on|yes)$/i.test(value);
  };

  const wholeNumber = (value, least, fallback) => {
    const number = /^[0-9]+$/.test(value) ? Number(value) : NaN;
    return Number.isSafeInteger(number) && number >= least ? number : fallback;
  };

  const parseStep = (value) => {
    const [, number, turns] = /^([0-9]+)(turns)?$/i.exec(value) ?? [];
    const length = wholeNumber(number, 1, 0);
    return length && { length, isTurns: turns !== undefined };
  };

  const isConversation = (message) =>
    message?.type === "user" || message?.type === "assistant";

  // Written by the client, not by a person or the model.
  const isSynthetic = (message) => message.isMeta || message.isCompactSummary;

  // Tool results are user messages too, but nobody typed them.
  const isHumanPrompt = (message) => {
    if (message?.type !== "user" || isSynthetic(message)) return false;
    const content = message.message?.content;
    if (!Array.isArray(content)) return typeof content === "string";
    return !content.some((block) => block?.type === "tool_result");
  };

  // `#keep` in its prompt keeps a turn whole. What was cut did not ask, or it
  // would not have been, though its end may look as if it did.
  const asksToKeep = (prompt) => {
    const content = prompt.message.content;
    const texts = Array.isArray(content)
      ? content.map((block) => (block?.type === "text" ? block.text : undefined))
      : [content];
    return texts.some(
      (text) =>
        typeof text === "string" &&
        KEEP.test(text) &&
        !(text.endsWith("]") && MARKED.test(text.slice(-LONGEST_MARKER))),
    );
  };

  // Sizes: what was cut counts as long as it was.
  let chars = 0;
  let mediaBlocks = 0;

  const addText = (text) => {
    if (typeof text !== "string") return;
    const marked = text.endsWith("]") && MARKED.exec(text.slice(-LONGEST_MARKER));
    chars += marked ? Number(marked[1]) : text.length;
  };

  // Keys and strings only: unlike the length as JSON, this does not hang on how
  // a language writes numbers.
  const addNested = (value) => {
    if (typeof value !== "object" || value === null) return addText(value);
    if (Array.isArray(value)) return value.forEach(addNested);
    for (const key of Object.keys(value)) {
      addText(key);
      addNested(value[key]);
    }
  };

  const addContent = (content) => {
    if (Array.isArray(content)) content.forEach(addBlock);
    else addText(content);
  };

  const addBlock = (block) => {
    switch (block?.type) {
      case "text":
        return addText(block.text);
      case "thinking":
        return addText(block.thinking);
      case "tool_use":
        return addNested(block.input);
      case "tool_result":
        return addContent(block.content);
      case "image":
      case "document":
        mediaBlocks += 1;
    }
  };

  // Everything before `tools` (of results and inputs) and `text` is old. A place
  // where the conversation has got another step larger becomes the boundary with
  // the message that leaves the tail behind it; later messages change nothing of
  // that, so the start of the request stays the same for a whole step.
  const findBoundary = (step, keep, threshold, tail) => {
    const boundary = { tools: 0, text: 0 };
    const prompts = [];
    const waiting = [];
    let next = 0;
    let after = 0;
    messages.forEach((message, index) => {
      const before = after;
      if (isConversation(message)) addContent(message.message?.content);
      after =
        Math.ceil(chars / CHARS_PER_TOKEN) + mediaBlocks * TOKENS_PER_MEDIA_BLOCK;
      const isPrompt = isHumanPrompt(message);
      if (!step.isTurns) {
        if (Math.floor(after / step.length) > Math.floor(before / step.length)) {
          waiting.push([index + 1, after]);
        }
      } else if (isPrompt && prompts.length && prompts.length % step.length === 0) {
        waiting.push([index, before]);
      }
      if (isPrompt) prompts.push(index);
      while (
        next < waiting.length &&
        after - waiting[next][1] >= tail &&
        after >= threshold
      ) {
        boundary.tools = waiting[next][0];
        const kept = prompts.length > keep ? prompts[prompts.length - keep] : 0;
        boundary.text = Math.min(boundary.tools, kept);
        next += 1;
      }
    });
    return boundary;
  };

  // Changes what `change` makes another thing of. The array itself comes back
  // when nothing did change, so that the client's identity checks go on working.
  const mapChanged = (items, end, change) => {
    let result = items;
    for (let i = 0; i < end; i += 1) {
      const item = items[i];
      const changed = change(item, i);
      if (Object.is(changed, item)) continue;
      if (result === items) result = items.slice();
      result[i] = changed;
    }
    return result;
  };

  const replace = (object, key, value) =>
    Object.is(object[key], value) ? object : { ...object, [key]: value };

  const shortener = (uuid, maxChars) => (text, place) => {
    if (typeof text !== "string" || text.length <= maxChars) return text;
    if (text.endsWith("]") && MARKED.test(text.slice(-LONGEST_MARKER))) return text;
    // A code point beyond 0xFFFF is a surrogate pair, which the cut would split.
    const splitsPair = text.codePointAt(maxChars - 1) > 0xffff;
    const end = splitsPair ? maxChars - 1 : maxChars;
    const recall = uuid ? `, recall ctx:${uuid}.${place}` : "";
    const marker = ` [earlier context pruned: ${text.length} chars${recall}]`;
    if (end + marker.length + MIN_SAVED_CHARS > text.length) return text;
    return text.slice(0, end) + marker;
  };

  const pruneInput = (input, place, shorten) => {
    let pruned = input;
    LARGE_ARGUMENTS.forEach((name, number) => {
      const text = input?.[name];
      if (typeof text !== "string") return;
      pruned = replace(pruned, name, shorten(text, `${place}.${number}`));
    });
    const edits = input?.edits;
    if (!Array.isArray(edits)) return pruned;
    const shortened = mapChanged(edits, edits.length, (edit, index) => {
      let changed = edit;
      ["old_string", "new_string"].forEach((name, side) => {
        const text = edit?.[name];
        if (typeof text !== "string") return;
        const number = LARGE_ARGUMENTS.length + 2 * index + side;
        changed = replace(changed, name, shorten(text, `${place}.${number}`));
      });
      return changed;
    });
    return replace(pruned, "edits", shortened);
  };

  const pruneResult = (content, place, shorten) =>
    Array.isArray(content)
      ? mapChanged(content, content.length, (part, index) =>
          part?.type === "text" && typeof part.text === "string"
            ? replace(part, "text", shorten(part.text, `${place}.${index}`))
            : part,
        )
      : shorten(content, place);

  const pruneMessage = (message, withText, withTools, withHandles, maxChars) => {
    if (!isConversation(message) || isSynthetic(message)) return message;
    const [uuid] =
      withHandles && typeof message.uuid === "string"
        ? (/^[0-9a-f]{8}/i.exec(message.uuid) ?? [])
        : [];
    const shorten = shortener(uuid?.toLowerCase(), maxChars);
    const pruneBlock = (block, index) => {
      if (block?.type === "text" && withText) {
        return typeof block.text === "string"
          ? replace(block, "text", shorten(block.text, index))
          : block;
      }
      if (block?.type === "tool_result" && withTools) {
        return "content" in block
          ? replace(block, "content", pruneResult(block.content, index, shorten))
          : block;
      }
      if (block?.type === "tool_use" && withTools && WRITERS.test(block.name)) {
        return "input" in block
          ? replace(block, "input", pruneInput(block.input, index, shorten))
          : block;
      }
      return block;
    };
    const old = message.message?.content;
    let content = old;
    if (typeof old === "string" && withText) content = shorten(old, 0);
    if (Array.isArray(old)) content = mapChanged(old, old.length, pruneBlock);
    if (Object.is(content, old)) return message;
    return { ...message, message: { ...message.message, content } };
  };

  // The client measures a conversation by the usage of the last answer, and that
  // request was made before this cut. What it still had is remembered by the id
  // of its newest message, and then by the id of its answer.
  const MAX_REMEMBERED = 1000;
  const MIN_SPAN_TOKENS = 10000;
  const state = (ctxbridgeAggressiveTextPrune.state ??= {
    sizes: new Map(),
    freed: new WeakMap(),
    lowered: new WeakMap(),
  });

  const remember = (id, size) => {
    if (typeof id !== "string") return;
    state.sizes.delete(id);
    state.sizes.set(id, size);
    if (state.sizes.size > MAX_REMEMBERED) {
      state.sizes.delete(state.sizes.keys().next().value);
    }
  };

  // Estimated tokens as they stand, unlike those above: a marker is no longer
  // than it is. Entry i is the size of all messages before message i.
  const sizesBefore = (array) => {
    let chars = 0;
    let tokens = 0;
    const add = (value) => {
      if (typeof value === "string") chars += value.length;
      else if (value?.type === "image" || value?.type === "document") {
        tokens += TOKENS_PER_MEDIA_BLOCK;
      } else if (typeof value === "object" && value !== null) {
        for (const key in value) add(value[key]);
      }
    };
    const addBlock = (block) => {
      if (block?.type === "text") add(block.text);
      else if (block?.type === "thinking") add(block.thinking);
      else if (block?.type === "tool_use") add(block.input);
      else if (block?.type === "tool_result") add(block.content);
      else add(block);
    };
    const sizes = [0];
    for (const message of array) {
      const content = isConversation(message) ? message.message?.content : undefined;
      if (Array.isArray(content)) content.forEach(addBlock);
      else add(content);
      sizes.push(tokens + chars / CHARS_PER_TOKEN);
    }
    return sizes;
  };

  const USAGE_PARTS = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
  ];
  const inputOf = (usage) =>
    USAGE_PARTS.reduce((sum, part) => sum + (Number(usage[part]) || 0), 0);

  const usageOf = (message) =>
    message?.type === "assistant" && message.message?.model !== "<synthetic>"
      ? message.message?.usage
      : undefined;

  // What the last usage was measured with, if no call of this process was: after
  // a resume the request may have been a pruned one, or not. The first usage
  // says what comes besides the messages, and the steepest growth since then how
  // many tokens one estimated token can be; what is left is no overestimate.
  const sizeByUsage = (array, sizes, last) => {
    const all = [];
    array.forEach((message, index) => {
      const usage = index <= last && usageOf(message);
      const previous = all.at(-1);
      if (!usage || (previous && previous.id === message.message.id)) return;
      all.push({ id: message.message.id, size: sizes[index], input: inputOf(usage) });
    });
    const [first] = all;
    const { input } = all.at(-1);
    const slopes = all
      .filter(({ size }) => size - first.size >= MIN_SPAN_TOKENS)
      .map((one) => (one.input - first.input) / (one.size - first.size));
    return first.size + (input - first.input) / Math.max(1, ...slopes);
  };

  // Tells what the prune freed of what the last usage counts.
  const account = (pruned) => {
    const sizes = sizesBefore(pruned);
    let last = pruned.length - 1;
    while (last >= 0 && !usageOf(pruned[last])) last -= 1;
    let freed = 0;
    if (last >= 0) {
      const id = pruned[last].message.id;
      let first = last;
      for (let i = last - 1; i >= 0; i -= 1) {
        if (pruned[i]?.type !== "assistant") continue;
        if (typeof id !== "string" || pruned[i].message?.id !== id) break;
        first = i;
      }
      let size = state.sizes.get(id);
      for (let i = first - 1; size === undefined && i >= 0; i -= 1) {
        if (pruned[i]?.type === "assistant") break;
        size = state.sizes.get(pruned[i]?.uuid);
      }
      if (size === undefined) {
        const before = sizesBefore(messages);
        size = Math.min(before[first], sizeByUsage(messages, before, last));
      }
      remember(id, size);
      const input = inputOf(usageOf(pruned[last]));
      const most = input + (state.lowered.get(usageOf(pruned[last])) ?? 0);
      freed = Math.floor(Math.max(0, Math.min(size - sizes[first], most)));
    }
    const newest = pruned.findLast((message) => typeof message?.uuid === "string");
    remember(newest?.uuid, sizes[pruned.length]);
    return { freed, last };
  };

  // A copy, of which the newest usage is lower: the original says what was paid.
  const withLowerUsage = (pruned, { freed, last }) => {
    const message = pruned[last];
    const old = usageOf(message);
    let rest = freed && freed - (state.lowered.get(old) ?? 0);
    if (rest <= 0) return pruned;
    const usage = { ...old };
    for (const part of USAGE_PARTS) {
      if (rest <= 0 || !(usage[part] > 0)) continue;
      const less = Math.min(rest, usage[part]);
      usage[part] -= less;
      rest -= less;
    }
    state.lowered.set(usage, freed);
    const lowered = pruned.slice();
    lowered[last] = { ...message, message: { ...message.message, usage } };
    return lowered;
  };

  const finish = (pruned) => {
    try {
      const accounted = account(pruned);
      if (purpose === "usage") return withLowerUsage(pruned, accounted);
      state.freed.set(pruned, accounted.freed);
    } catch {
      // Then the client decides as it did before.
    }
    return pruned;
  };

  try {
    if (purpose === "freed") return state.freed.get(messages) ?? 0;
    if (!Array.isArray(messages) || !isOn("", DEFAULT_ENABLED)) return messages;
    const number = (name, least, fallback) =>
      wholeNumber(setting(name), least, fallback);
    const boundary = findBoundary(
      parseStep(setting("_STEP")) || parseStep(DEFAULT_STEP),
      number("_KEEP", 1, DEFAULT_KEEP_TURNS),
      number("_THRESHOLD", 0, DEFAULT_THRESHOLD_TOKENS),
      number("_TAIL_TOKENS", 0, DEFAULT_TAIL_TOKENS),
    );
    const maxChars = number("_MAX_CHARS", 0, DEFAULT_MAX_CHARS);
    const [scope] =
      /^(?:text|tools|all)$/i.exec(setting("_SCOPE") ?? "") ?? [DEFAULT_SCOPE];
    const withHandles = isOn("_HANDLES", DEFAULT_HANDLES);
    const hasText = !/^tools$/i.test(scope);
    const hasTools = !/^text$/i.test(scope);
    const end = Math.max(hasTools && boundary.tools, hasText && boundary.text);
    let isKept = false;
    const pruned = mapChanged(messages, end, (message, index) => {
      if (isHumanPrompt(message)) isKept = asksToKeep(message);
      if (isKept) return message;
      return pruneMessage(
        message,
        hasText && index < boundary.text,
        hasTools && index < boundary.tools,
        withHandles,
        maxChars,
      );
    });
    return finish(pruned);
  } catch {
    // A conversation sent whole is dearer; one that fails is worse.
    return purpose === "freed" ? 0 : messages;
  }
}
