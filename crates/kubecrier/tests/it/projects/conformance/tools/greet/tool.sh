#!/bin/bash
echo "Hello, $KUBECRIER_ARG_NAME!"
