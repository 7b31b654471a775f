#!/bin/bash
cd "$KUBECRIER_PROJECT_ROOT/prompts"
if [ -f test_another_prompt.md ]; then
  rm test_another_prompt.*
else
  # The text last: without it there is no prompt.
  cp test_simple_prompt.meta.json test_another_prompt.meta.json
  cp test_simple_prompt.md .another && mv .another test_another_prompt.md
fi
# Until the server has seen it: the suite compares two lists that it asks for next.
sleep 0.7
