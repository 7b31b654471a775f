#!/bin/bash
cat <<'JSON'
{"content": [
  {"type": "text", "text": "Several kinds of content:"},
  {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="},
  {"type": "resource", "resource":
    {"uri": "test://mixed", "mimeType": "application/json", "text": "{\"a\": 1}"}}]}
JSON
