#!/bin/bash
cd "$KUBECRIER_PROJECT_ROOT/resources"
echo "Changed: $(date +%s.%N)" > .watched && mv .watched watched.txt
