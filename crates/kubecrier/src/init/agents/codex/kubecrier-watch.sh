#!/bin/sh
# Tells a Codex session of each incident: the message is queued, and an idle session takes it at
# once. Run it beside Codex:
#
#   sh .codex/kubecrier-watch.sh            the newest session
#   sh .codex/kubecrier-watch.sh SESSION    the session of that id or name
set -eu
if [ -n "${KUBECRIER_INCIDENT_BRIEF:-}" ]; then
    # Started by the watch below, for one incident.
    exec codex queue --resume --thread "$1" --message "@PREFACE@ $KUBECRIER_INCIDENT_BRIEF"
fi
if [ $# = 0 ]; then
    newest=$(ls -t "${CODEX_HOME:-$HOME/.codex}"/sessions/*/*/*/rollout-*.jsonl | head -n 1)
    # rollout-TIME-ID.jsonl
    name=$(basename "$newest" .jsonl)
    set -- "$(printf '%s' "$name" | tail -c 36)"
fi
echo "telling session $1" >&2
exec @WATCH@ --exec sh "$0" "$1"
