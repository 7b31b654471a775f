#!/bin/bash
echo "deleted nothing"
