#!/bin/sh
# SPDX-License-Identifier: MIT
# echo.sh SERVER CLIENT: runs both on this machine.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
mkfifo "$dir/port"
"$1" >"$dir/port" &
server=$!
read -r port <"$dir/port"
"$2" "$port" || { kill $server; exit 1; }
wait $server
