function reference(messages) {
  // The design that the issue compares with: text only, no tail, and a boundary
  // that moves on each call, since every tool result counts as a turn.
  const MARKER = " [earlier context pruned]";
  const KEEP = 4;
  const THRESHOLD_TOKENS = 20000;
  const MAX_CHARS = 80;

  const length = (value) => {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 0;
    return Object.values(value).reduce((sum, item) => sum + length(item), 0);
  };
  const shorten = (text) =>
    text.length > MAX_CHARS + MARKER.length
      ? text.slice(0, MAX_CHARS) + MARKER
      : text;
  const prune = (message) => {
    if (message.type !== "user" && message.type !== "assistant") return message;
    if (message.isMeta || message.isCompactSummary) return message;
    const old = message.message.content;
    const content = Array.isArray(old)
      ? old.map((block) =>
          block.type === "text" ? { ...block, text: shorten(block.text) } : block,
        )
      : shorten(old);
    return { ...message, message: { ...message.message, content } };
  };

  try {
    const chars = messages.reduce(
      (sum, message) => sum + length(message.message?.content),
      0,
    );
    if (chars / 3.5 < THRESHOLD_TOKENS) return messages;
    const turns = messages.flatMap((message, index) =>
      message.type === "user" ? [index] : [],
    );
    const boundary = turns.length > KEEP ? turns[turns.length - KEEP] : 0;
    return messages.map((message, index) =>
      index < boundary ? prune(message) : message,
    );
  } catch {
    return messages;
  }
}
