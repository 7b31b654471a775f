#!/bin/bash
sleep 1
echo "as it should" >&2
exit 1
