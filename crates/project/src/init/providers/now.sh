#!/bin/sh
# A provider. The address is its argument; what it prints is the content. Exit code 3: there is no such thing.
date -u
