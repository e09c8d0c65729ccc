#!/bin/bash
# The collector's page in headless Chromium, over a server whose values are known: page.py.
set -u
python=/usr/bin/python3 # Debian's, which has python3-selenium
if ! { $python -c 'import selenium' 2>/dev/null && command -v chromium && command -v chromedriver; } \
        >/dev/null; then
    echo "skip page: it needs python3-selenium, chromium and chromium-driver"
    exit 77
fi
# shellcheck disable=SC2154 # make check says where
timeout -k 10 500 $python "$(dirname "$0")/page.py" "$abs_top_builddir/test/udmon/page_server"
