#!/bin/sh
# SPDX-License-Identifier: MIT
# echo.sh SERVER CLIENT [STRANGERS]: runs the server and the client on this machine. STRANGERS is
# the path of strangers.py; if it is given, the client runs under that script.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
mkfifo "$dir/port"
"$1" >"$dir/port" &
server=$!
read -r port <"$dir/port"
${3:+python3 "$3" "$port" CPRPCTCP-and-so-on} "$2" "$port" || { kill $server; exit 1; }
wait $server
