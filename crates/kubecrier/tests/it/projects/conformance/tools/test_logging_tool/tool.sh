#!/bin/bash
for step in started working done; do echo "$step" >&2; done
echo 'A plain answer.'
