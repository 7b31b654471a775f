#!/usr/bin/env bash
set -euo pipefail
for part in 1 2 3; do
  echo "${part}/3 part ${part}" >&"${KUBECRIER_PROGRESS}"
  sleep 0.2
done
echo "all is well"
