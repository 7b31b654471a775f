#!/bin/bash
echo 'A plain answer.'
