// Tells the session that was used last of each incident, as soon as it is opened, and adds
// kubecrier's tools. OpenCode loads what is in .opencode/plugins.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const WATCH = @WATCH_WORDS@
const PREFACE = "@PREFACE@"
// Incidents that wait for a first session, and the pause before a watch that failed.
const WAITING_MAX = 20
const PAUSE_MS = 30_000

export const Kubecrier = async ({ client }) => {
  const waiting = []
  let session, watch, pause, disposed

  const tell = async () => {
    while (session && waiting.length > 0) {
      const text = `${PREFACE} ${waiting.shift()}`
      const body = { parts: [{ type: "text", text }] }
      const answer = await client.session.promptAsync({ path: { id: session }, body })
      if (answer.error) console.error("kubecrier:", answer.error)
    }
  }
  const start = () => {
    watch = spawn(WATCH[0], WATCH.slice(1), { stdio: ["ignore", "pipe", "ignore"] })
    const lines = createInterface({ input: watch.stdout })
    lines.on("line", (line) => {
      waiting.push(line)
      if (waiting.length > WAITING_MAX) waiting.shift()
      void tell()
    })
    const again = () => {
      clearTimeout(pause)
      if (!disposed) pause = setTimeout(start, PAUSE_MS)
    }
    watch.on("error", again)
    watch.on("exit", again)
  }
  const end = () => {
    disposed = true
    clearTimeout(pause)
    watch?.kill()
  }
  process.on("exit", end)
  start()

  return {
    config: async (config) => {
      config.mcp ??= {}
      config.mcp.kubecrier ??= @MCP@
    },
    event: async ({ event }) => {
      const info = event.properties?.info
      const used = event.type === "session.created" || event.type === "session.updated"
      // Sessions with a parent belong to subagents.
      if (used && info && !info.parentID) {
        session = info.id
        void tell()
      }
      if (event.type === "session.deleted" && info?.id === session) session = undefined
    },
    dispose: async () => end(),
  }
}
