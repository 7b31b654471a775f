#!/bin/bash
sleep 0.5
echo 'A plain answer.'
