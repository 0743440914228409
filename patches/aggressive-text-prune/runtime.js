function ctxbridgeAggressiveTextPrune(messages) {
  // The twin of src/prune in the ctxbridge sources, which documents every rule;
  // the tests there hold the two to the same result. This runs inside somebody
  // else's program: it must not throw, print, or change what it was given.
  const MARKER = " [earlier context pruned]";
  const DEFAULT_KEEP_TURNS = 4;
  const DEFAULT_THRESHOLD_TOKENS = 20000;
  const DEFAULT_MAX_CHARS = 80;
  const CHARS_PER_TOKEN = 3.5;
  const TOKENS_PER_MEDIA_BLOCK = 2000;

  const isSwitchedOff = () =>
    /^(?:0|false|off|no)$/i.test(process.env.CLAUDE_TEXT_PRUNE);

  const wholeNumber = (name, least, fallback) => {
    const value = process.env[name];
    const number = /^[0-9]+$/.test(value) ? Number(value) : NaN;
    return Number.isSafeInteger(number) && number >= least ? number : fallback;
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

  // Index of the keep-th human prompt from the end, 0 when no older one exists.
  const findBoundary = (keep) => {
    let prompts = 0;
    let boundary = 0;
    for (let i = messages.length - 1; i >= 0; i -= 1) {
      if (!isHumanPrompt(messages[i])) continue;
      prompts += 1;
      if (prompts > keep) return boundary;
      boundary = i;
    }
    return 0;
  };

  const stringLength = (value) =>
    typeof value === "string" ? value.length : 0;

  // Keys and strings only: unlike the length as JSON, this does not hang on how
  // a language writes numbers.
  const nestedLength = (value) => {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 0;
    let length = 0;
    if (Array.isArray(value)) {
      for (const item of value) length += nestedLength(item);
    } else {
      for (const key of Object.keys(value)) {
        length += key.length + nestedLength(value[key]);
      }
    }
    return length;
  };

  // Counts no further than it has to: a long conversation is large at its start.
  const reachesThreshold = (threshold) => {
    let chars = 0;
    let mediaTokens = 0;
    const addContent = (content) => {
      if (Array.isArray(content)) content.forEach(addBlock);
      else chars += stringLength(content);
    };
    const addBlock = (block) => {
      switch (block?.type) {
        case "text":
          chars += stringLength(block.text);
          break;
        case "thinking":
          chars += stringLength(block.thinking);
          break;
        case "tool_use":
          chars += nestedLength(block.input);
          break;
        case "tool_result":
          addContent(block.content);
          break;
        case "image":
        case "document":
          mediaTokens += TOKENS_PER_MEDIA_BLOCK;
          break;
      }
    };
    return messages.some((message) => {
      if (isConversation(message)) addContent(message.message?.content);
      return Math.ceil(chars / CHARS_PER_TOKEN) + mediaTokens >= threshold;
    });
  };

  const shorten = (text, maxChars) => {
    if (text.length <= maxChars) return text;
    // A code point beyond 0xFFFF is a surrogate pair, which the cut would split.
    const splitsPair = text.codePointAt(maxChars - 1) > 0xffff;
    const end = splitsPair ? maxChars - 1 : maxChars;
    // A text that was cut before comes out no shorter, and so stays as it is.
    if (end + MARKER.length >= text.length) return text;
    return text.slice(0, end) + MARKER;
  };

  // Changes the first `end` items. The array itself comes back when none did
  // change, so that the client's identity checks and caches go on working.
  const mapChanged = (items, end, change) => {
    let result = items;
    for (let i = 0; i < end; i += 1) {
      const item = items[i];
      const changed = change(item);
      if (Object.is(changed, item)) continue;
      if (result === items) result = items.slice();
      result[i] = changed;
    }
    return result;
  };

  const pruneBlock = (block, maxChars) => {
    if (block?.type !== "text" || typeof block.text !== "string") return block;
    const text = shorten(block.text, maxChars);
    return text === block.text ? block : { ...block, text };
  };

  const pruneContent = (content, maxChars) => {
    if (typeof content === "string") return shorten(content, maxChars);
    if (!Array.isArray(content)) return content;
    return mapChanged(content, content.length, (block) =>
      pruneBlock(block, maxChars),
    );
  };

  const pruneMessage = (message, maxChars) => {
    if (!isConversation(message) || isSynthetic(message)) return message;
    const old = message.message?.content;
    const content = pruneContent(old, maxChars);
    if (Object.is(content, old)) return message;
    return { ...message, message: { ...message.message, content } };
  };

  try {
    if (!Array.isArray(messages) || isSwitchedOff()) return messages;
    const keep = wholeNumber("CLAUDE_TEXT_PRUNE_KEEP", 1, DEFAULT_KEEP_TURNS);
    const threshold = wholeNumber(
      "CLAUDE_TEXT_PRUNE_THRESHOLD",
      0,
      DEFAULT_THRESHOLD_TOKENS,
    );
    const maxChars = wholeNumber(
      "CLAUDE_TEXT_PRUNE_MAX_CHARS",
      0,
      DEFAULT_MAX_CHARS,
    );
    const boundary = findBoundary(keep);
    if (boundary === 0 || !reachesThreshold(threshold)) return messages;
    return mapChanged(messages, boundary, (message) =>
      pruneMessage(message, maxChars),
    );
  } catch {
    // A conversation sent whole is dearer; one that fails is worse.
    return messages;
  }
}
