#!/usr/bin/env bash
echo "nobody registered me"
