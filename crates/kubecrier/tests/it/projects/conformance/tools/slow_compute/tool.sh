#!/bin/bash
sleep "$KUBECRIER_ARG_SECONDS"
echo "computed ${KUBECRIER_ARG_LABEL:-it}"
