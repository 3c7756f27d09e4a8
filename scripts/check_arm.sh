#!/usr/bin/env bash
# Cross-compiles the C++ tests for 64-bit ARM and runs them under qemu-user: the NEON kernels and the portable ones against the same
# vectors and the same bits as on x86-64. It says nothing about speed, and emulation is not hardware. Debian and Ubuntu:
#
#   apt-get install g++-aarch64-linux-gnu qemu-user
#   scripts/check_arm.sh
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: ARM, as there is no $tool (apt-get install g++-aarch64-linux-gnu qemu-user)"
    exit 0
  fi
done
scripts/check_native.sh arm
