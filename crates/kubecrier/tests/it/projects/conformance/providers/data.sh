#!/bin/bash
printf '{"id": "%s", "templateTest": true}' "$KUBECRIER_ARG_ID"
