#!/bin/sh
# A tool. Its arguments are JSON on stdin and KUBECRIER_ARG_<NAME> each; what it prints is the answer.
# It runs in its own folder, with PATH, KUBECONFIG and KUBECRIER_CONTEXT and no other variables.
set -eu

# stderr goes to the server's log and, line by line, to the client.
echo "asking the cluster" >&2
# Progress: how far, of how much, and words.
echo "1/2 asking" >&"$KUBECRIER_PROGRESS"

kubectl --context "$KUBECRIER_CONTEXT" get pods --namespace "${KUBECRIER_ARG_NAMESPACE:-default}" \
  --sort-by '.status.containerStatuses[0].restartCount'

echo "2/2 done" >&"$KUBECRIER_PROGRESS"
