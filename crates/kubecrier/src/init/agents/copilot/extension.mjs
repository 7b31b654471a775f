// Tells the session of each incident, as soon as it is opened, and adds kubecrier's tools.
// Copilot CLI loads what is in .github/extensions, with --experimental.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { joinSession } from "@github/copilot-sdk/extension"

const WATCH = @WATCH_WORDS@
const PREFACE = "@PREFACE@"
const PAUSE_MS = 30_000

const session = await joinSession({
  mcpServers: { kubecrier: @MCP@ },
})

let watch
const start = () => {
  watch = spawn(WATCH[0], WATCH.slice(1), { stdio: ["ignore", "pipe", "ignore"] })
  const lines = createInterface({ input: watch.stdout })
  lines.on("line", (line) => void session.send({ prompt: `${PREFACE} ${line}` }))
  let ended = false
  const again = () => {
    if (!ended) setTimeout(start, PAUSE_MS)
    ended = true
  }
  watch.on("error", again)
  watch.on("exit", again)
}
process.on("exit", () => watch?.kill())
start()
