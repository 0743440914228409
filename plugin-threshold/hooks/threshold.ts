// Asks for a compaction between turns, in the terminal, once the context has this many tokens. The plugin ctxbridge answers it: no plugin is asked
// about a compaction of its own, so this one stands apart. `ctxbridge mod install` installs it where `mod.threshold_tokens` is set.

const THRESHOLD_TOKENS = Infinity
// By this, ctxbridge tells that the client shall not sum up where folding would not free enough.
const WISH = 'ctxbridge: fold'

export const register = (on) => {
  on('turn.complete', async ($, e, next) => {
    const done = await next(e)
    const { context } = await $.session.usage()
    if (context?.tokens >= THRESHOLD_TOKENS) await $.session.compact({ instructions: WISH })
    return done
  }).catch(($, e, next) => next(e))
}
