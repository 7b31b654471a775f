#!/bin/sh
# Holds the end of a turn until there is an incident, and starts the next one with it: exit code 2
# makes a prompt of what is on stderr. Esc ends the wait; the next turn begins another.
state=${XDG_STATE_HOME:-$HOME/.local/state}/kubecrier
mkdir -p "$state"
line=$(@WATCH@ --first --told "$state/told-gemini-${GEMINI_SESSION_ID:-session}") || exit 0
[ -n "$line" ] || exit 0
echo "@PREFACE@ $line" >&2
exit 2
