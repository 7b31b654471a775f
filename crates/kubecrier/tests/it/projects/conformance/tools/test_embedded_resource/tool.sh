#!/bin/bash
cat <<'JSON'
{"content": [{"type": "resource", "resource":
  {"uri": "test://embedded", "mimeType": "text/plain", "text": "A resource inside."}}]}
JSON
