function ctxbridgePrecompactGate() {
  // Wraps functions of somebody else's program: it must not throw where they do
  // not, nor print. What it keeps is kept on the function, since nothing but
  // this declaration is injected.
  return (ctxbridgePrecompactGate.instance ??= (() => {
    // What the hooks answered before an automatic compaction, by the array that
    // is to be compacted: the client makes a new one for each request, and hands
    // the same one on to the summary.
    const answers = new WeakMap();

    return {
      // Whether an automatic compaction is due, and no hook blocks it. A failure
      // to run the hooks is left to the summary, which runs them itself then.
      admitted(isDue, context, runHooks, isHopeless = () => false) {
        return async (messages, ...rest) => {
          const due = await isDue(messages, ...rest);
          if (!due || isHopeless()) return due;
          try {
            const answer = await runHooks(
              { trigger: "auto", customInstructions: null },
              context.abortController.signal,
            );
            if (answer.ctxbridgeBlocked) return false;
            answers.set(messages, answer);
          } catch {}
          return due;
        };
      },

      // The hooks as the summary runs them: not again if they have just run.
      hooksOf(messages, runHooks) {
        return (input, ...rest) => {
          const answer = answers.get(messages);
          answers.delete(messages);
          return input.trigger === "auto" && answer !== undefined
            ? answer
            : runHooks(input, ...rest);
        };
      },

      // Session memory as the command uses it: when there is some to compact
      // with, the hooks run, and cannot block. When there is none, the summary
      // follows and runs them.
      announced(compact, context, runHooks) {
        return async (...input) => {
          const result = await compact(...input);
          if (result) {
            try {
              await runHooks(
                { trigger: "manual", customInstructions: null },
                context.abortController.signal,
              );
            } catch {}
          }
          return result;
        };
      },
    };
  })());
}
