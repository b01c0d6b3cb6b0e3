#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# without_tests.sh PROGRAM: a program that was built with UNMASK_BUILD_TESTS=OFF has no emulator of the CUDA
# kernels and says so wherever somebody asks for it; everything else is there.
set -eu
program=$1
fail() {
  echo "without_tests: $*" >&2
  exit 1
}
if nm "$program" | grep -q tsan; then fail "kernels are compiled with calls around every access"; fi
"$program" doctor | grep -q "emulator of CUDA kernels: not in this program" || fail "doctor is silent"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
refused() { # WORDS...
  code=0
  "$program" "$@" >"$place/said" 2>&1 || code=$?
  [ "$code" = 3 ] || fail "$* ended with $code"
  grep -q "builds\\? with\\(out\\)\\? tests\\|built without tests" "$place/said" || fail "$*: $(cat "$place/said")"
}
refused generate --model tiny-sdar --device cuda-emulated -n 8 "Hi."
refused bench --model tiny-sdar --device cuda-emulated
refused run experiments/minimal_experiment.toml --set run.device=cuda-emulated -o "$place/run"
"$program" run experiments/minimal_experiment.toml --set limit=1 -o "$place/run" >/dev/null 2>&1
[ "$(wc -l <"$place/run/rows.jsonl")" -eq 2 ] || fail "run wrote other rows than two"
