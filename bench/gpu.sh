#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds, compares every op and net with the CPU, prints step times.
#
#   bench/gpu.sh [build] [test] [check] [table] [peers]     these parts, in this order; none named: all
#
# build: the plugin, its tests and the step program. test: the numeric suite. check: NVIDIA's
# compute-sanitizer over nets. table: milliseconds a training step, one line a workload and
# precision, the batch fed from the host or lying on the card; lines of `explain` in the logs say what
# the host still does. peers: PyTorch's steps of the same workloads, and the ratios. Logs go to $OUT, or
# to build/gpu.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[[ ${#parts[@]} -gt 0 ]] || parts=(build test check table peers)
out=${OUT:-build/gpu}
mkdir -p "$out"
bin=${GPU_BUILD:-build/single}

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

# name, batches of the workload's own size, precisions
workloads='toy 1 tf32
mlp 1 tf32
lenet 1 tf32
ngram 1 tf32
ctr_sgd 1 tf32
lstm 1 tf32
transformer 4 tf32 bf16
resnet50 8 tf32 bf16'

table() {
  : >"$out/ours.jsonl"
  while read -r name batches precisions; do
    for precision in $precisions; do
      for fed in host card; do
        options=(--gpu --batches "$batches" --reps 3 --secs 0.1 --explain)
        [[ $fed == card ]] && options+=(--there)
        [[ $precision == bf16 ]] && options+=(--amp bfloat16)
        log="$out/$name.$precision.$fed"
        FLAGS_allow_tf32=1 timeout 120 "$bin/bench/train_step" "$name" "${options[@]}" >"$log" 2>&1 || true
        tail -n 1 "$log" | sed "s/^{/{\"precision\": \"$precision\", \"fed\": \"$fed\", /" >>"$out/ours.jsonl"
      done
    done
  done <<<"$workloads"
  python3 bench/gpu_table.py "$out"
}

# PyTorch's step of the same workloads, best of its ways; its compiled code is made by all cores first.
peer() { timeout 150 python3 bench/peers/gpu_torch.py "$@" 2>>"$out/peers.err" || true; }

warm_peers() {
  for name in toy mlp lenet ngram ctr_sgd; do peer "$name" --modes compile --warm & done
  peer ctr_sgd --dense --modes compile --warm &
  for name in transformer:4 resnet50:8; do
    for precision in tf32 bf16; do
      peer "$name" --precision "$precision" --modes compile --warm &
    done
  done
  wait
} >/dev/null

peers() {
  [[ -n ${PEERS_ARE_WARM:-} ]] || warm_peers
  few=(--reps 3 --secs 0.15)
  {
    peer transformer:4,resnet50:8,mlp,toy,lenet,ngram,ctr_sgd,lstm "${few[@]}"
    peer transformer:4,resnet50:8 --precision bf16 "${few[@]}"
    peer ctr_sgd --dense "${few[@]}"
  } >"$out/peers.jsonl"
  python3 bench/gpu_table.py "$out"
}

for part in "${parts[@]}"; do
  echo "== $part"
  "$part"
done
