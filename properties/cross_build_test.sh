#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The same verdict from other builds: cases that one build finds failing, and some that agree, are
# run again from the same one-line tokens by a Debug build with sanitizers and by a clang build.
# Usage: cross_build_test.sh KVCHECK DEBUG_KVCHECK CLANG_KVCHECK
set -euo pipefail

main=$1
others=("$2" "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# A limit that no build keeps in matrix arithmetic, and one that all keep.
"$main" verify gen:wide:1 --arithmetic matrix --tolerance abs:1e-12 --jobs 1 --out tight \
  >/dev/null 2>&1 && { echo "no failure to compare with"; exit 1; }
"$main" verify gen:windowed:1 --operations none --jobs 1 --csv full --out kept >/dev/null 2>&1
# The same two kinds of sequences of operations, on every kind of cache.
"$main" verify gen:wide:1 --operations random:2 --arithmetic matrix --tolerance abs:1e-12 --jobs 1 \
  --out tight-operations >/dev/null 2>&1 && { echo "no failure to compare with"; exit 1; }
"$main" verify gen:windowed:1 --operations random:2 --jobs 1 --csv full --out kept-operations \
  >/dev/null 2>&1

# Every n-th case of the file: check, tokens and policy differ, or kind of cache and operations.
cases() {
  grep -o 'kv1:[^"]*' "$1" | tr -d '\r' | awk -v n="$2" 'NR % n == 1' | head -n 12
}

compared=0
for token in $(cases tight/prefixes.csv 7) $(cases kept/prefixes.csv 97) \
  $(cases tight-operations/operations.csv 2) $(cases kept-operations/operations.csv 3); do
  expected=0
  "$main" repro "$token" >main.txt 2>&1 || expected=$?
  for other in "${others[@]}"; do
    got=0
    "$other" repro "$token" >other.txt 2>&1 || got=$?
    if [ "$got" != "$expected" ] || [ "$(tail -n 1 main.txt)" != "$(tail -n 1 other.txt)" ]; then
      echo "$other disagrees about: kvcheck repro $token"
      echo "expected exit $expected: $(tail -n 1 main.txt)"
      echo "got exit $got: $(tail -n 1 other.txt)"
      exit 1
    fi
    compared=$((compared + 1))
  done
done
echo "$compared verdicts are the same"
[ "$compared" -ge 80 ]
