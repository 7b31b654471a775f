#!/bin/bash
# Longer than the server keeps a connection open for it.
sleep 4
echo 'A plain answer.'
