#!/usr/bin/env bash
set -euo pipefail

# Arguments come as JSON in one variable; no helper library is needed for one text.
who="$(sed -n 's/.*"who" *: *"\([^"]*\)".*/\1/p' <<<"${MCP_TOOL_ARGS_JSON}")"
source "${MCPBASH_PROJECT_ROOT}/lib/words.sh"
echo "greeting ${who}" >&2
printf '{"success": true, "result": {"message": "%s %s"}}\n' "${greeting}" "${who}"
