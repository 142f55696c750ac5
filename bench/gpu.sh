#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds, compares every op and net with the CPU, prints step times.
#
#   bench/gpu.sh [build] [test] [check] [table]     these parts, in this order; none named: all
#
# build: the plugin, its tests and the step program. test: the numeric suite. check: NVIDIA's
# compute-sanitizer over nets. table: milliseconds a training step, one line a workload and
# precision; lines of `explain` say what the host still does. Logs go to $OUT, or to build/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(build test check table)
out=${OUT:-build/gpu}
mkdir -p "$out"
bin=build/single

build() {
  CXX=${CXX_SYSTEM:-/usr/bin/g++} cmake --preset single -DPython_EXECUTABLE="$(command -v python3)" \
    >"$out/configure.log"
  cmake --build --preset single --parallel "$(nproc)" --target tests_cuda train_step >"$out/build.log" ||
    { tail -n 30 "$out/build.log"; return 1; }
}

test() {
  "$bin/tests/tests_cuda" >"$out/tests_cuda.log" 2>&1 ||
    { grep -E '^\[  FAILED|Failure|disagree|element' "$out/tests_cuda.log" | head -n 40; }
  tail -n 6 "$out/tests_cuda.log"
  grep '^cuda:' "$out/tests_cuda.log" || true
}

check() {
  compute-sanitizer --error-exitcode 9 "$bin/tests/tests_cuda" --gtest_filter='CudaNets.*' \
    >"$out/sanitizer.log" 2>&1 && echo "compute-sanitizer: clean" || tail -n 15 "$out/sanitizer.log"
}

# name, batches of the workload's own size
workloads='toy 1
mlp 1
lenet 1
ngram 1
ctr_sgd 1
lstm 1
resnet50 8
transformer 4'

table() {
  while read -r name batches; do
    for tf32 in 0 1; do
      FLAGS_allow_tf32=$tf32 timeout 120 "$bin/bench/train_step" "$name" --gpu --batches "$batches" \
        --reps 5 --secs 0.5 --explain >"$out/$name.$tf32" 2>&1 || true
      echo "$name tf32=$tf32 $(tail -n 1 "$out/$name.$tf32")"
    done
    grep -A 2 '^device' "$out/$name.0" || true
  done <<<"$workloads"
}

for part in "${parts[@]}"; do
  echo "== $part"
  "$part"
done
