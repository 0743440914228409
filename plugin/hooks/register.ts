// Answers a compaction with the messages that stay, so that no summary is asked for. All rules are in the program that is run here; whatever
// fails, the client compacts by itself.

type Call = { tool_use_id: string; tool: string; input: unknown }
type Result = { tool_use_id: string; text: string; isError: boolean }
type Row = { role: 'user' | 'assistant'; text: string; toolUses: Call[]; toolResults?: Result[]; handle?: string }
type Compaction = { trigger: string; instructions?: string; agentId?: string; messages: Row[] }
type Answer = { messages?: (Row | { row: number })[] }

// The launcher looks for the program; there is no `sh` on Windows, but the PATH.
const LAUNCHER = decodeURIComponent(import.meta.url).replace(/^file:\/\//, '').replace(/hooks\/[^/]*$/, 'bin/ctxbridge')
const PROGRAM = /^\/[a-z]:/i.test(LAUNCHER) ? ['ctxbridge'] : ['sh', LAUNCHER]
// The wish of the plugin ctxbridge-threshold, which wants no summary.
const WISH = 'ctxbridge: fold'

// What the program needs of a row: results stand in the client's rows twice.
const plain = ({ role, text, toolUses, toolResults, handle }: Row): Row => ({
  role,
  text,
  handle,
  toolUses: toolUses.map(({ tool_use_id, tool, input }) => ({ tool_use_id, tool, input })),
  toolResults: toolResults?.map(({ tool_use_id, text, isError }) => ({ tool_use_id, text, isError })),
})

export const register = (on) => {
  // `ctxbridge doctor` tells by this whether the client loads this file.
  on('session.start', async ($, e, next) => {
    const stdin = JSON.stringify({ session_id: await $.session.id(), cwd: await $.session.cwd() })
    await $.process.run([...PROGRAM, 'mod', 'loaded'], { stdin, timeoutMs: 2000 })
    return next(e)
  }).catch(($, e, next) => next(e))

  on('session.compact', async ($, e: Compaction, next) => {
    if (e.trigger === 'precompute') return { skip: 'ctxbridge answers when it is time' }
    const isWished = e.trigger === 'plugin' && e.instructions === WISH
    if (e.instructions?.trim() && !isWished) return next(e)
    const { trigger, agentId: agent_id } = e
    const asked = { session_id: await $.session.id(), cwd: await $.session.cwd(), trigger, agent_id, messages: e.messages.map(plain) }
    const { exitCode, stdout } = await $.process.run([...PROGRAM, 'mod', 'answer'], { stdin: JSON.stringify(asked), timeoutMs: 8000 })
    const answer: Answer = exitCode === 0 ? JSON.parse(stdout) : {}
    if (answer.messages) return { messages: answer.messages.map((m) => ('row' in m ? e.messages[m.row] : m)) }
    return isWished ? { skip: 'folding would not free enough' } : next(e)
  }).catch(($, e, next) => next(e))
}
