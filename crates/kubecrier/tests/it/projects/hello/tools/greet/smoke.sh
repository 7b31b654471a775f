#!/usr/bin/env bash
# A test of the tool, which is not a tool itself.
exit 0
