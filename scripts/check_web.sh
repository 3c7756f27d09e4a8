#!/usr/bin/env bash
# Builds the npm package's WebAssembly module with zig (`pip install ziglang`) and runs the tests in js/test by Node's own runner, which reads
# build/web too. Needs cmake and ninja on PATH, and Node 20 or newer.
#
#   scripts/check_web.sh             all of it
#   scripts/check_web.sh build       js/src/hushvec.wasm alone
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
SECONDS=0
echo "== web: build"
zig=$(python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
if ! {
  cmake -S . -B build/web -G Ninja --toolchain "$PWD/cpp/tools/zig.cmake" -DHUSHVEC_ZIG="$zig" -DHUSHVEC_TARGET=wasm32-wasi \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-Os -DNDEBUG" -DHUSHVEC_BUILD_PYTHON=OFF -DHUSHVEC_BUILD_TESTS=ON -DHUSHVEC_CUDA=OFF &&
    cmake --build build/web
} >"$log" 2>&1; then
  tail -n 60 "$log"
  echo "the web module does not build"
  exit 1
fi
cp build/web/js/native/hushvec.wasm js/src/hushvec.wasm
echo "== web: tests (built in $SECONDS s)"
[ "${1:-}" != build ] || exit 0
status=0
node --no-warnings --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=tap --test-reporter-destination="$log" js/test/ || status=$?
echo "$(sed -nE 's/^# pass ([0-9]+)/\1/p' "$log") passed, $(sed -nE 's/^# fail ([0-9]+)/\1/p' "$log") failed"
exit $status
