#!/bin/sh
# Make the configure script; needs autoconf, automake and libtool.
cd "$(dirname "$0")" && mkdir -p config/m4 && exec autoreconf -if
