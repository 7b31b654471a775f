#!/bin/bash
cd "$KUBECRIER_PROJECT_ROOT"
if [ -d tools/test_another_tool ]; then
  rm -r tools/test_another_tool
else
  # In one step, so that no scan finds half of it.
  cp -r tools/test_simple_text .another && mv .another tools/test_another_tool
fi
# Until the server has seen it: the suite compares two lists that it asks for next.
sleep 0.7
