#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the fixtures anew; their speeds are those of whatever machine this ran on, for tests only: tests/plots/data/make.sh build/dev/bin/unmask
set -eu
program=$1
here=$(dirname -- "$0")
for spec in "$here"/*.toml; do
  name=$(basename "$spec" .toml)
  out=$(mktemp -d)
  "$program" run "$spec" --no-progress -o "$out" >/dev/null
  mv "$out/rows.jsonl" "$here/$name.jsonl"
  rm -rf "$out"
done
