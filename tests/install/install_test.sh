#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_test.sh BUILD: installs into a folder of its own and uses what lies there from elsewhere.
set -eu
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/usr" >"$place/install.log"
mkdir "$place/elsewhere"
cd "$place/elsewhere"
"$place/usr/bin/unmask" list models | grep -q tiny-llada
"$place/usr/bin/unmask" generate --model tiny-sdar -n 16 "Compute 3 + 4." | grep -q .
"$place/usr/bin/unmask" run "$place/usr/share/unmask/experiments/minimal_experiment.toml" \
  --set limit=1 -o "$place/runs" >"$place/run.log" 2>&1 || {
  cat "$place/run.log"
  exit 1
}
[ "$(wc -l <"$place/runs/rows.jsonl")" -eq 2 ]
