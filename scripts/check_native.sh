#!/usr/bin/env bash
# Builds the C++ tests and runs them three times: as released, with AddressSanitizer and UndefinedBehaviorSanitizer, and with
# ThreadSanitizer (CMakePresets.json; builds lie under build/). Needs cmake >= 3.21, make or ninja, and a compiler.
#
#   scripts/check_native.sh                   CXX=clang++ on a fresh tree chooses the compiler
#   scripts/check_native.sh release           these presets only
#   scripts/check_native.sh dev               in the build folder of `make dev`, with the objects of the Python module
#   scripts/check_native.sh dev-quick         the same without the tests that take longest; dev-rest runs only those
set -euo pipefail
cd "$(dirname "$0")/.."

# ThreadSanitizer of GCC before 14 cannot start where the kernel randomises addresses by more than 28 bits.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi

cores=$(getconf _NPROCESSORS_ONLN)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
[ $# -gt 0 ] || set -- release asan tsan
for preset in "$@"; do
  echo "== $preset: build"
  SECONDS=0
  built=${preset%%-*}
  [ "$preset" != dev-quick ] && targets=() || targets=(--target quick_tests)
  if ! { { [ "$built" = dev ] || cmake --preset "$built"; } && cmake --build --preset "$built" -j "$cores" "${targets[@]}"; } >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$preset does not build"
    exit 1
  fi
  echo "== $preset: tests (built in $SECONDS s)"
  "${fixed_addresses[@]}" ctest --preset "$preset" --parallel "$cores" 2>&1 | tee "$log" || true
  # The closing line of ctest: "67% tests passed, 1 tests failed out of 3", from 4.x on "100% tests passed out of 3" without failures.
  closing=$(grep -E '^[0-9]+% tests passed' "$log") || {
    echo "$preset: ctest did not finish"
    exit 1
  }
  total=${closing##* }
  bad=$(sed -nE 's/.*, ([0-9]+) tests? failed.*/\1/p' <<<"$closing")
  bad=${bad:-0}
  passed=$((passed + total - bad))
  failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
