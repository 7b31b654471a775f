#!/usr/bin/env bash
set -euo pipefail
case "${1:-}" in
clock://utc) echo "it is always noon" ;;
*) exit 3 ;;
esac
