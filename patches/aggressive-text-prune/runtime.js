function ctxbridgeAggressiveTextPrune(messages, purpose) {
  // The twin of src/prune in the ctxbridge sources, which documents every rule;
  // the tests there hold the two to the same result. This runs inside somebody
  // else's program: it must not throw, print, or change what it was given.
  //
  // With the purpose "freed", it answers how many tokens it cut of an array that
  // it returned; with "usage", the newest usage in that array is lower by them.
  const DEFAULT_ENABLED = true;
  const DEFAULT_POLICY = "fold";
  const DEFAULT_KEEP_TURNS = 4;
  const DEFAULT_THRESHOLD_TOKENS = 20000;
  const DEFAULT_MAX_CHARS = 80;
  const DEFAULT_KEEP_TOKENS = 0;
  const DEFAULT_WINDOW = 0;
  const MODEL_WINDOWS = [["[1m]",1000000],["claude-opus-4-7",1000000],["claude-opus-4-8",1000000],["claude-sonnet-5",1000000],["claude-haiku-5",1000000],["claude-mythos-",1000000],["claude-fable-",1000000],["claude-opus-5",1000000]];
  const PROTECTED_TOOLS = ["AskUserQuestion","ExitPlanMode"];
  const PROTECTED_FILES = ["(?:^|/)AGENTS\\.md$","(?:^|/)CLAUDE\\.md$","(?:^|/)SKILL\\.md$"];
  const CHARS_PER_TOKEN = 3.5;
  const TOKENS_PER_MEDIA_BLOCK = 2000;
  const KEEP = /(?:^|[ \t\r\n])#keep(?![A-Za-z0-9_\-/#])/i;
  const [WHOLE, LINES, COUNT] = [0, 1, 2];

  const setting = (name) => process.env["CLAUDE_TEXT_PRUNE" + name];

  const isOn = (name, fallback) => {
    const value = setting(name);
    if (value === undefined) return fallback;
    if (/^(?:0|false|off|no)$/i.test(value)) return false;
    return fallback || /^(?:1|true|on|yes)$/i.test(value);
  };

  const numberOf = (value, least, fallback) => {
    const number = /^[0-9]+$/.test(value) ? Number(value) : NaN;
    return Number.isSafeInteger(number) && number >= least ? number : fallback;
  };

  const isConversation = (message) =>
    message?.type === "user" || message?.type === "assistant";

  // Written by the client, not by a person or the model.
  const isSynthetic = (message) => message.isMeta || message.isCompactSummary;

  const contentOf = (message) =>
    isConversation(message) ? message.message?.content : undefined;

  const blocksOf = (message) => {
    const content = contentOf(message);
    return Array.isArray(content) ? content : [];
  };

  // A digest that a plugin left in the place of what was compacted.
  const isDigest = (text) =>
    typeof text === "string" && text.startsWith("[earlier context folded: ");

  // Tool results are user messages too, but nobody typed them.
  const hasResult = (message) =>
    message?.type === "user" &&
    blocksOf(message).some((block) => block?.type === "tool_result");

  const isHumanPrompt = (message) => {
    if (message?.type !== "user" || isSynthetic(message)) return false;
    const content = message.message?.content;
    if (!Array.isArray(content)) return typeof content === "string" && !isDigest(content);
    return (
      !hasResult(message) &&
      !content.some((block) => block?.type === "text" && isDigest(block.text))
    );
  };

  // `#keep` in its prompt keeps a turn whole.
  const asksToKeep = (prompt) => {
    const content = prompt.message.content;
    const texts = Array.isArray(content)
      ? content.map((block) => (block?.type === "text" ? block.text : undefined))
      : [content];
    return texts.some((text) => typeof text === "string" && KEEP.test(text));
  };

  // Keys and strings only: unlike the length as JSON, this does not hang on how
  // a language writes numbers.
  const charsOf = (value) => {
    if (typeof value === "string") return value.length;
    if (typeof value !== "object" || value === null) return 0;
    if (Array.isArray(value)) return value.reduce((sum, item) => sum + charsOf(item), 0);
    return Object.keys(value).reduce(
      (sum, key) => sum + key.length + charsOf(value[key]),
      0,
    );
  };

  // Characters, and images or documents.
  const sizeOf = (content) => {
    if (typeof content === "string") return [content.length, 0];
    if (!Array.isArray(content)) return [0, 0];
    return content.map(sizeOfBlock).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  };

  const sizeOfBlock = (block) => {
    const length = (text) => [typeof text === "string" ? text.length : 0, 0];
    switch (block?.type) {
      case "text":
        return length(block.text);
      case "thinking":
        return length(block.thinking);
      case "tool_use":
        return [charsOf(block.input), 0];
      case "tool_result":
        return sizeOf(block.content);
      case "image":
      case "document":
        return [0, 1];
    }
    return [0, 0];
  };

  // A code point beyond 0xFFFF is a surrogate pair, which a cut would split.
  const prefix = (text, length) => {
    if (text.length <= length) return text;
    return text.slice(0, text.codePointAt(length - 1) > 0xffff ? length - 1 : length);
  };

  const replace = (object, key, value) =>
    Object.is(object[key], value) ? object : { ...object, [key]: value };

  const withContent = (message, content) => ({
    ...message,
    message: { ...message.message, content },
  });

  // The reference design: text before the newest messages of people is cut.
  const pruneByReference = (keep, threshold, maxChars) => {
    const users = [...messages.keys()].filter((at) => messages[at]?.type === "user");
    const [chars, media] = sizeOf(
      messages.flatMap((message) => {
        const content = contentOf(message);
        return typeof content === "string" ? [{ type: "text", text: content }] : blocksOf(message);
      }),
    );
    const size = Math.ceil(chars / CHARS_PER_TOKEN) + media * TOKENS_PER_MEDIA_BLOCK;
    if (users.length <= keep || size < threshold) return messages;
    const shorten = (text) => {
      if (typeof text !== "string") return text;
      const short = prefix(text, maxChars) + " [earlier context pruned]";
      return short.length < text.length ? short : text;
    };
    const shortenBlock = (block) =>
      block?.type === "text" ? replace(block, "text", shorten(block.text)) : block;
    const end = users[users.length - keep];
    const pruned = messages.map((message, at) => {
      const content = contentOf(message);
      if (at >= end || !content || isSynthetic(message)) return message;
      const cut = Array.isArray(content) ? content.map(shortenBlock) : shorten(content);
      const isSame = Array.isArray(cut)
        ? cut.every((block, index) => Object.is(block, content[index]))
        : Object.is(cut, content);
      return isSame ? message : withContent(message, cut);
    });
    return pruned.every((message, at) => Object.is(message, messages[at])) ? messages : pruned;
  };

  // Folding. Sizes are in characters and in tokens of 2.6 of them.
  const DEFAULT_BASE_TOKENS = 40000;
  const SMALL_WINDOW_TOKENS = 200000;
  const LARGE_WINDOW_TOKENS = 1000000;
  const RESERVE_TOKENS = 33000;
  const ROOM_TOKENS = 10000;
  const TAIL_TOKENS = 8000;
  const MIN_GROWN_TOKENS = 8000;
  const MIN_SAVED_TOKENS = 4000;
  const STEPS = 4;
  const READ = 10;
  const OUTPUT = 500;
  const BUDGET = 15;
  const LONG_PROMPT_UNITS = 6000;
  const PROMPT_UNITS = 4000;
  const TARGET_UNITS = 120;
  const ROUND_UNITS = 10;
  const LINE_UNITS = 26;
  const COUNT_UNITS = 4;
  const PATHS = ["file_path", "path", "notebook_path"];
  const TARGETS = [...PATHS, "command", "pattern", "description"];
  const KNOWN_BLOCKS = /^(?:text|thinking|redacted_thinking|tool_use|tool_result|image|document)$/;
  const tokensOf = (units) => Math.trunc((units * 5) / 13);
  const unitsOf = (tokens) => Math.trunc((tokens * 13) / 5);

  const isThinking = (block) =>
    block?.type === "thinking" || block?.type === "redacted_thinking";

  const thinkingUnits = (message) =>
    blocksOf(message)
      .filter(isThinking)
      .reduce((sum, block) => sum + sizeOfBlock(block)[0], 0);

  const digitsOf = (message) =>
    typeof message?.uuid === "string"
      ? /^[0-9a-f]{8}/i.exec(message.uuid)?.[0].toLowerCase()
      : undefined;

  const stringOf = (value) => (typeof value === "string" ? value : "");
  const oneLine = (text) => text.split(/[ \t\r\n]+/).filter(Boolean).join(" ");

  // What the client writes in the model's name is no answer, unless it was made
  // anew in a compaction: no request is before that any more.
  const isMadeAnew = (message) =>
    message?.type === "assistant" &&
    message.message?.model === "<synthetic>" &&
    blocksOf(message).some((block) => block?.type === "tool_use");

  const answerId = (message) => {
    const inner = message?.message;
    if (message?.type !== "assistant" || inner === undefined) return undefined;
    if (inner?.model === "<synthetic>" && !isMadeAnew(message)) return undefined;
    return typeof inner?.id === "string" ? inner.id : stringOf(message.uuid);
  };

  const countOf = (value) => (Number.isSafeInteger(value) ? value : 0);

  const inputOf = (usage) =>
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"].reduce(
      (sum, part) => sum + Math.max(0, countOf(usage?.[part])),
      0,
    );

  const timeOf = (message) => {
    const time = message?.timestamp;
    const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(time);
    return isConversation(message) && typeof time === "string" && isTime
      ? Date.parse(time)
      : NaN;
  };

  const isLong = (text) => typeof text === "string" && text.length > LONG_PROMPT_UNITS;

  const longTexts = (message) => {
    const content = contentOf(message);
    if (typeof content === "string") return isLong(content) ? [content] : [];
    return blocksOf(message)
      .filter((block) => block?.type === "text" && isLong(block.text))
      .map((block) => block.text);
  };

  const withShortTexts = (message) => {
    const digits = digitsOf(message);
    const shorten = (text, number) => {
      const recall = digits ? `, recall ctx:${digits}.${number}` : "";
      return `${prefix(text, PROMPT_UNITS)}\n[earlier context folded: the rest of ${text.length} characters${recall}]`;
    };
    const content = contentOf(message);
    if (typeof content === "string") return withContent(message, shorten(content, 0));
    const blocks = content.map((block, number) =>
      block?.type === "text" && isLong(block.text)
        ? { ...block, text: shorten(block.text, number) }
        : block,
    );
    return withContent(message, blocks);
  };

  const foldMessages = (all, keepTurns, threshold, maxChars) => {
    const files = PROTECTED_FILES.map((expression) => new RegExp(expression));
    const keepTokens = numberOf(setting("_KEEP_TOKENS"), 1, DEFAULT_KEEP_TOKENS);
    const windowTokens = numberOf(setting("_WINDOW"), 1, DEFAULT_WINDOW);
    const compactWindow = numberOf(process.env.CLAUDE_CODE_AUTO_COMPACT_WINDOW, 1, Infinity);
    const sizes = [];
    const thinking = [];
    const isPinned = [];
    const roundOf = [];
    const isThoughtGone = [];
    const rounds = [];
    const prompts = [];
    let answer;
    let base;
    let usage;
    let largest = 0;
    let modelWindow = 0;
    let requested = 0;
    let newestMs = NaN;
    let requestedMs = NaN;
    let left = 0;
    let after = 0;
    // What the requests cost, and what they would have cost unpruned.
    const written = [0, 0];
    let whole = 0;
    let cost = 0;
    let unprunedCost = 0;
    let sent = 0;
    let unprunedSent = 0;
    let hasPruned = false;
    let open;

    const isHourly = () => written[1] > written[0];
    const write = () => (isHourly() ? 200 : 125);

    const isProtected = (name, input) =>
      PROTECTED_TOOLS.includes(name) ||
      PATHS.some((key) => {
        const path = input?.[key];
        return typeof path === "string" && files.some((file) => file.test(path));
      });

    const addToRound = (round, index, message, size) => {
      round.last = index;
      round.units += size;
      thinking[index] = thinkingUnits(message);
      round.thinkingUnits += thinking[index];
      const isAnswer = message.type === "assistant";
      if (isAnswer) round.answerUnits += size;
      const content = contentOf(message);
      if (isAnswer && typeof content === "string") round.texts.push(content);
      const digits = digitsOf(message);
      blocksOf(message).forEach((block, number) => {
        const type = stringOf(block?.type);
        if (type === "text" && isAnswer) round.texts.push(stringOf(block.text));
        else if (type === "tool_use") {
          const name = stringOf(block.name);
          if (isProtected(name, block.input)) round.isProtected = true;
          const named = TARGETS.find((key) => stringOf(block.input?.[key]));
          const target = named ? oneLine(prefix(block.input[named], TARGET_UNITS)) : "";
          round.calls.push({ id: stringOf(block.id), name, target, handle: undefined });
        } else if (type === "tool_result") {
          const id = stringOf(block.tool_use_id);
          const call = round.calls.find((one) => one.id === id);
          if (call) call.handle = digits && `ctx:${digits}.${number}`;
          round.results.push(id);
        } else if (!KNOWN_BLOCKS.test(type)) round.isOdd = true;
      });
    };

    const isFoldable = (round) => {
      const calls = round.calls.map((call) => call.id).sort();
      const results = [...round.results].sort();
      return (
        !round.isOdd &&
        !round.isProtected &&
        calls.length === results.length &&
        calls.every((id, at) => id === results[at])
      );
    };

    // What goes of the prompts that are old, as soon as anything does.
    const unitsOfPrompts = () => {
      let sum = 0;
      prompts.forEach((prompt, number) => {
        const isOld = number + 1 + keepTurns <= prompts.length;
        prompt.isDue = isOld && !prompt.isPinned && !prompt.isCut;
        if (prompt.isDue) sum += prompt.longUnits;
      });
      return sum;
    };

    const hasWholeTexts = (round) => round.turn + keepTurns > prompts.length;

    const textsAt = (round, level, areWhole) =>
      level === LINES || areWhole || round.endsTurn
        ? round.texts.map((text) => (areWhole ? text : prefix(text, maxChars)))
        : [];

    const foldedSize = (round, level, areWhole) => {
      const texts = textsAt(round, level, areWhole).reduce((sum, text) => sum + text.length, 0);
      if (level === LINES) {
        const calls = round.calls.map((call) => LINE_UNITS + call.target.length);
        return ROUND_UNITS + calls.reduce((sum, size) => sum + size, 0) + texts;
      }
      return texts === 0 ? COUNT_UNITS : ROUND_UNITS + texts;
    };

    const sizeAt = (round, level) => {
      if (level !== WHOLE) return foldedSize(round, level, hasWholeTexts(round));
      return isPinned[round.first] ? round.units : round.units - round.thinkingUnits;
    };

    // What is left, and the steps that it takes: [number of the round, level].
    const planFor = (goal) => {
      let rest = left;
      if (rounds.length === 0) return [rest, []];
      rest -= unitsOfPrompts();
      for (let index = 0; index < sizes.length; index += 1) {
        const isFolded = rounds[roundOf[index]]?.level > WHOLE;
        if (!isThoughtGone[index] && !isFolded && !isPinned[index]) {
          rest -= thinking[index];
        }
      }
      const now = rounds.map((round) => {
        // Texts of turns that have become old since are shortened; once they are, nothing changes.
        if (round.level !== WHOLE && !round.hasWholeTexts) return round.size;
        const size = sizeAt(round, round.level);
        if (round.level !== WHOLE) rest += size - round.size;
        return size;
      });
      const order = [];
      let behind = 0;
      let at = sizes.length;
      for (let number = rounds.length - 1; number >= 0; number -= 1) {
        const round = rounds[number];
        for (let index = round.last + 1; index < at; index += 1) behind += sizes[index];
        at = round.last + 1;
        const isNew = number + 1 === rounds.length || behind < unitsOf(TAIL_TOKENS);
        if (isNew || isPinned[round.first]) continue;
        // It is complete, as another one follows.
        round.isFoldable ??= isFoldable(round);
        if (!round.isFoldable) continue;
        if (round.level < LINES) order.push([-2 * behind, number, LINES]);
        if (round.level < COUNT) order.push([-behind, number, COUNT]);
      }
      order.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
      const steps = [];
      for (const [, number, level] of order) {
        if (rest <= goal) break;
        const size = sizeAt(rounds[number], level);
        if (size >= now[number]) continue;
        rest += size - now[number];
        now[number] = size;
        steps.push([number, level]);
      }
      return [rest, steps];
    };

    const apply = (steps) => {
      if (rounds.length === 0) return;
      // Thinking behind a change is refused by models that check what stood before it.
      for (let index = 0; index < sizes.length; index += 1) {
        isThoughtGone[index] ||= !isPinned[index];
      }
      for (const prompt of prompts) prompt.isCut ||= prompt.isDue;
      for (const [number, level] of steps) {
        rounds[number].level = level;
        rounds[number].hasWholeTexts = true;
      }
      for (const round of rounds) {
        if (!round.hasWholeTexts) continue;
        round.hasWholeTexts = hasWholeTexts(round);
        round.size = foldedSize(round, round.level, round.hasWholeTexts);
      }
    };

    const settle = (answered) => {
      if (!open) return;
      const output = OUTPUT * answered;
      const charge = (read, size) => READ * read + write() * (size - read);
      const before = open.isPruned ? open.base : sent;
      cost += charge(open.isCold ? 0 : Math.min(before, open.sent), open.sent) + output;
      const unpruned = open.base + tokensOf(whole);
      const read = Math.min(hasPruned ? unprunedSent : sent, unpruned);
      unprunedCost += charge(open.isCold ? 0 : read, unpruned) + output;
      sent = open.sent;
      unprunedSent = unpruned;
      open = undefined;
    };

    const request = () => {
      if (requested === sizes.length) return;
      let added = 0;
      for (let index = requested; index < sizes.length; index += 1) added += sizes[index];
      settle(tokensOf(rounds.at(-1)?.answerUnits ?? 0));
      requested = sizes.length;
      left += added;
      whole += added;
      const system = base ?? DEFAULT_BASE_TOKENS;
      const needed = largest > SMALL_WINDOW_TOKENS ? LARGE_WINDOW_TOKENS : SMALL_WINDOW_TOKENS;
      const own = modelWindow > 0 && largest <= modelWindow ? modelWindow : needed;
      const window = Math.min(windowTokens || own, compactWindow);
      const limit = window - RESERVE_TOKENS;
      const lifetime = isHourly() ? 3600000 : 300000;
      const isCold = newestMs - requestedMs >= lifetime;
      requestedMs = newestMs;
      const filled = usage === undefined ? system + tokensOf(left) : usage + tokensOf(added);
      const isFull = filled >= limit - ROOM_TOKENS;
      const grown = tokensOf(left) - tokensOf(after);
      const wanted = keepTokens || 13000 + Math.trunc(window / 100);
      const keep = Math.max(0, Math.min(wanted, Math.trunc((limit - system) / 2)));
      // Much that came is a reason, if the rewrite of half of what is to be left would pay.
      const pays = (rest) =>
        (write() - READ) * rest * 1000 <= BUDGET * unprunedCost + 1000 * (unprunedCost - cost);
      const isDue =
        isFull ||
        (isCold && grown >= MIN_GROWN_TOKENS) ||
        (grown >= STEPS * keep && pays(Math.trunc(keep / 2)));
      let isPruned = false;
      if (isDue && tokensOf(whole) >= threshold) {
        const [rest, steps] = planFor(unitsOf(isCold ? Math.trunc((keep * 3) / 2) : keep));
        const isFree = isFull || isCold || pays(tokensOf(rest));
        if (tokensOf(left) - tokensOf(rest) >= MIN_SAVED_TOKENS && isFree) {
          apply(steps);
          left = rest;
          after = rest;
          isPruned = true;
        }
      }
      hasPruned ||= isPruned;
      open = { base: system, sent: system + tokensOf(left), isCold, isPruned };
    };

    const push = (message) => {
      const index = sizes.length;
      const id = answerId(message);
      if (id !== undefined && id !== answer) {
        if (!isMadeAnew(message)) {
          request();
          const created = message.message?.usage?.cache_creation;
          written[0] += countOf(created?.ephemeral_5m_input_tokens);
          written[1] += countOf(created?.ephemeral_1h_input_tokens);
          const model = message.message?.model;
          if (typeof model === "string") {
            modelWindow = MODEL_WINDOWS.find(([name]) => model.includes(name))?.[1] ?? 0;
          }
        }
        answer = id;
        rounds.push({
          first: index,
          last: index,
          turn: prompts.length,
          endsTurn: false,
          units: 0,
          thinkingUnits: 0,
          answerUnits: 0,
          level: WHOLE,
          size: 0,
          hasWholeTexts: false,
          calls: [],
          texts: [],
          results: [],
          isOdd: false,
          isProtected: false,
          isFoldable: undefined,
        });
      }
      const [chars, media] = sizeOf(contentOf(message));
      const size = chars + media * unitsOf(TOKENS_PER_MEDIA_BLOCK);
      if (id !== undefined) {
        const input = inputOf(message.message?.usage);
        if (input > 0) {
          usage = input;
          largest = Math.max(largest, input);
          if (base === undefined) {
            let before = 0;
            for (let at = 0; at < requested; at += 1) before += sizes[at];
            base = Math.max(0, input - tokensOf(before));
          }
        }
      }
      if (id !== undefined || hasResult(message)) {
        roundOf[index] = rounds.length ? rounds.length - 1 : undefined;
        if (rounds.length) addToRound(rounds.at(-1), index, message, size);
      }
      if (isHumanPrompt(message)) {
        prompts.push({
          index,
          isPinned: asksToKeep(message),
          longUnits: longTexts(message).reduce((sum, text) => sum + text.length - PROMPT_UNITS, 0),
          isDue: false,
          isCut: false,
        });
        if (rounds.length) rounds.at(-1).endsTurn = true;
      }
      const time = timeOf(message);
      if (!(time <= newestMs) && !Number.isNaN(time)) newestMs = time;
      thinking[index] ??= 0;
      isPinned[index] = prompts.at(-1)?.isPinned ?? false;
      sizes.push(size);
    };

    for (const message of all) push(message);
    request();

    const digestOf = (members) => {
      const folded = [...new Set(members.map((index) => rounds[roundOf[index]]))];
      const digits = members.map((index) => digitsOf(all[index])).filter(Boolean);
      const steps = folded.length === 1 ? "1 step" : `${folded.length} steps`;
      const recall = digits.length ? `, recall ctx:${digits[0]}..${digits.at(-1)}` : "";
      const lines = [`[earlier context folded: ${steps}${recall}]`];
      for (const round of folded) {
        for (const { name, target, handle } of round.level === LINES ? round.calls : []) {
          const named = oneLine(name) + (target && ` ${target}`);
          lines.push(`- ${named}${handle ? ` (${handle})` : ""}`);
        }
        for (const text of textsAt(round, round.level, round.hasWholeTexts)) {
          if (oneLine(text)) lines.push(`- said: ${text}`);
        }
      }
      return lines.join("\n");
    };

    const digestMessage = (members) => {
      const { uuid, timestamp } = all[members[0]];
      const message = {
        type: "user",
        isMeta: true,
        message: { role: "user", content: digestOf(members) },
      };
      // An id of its own, which is the same each time.
      if (typeof uuid === "string") {
        const isUuid = /^[0-9a-f-]{36}$/i.test(uuid);
        message.uuid = isUuid ? `${uuid.slice(0, 14)}f${uuid.slice(15)}` : `${uuid}-digest`;
      }
      if (timestamp !== undefined) message.timestamp = timestamp;
      return message;
    };

    // What is sent, and the messages that each of it stands for.
    const cutPrompts = new Set(prompts.filter((prompt) => prompt.isCut).map(({ index }) => index));
    const result = [];
    const dropped = [];
    let run;
    const emit = (message, originals) => {
      // What has no id cannot be found again.
      const before = typeof message?.uuid === "string" ? dropped.splice(0) : [];
      result.push({ message, originals: [...before, ...originals] });
    };
    const endRun = () => {
      if (!run) return;
      run.place.message = digestMessage(run.members);
      run = undefined;
    };
    all.forEach((message, index) => {
      if (rounds[roundOf[index]]?.level > WHOLE) {
        if (!run) {
          emit(message, []);
          run = { place: result.at(-1), members: [] };
        }
        run.members.push(index);
        run.place.originals.push(message);
        return;
      }
      let kept = message;
      if (isThoughtGone[index] && roundOf[index] !== undefined && blocksOf(message).some(isThinking)) {
        const others = blocksOf(message).filter((block) => !isThinking(block));
        if (others.length === 0) {
          (run ? run.place.originals : dropped).push(message);
          return;
        }
        kept = withContent(message, others);
      }
      if (cutPrompts.has(index) && longTexts(message).length) kept = withShortTexts(message);
      // What the client attaches, or does not send at all, parts nothing.
      if (isConversation(message)) endRun();
      emit(kept, [message]);
    });
    endRun();
    const last = result.findLast(({ message }) => typeof message?.uuid === "string");
    last?.originals.push(...dropped);
    return result;
  };

  // The client goes on with what it was given: what was sent is put back first,
  // or else what it was would be forgotten. It is known by the ids of messages.
  const MAX_REMEMBERED = 5000;
  const state = (ctxbridgeAggressiveTextPrune.state ??= {
    known: new Map(),
    sizes: new Map(),
    freed: new WeakMap(),
  });

  const remember = (map, id, value) => {
    if (typeof id !== "string") return;
    map.delete(id);
    map.set(id, value);
    if (map.size > MAX_REMEMBERED) map.delete(map.keys().next().value);
  };

  const restored = () => {
    if (!state.known.size) return messages;
    const there = new Set(messages.map((message) => message?.uuid));
    return messages.flatMap((message) => {
      const known = state.known.get(message?.uuid);
      if (!known) return [message];
      return known.originals.filter(
        (original) => original.uuid === message.uuid || !there.has(original.uuid),
      );
    });
  };

  // The client measures a conversation by the usage of the last answer, and that
  // request was made before this cut. What it still had is remembered by the id
  // of its newest message, and then by the id of its answer.
  const MIN_SPAN_TOKENS = 10000;

  // Estimated tokens of what is sent. Entry i is the size of all messages before
  // message i.
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
    const result = [0];
    for (const message of array) {
      const content = contentOf(message);
      if (Array.isArray(content)) content.forEach(addBlock);
      else add(content);
      result.push(tokens + chars / CHARS_PER_TOKEN);
    }
    return result;
  };

  const usageOf = (message) =>
    message?.type === "assistant" && message.message?.model !== "<synthetic>"
      ? message.message?.usage
      : undefined;

  // What the last usage was measured with, if no call of this process was: after
  // a resume the request may have been a pruned one, or not. The first usage
  // says what comes besides the messages, and the steepest growth since then how
  // many tokens one estimated token can be; what is left is no overestimate.
  const sizeByUsage = (array, sizes, last) => {
    const known = [];
    array.forEach((message, index) => {
      const usage = index <= last && usageOf(message);
      const previous = known.at(-1);
      if (!usage || (previous && previous.id === message.message.id)) return;
      known.push({ id: message.message.id, size: sizes[index], input: inputOf(usage) });
    });
    const [first] = known;
    const { input } = known.at(-1);
    const slopes = known
      .filter(({ size }) => size - first.size >= MIN_SPAN_TOKENS)
      .map((one) => (one.input - first.input) / (one.size - first.size));
    return first.size + (input - first.input) / Math.max(1, ...slopes);
  };

  // Where the answer begins that a message belongs to.
  const beginOf = (array, end) => {
    const id = array[end]?.message?.id;
    let first = end;
    for (let i = end - 1; i >= 0; i -= 1) {
      if (array[i]?.type !== "assistant") continue;
      if (typeof id !== "string" || array[i].message?.id !== id) break;
      first = i;
    }
    return first;
  };

  // Tells what the prune freed of what the last usage counts.
  const account = (whole, pruned) => {
    const sizes = sizesBefore(pruned);
    let last = pruned.length - 1;
    while (last >= 0 && !usageOf(pruned[last])) last -= 1;
    let freed = 0;
    if (last >= 0) {
      const id = pruned[last].message.id;
      const first = beginOf(pruned, last);
      let size = state.sizes.get(id);
      for (let i = first - 1; size === undefined && i >= 0; i -= 1) {
        if (pruned[i]?.type === "assistant") break;
        size = state.sizes.get(pruned[i]?.uuid);
      }
      if (size === undefined) {
        // The newest round is never folded, so both arrays have its answer.
        const before = sizesBefore(whole);
        const isIt = (message) =>
          message === pruned[last] ||
          (typeof id === "string" && usageOf(message) && message.message.id === id);
        const end = whole.findLastIndex(isIt);
        size = Math.min(before[beginOf(whole, end)] ?? 0, sizeByUsage(whole, before, end));
      }
      remember(state.sizes, id, size);
      freed = Math.floor(Math.max(0, Math.min(size - sizes[first], inputOf(usageOf(pruned[last])))));
    }
    const newest = pruned.findLast((message) => typeof message?.uuid === "string");
    remember(state.sizes, newest?.uuid, sizes[pruned.length]);
    return { freed, last };
  };

  // A copy, of which the newest usage is lower: the original says what was paid.
  const withLowerUsage = (pruned, { freed, last }) => {
    if (!(freed > 0)) return pruned;
    const message = pruned[last];
    let rest = freed;
    const usage = { ...usageOf(message) };
    for (const part of [
      "input_tokens",
      "cache_creation_input_tokens",
      "cache_read_input_tokens",
    ]) {
      const less = Math.min(rest, Math.max(0, countOf(usage[part])));
      if (less > 0) usage[part] -= less;
      rest -= less;
    }
    const lowered = pruned.slice();
    lowered[last] = { ...message, message: { ...message.message, usage } };
    // What was cut is remembered with what it was.
    if (!state.known.has(message.uuid)) {
      remember(state.known, message.uuid, { message: lowered[last], originals: [message] });
    }
    return lowered;
  };

  const finish = (whole, pruned) => {
    try {
      const accounted = account(whole, pruned);
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
    const [policy] =
      /^(?:fold|reference)$/i.exec(setting("_POLICY") ?? "") ?? [DEFAULT_POLICY];
    const settings = [
      numberOf(setting("_KEEP"), 1, DEFAULT_KEEP_TURNS),
      numberOf(setting("_THRESHOLD"), 0, DEFAULT_THRESHOLD_TOKENS),
      numberOf(setting("_MAX_CHARS"), 0, DEFAULT_MAX_CHARS),
    ];
    if (/^reference$/i.test(policy)) {
      return finish(messages, pruneByReference(...settings));
    }
    const whole = restored();
    const folded = foldMessages(whole, ...settings);
    const pruned = folded.map(({ message, originals }) => {
      if (originals.length === 1 && originals[0] === message) {
        state.known.delete(message?.uuid);
        return message;
      }
      // What was made before comes back as the same object.
      const before = state.known.get(message?.uuid);
      const hasSame = (a, b) =>
        a === b ||
        (Array.isArray(a) && a.length === b?.length && a.every((item, at) => item === b[at]));
      const isSame =
        before &&
        hasSame(before.message.message?.content, message.message?.content) &&
        hasSame(before.originals, originals);
      if (isSame) return before.message;
      remember(state.known, message?.uuid, { message, originals });
      return message;
    });
    const isSame =
      pruned.length === messages.length &&
      pruned.every((message, index) => Object.is(message, messages[index]));
    return finish(whole, isSame ? messages : pruned);
  } catch {
    // A conversation sent whole is dearer; one that fails is worse.
    return purpose === "freed" ? 0 : messages;
  }
}
