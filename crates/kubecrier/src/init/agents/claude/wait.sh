#!/bin/sh
# Waits for an incident and wakes the session: exit code 2 starts a turn with what is on stderr.
# A session in a terminal has the monitor for that.
[ "${CLAUDE_CODE_ENTRYPOINT:-cli}" = cli ] && exit 0
state=${CLAUDE_PLUGIN_DATA:?}
mkdir -p "$state"
told=$state/told-${CLAUDE_CODE_SESSION_ID:?}
# It is started at the end of each turn, and one wait is enough.
if [ -f "$told.pid" ] && kill -0 "$(cat "$told.pid")" 2>/dev/null; then exit 0; fi
echo $$ >"$told.pid"
line=$(@WATCH@ --first --told "$told") || exit 0
rm -f "$told.pid"
[ -n "$line" ] || exit 0
echo "@PREFACE@ $line" >&2
exit 2
