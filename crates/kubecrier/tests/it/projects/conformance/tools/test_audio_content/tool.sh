#!/bin/bash
cat <<'JSON'
{"content": [{"type": "audio", "mimeType": "audio/wav", "data": "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="}]}
JSON
