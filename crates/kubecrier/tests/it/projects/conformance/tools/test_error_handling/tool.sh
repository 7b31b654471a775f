#!/bin/bash
echo 'A failure, as the suite wants it.'
exit 1
