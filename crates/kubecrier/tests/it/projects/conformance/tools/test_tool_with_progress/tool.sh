#!/bin/bash
# Steps that come more quickly become one.
for step in 0 50 100; do
  echo "$step/100 working" >&"$KUBECRIER_PROGRESS"
  sleep 0.3
done
echo 'A plain answer.'
