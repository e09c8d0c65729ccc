#!/bin/bash
# The descriptor's bits against the model in Python.
set -eu
./nmp_dump | python3 "${srcdir:-.}/nmp_model.py"
