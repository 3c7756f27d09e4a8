#!/usr/bin/env bash
# Makes a CUDA 12.4 toolchain in a folder, from the packages of Debian 13 (non-free, 1 GB to download), for building and trying
# hushvec-cuda12 beside another CUDA. Installs nothing, and leaves a folder that is complete as it is. Needs apt-get, dpkg-deb and g++ 13 or older.
#
#   scripts/cuda12_toolchain.sh DIR           then: PATH=DIR/bin:$PATH, or CUDACXX=DIR/bin/nvcc
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
# Those that compile and link, and no library but the runtime's.
packages=(nvidia-cuda-toolkit libnvvm4 nvidia-cuda-dev libcu++-dev)

if [ -f "$target/complete" ]; then
  echo "$target: $("$target/bin/nvcc" --version | tail -2 | head -1)"
  exit 0
fi
fail() { echo "no CUDA 12 toolchain: $1" >&2; exit 1; }
for tool in apt-get dpkg-deb; do command -v $tool >/dev/null || fail "$tool is not here, which Debian and Ubuntu have"; done
[ "$(dpkg --print-architecture)" = amd64 ] || fail "it is made for amd64, not $(dpkg --print-architecture)"
keys=$(ls /usr/share/keyrings/debian-archive-{trixie-automatic,keyring}.gpg 2>/dev/null | head -1)
[ -n "$keys" ] || fail "the keys of Debian 13 are not here: apt-get install debian-archive-keyring"

work=$(mktemp -d "$target/making.XXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs,tree}
touch "$work/state/status"
echo "deb [signed-by=$keys] http://deb.debian.org/debian trixie main contrib non-free" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::State "$work/state";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "$work/none";
APT::Sandbox::User "$(id -un)";
END
export APT_CONFIG=$work/apt.conf

echo "fetching ${packages[*]} of Debian 13"
apt-get -qq update || fail "deb.debian.org does not answer"
(cd "$work/debs" && apt-get -qq download "${packages[@]}") || fail "Debian does not hand out ${packages[*]}"
echo "unpacking"
for package in nvidia-cuda-toolkit libnvvm4 libcu++-dev; do dpkg-deb -x "$work/debs/${package}_"*.deb "$work/tree"; done
dpkg-deb --fsys-tarfile "$work"/debs/nvidia-cuda-dev_*.deb |
  tar -x -C "$work/tree" --wildcards './usr/include/*' './usr/lib/*/libcudart_static.a' './usr/lib/*/libcudadevrt.a'

# The layout that nvcc has where NVIDIA installs it.
usr=$work/tree/usr
mkdir -p "$target"/{bin,lib64,nvvm/bin}
cp "$usr"/bin/{cudafe++,ptxas,fatbinary,bin2c,nvlink,cuobjdump,nvdisasm} "$usr"/lib/nvidia-cuda-toolkit/bin/nvcc "$target/bin"
cp -r "$usr/lib/nvidia-cuda-toolkit/bin/crt" "$target/bin"
cp "$usr/lib/nvidia-cuda-toolkit/bin/cicc" "$target/nvvm/bin"
cp -r "$usr/lib/nvidia-cuda-toolkit/libdevice" "$target/nvvm"
cp "$usr"/lib/x86_64-linux-gnu/{libnvvm.so.4,libcudart_static.a,libcudadevrt.a} "$target/lib64"
cp -r "$usr/include" "$target"
cat >"$target/bin/nvcc.profile" <<'END'
TOP                = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH   += $(TOP)/lib64:
PATH              += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
END

cat >"$work/try.cu" <<'END'
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void kernel(float* x) { *x = 1; }
int main() { kernel<<<1, 1>>>(nullptr); }
END
"$target/bin/nvcc" -std=c++20 -arch=sm_90 "$work/try.cu" -o "$work/try" || fail "it compiles nothing: is g++ 13 or older on PATH? NVCC_CCBIN names another"
touch "$target/complete"
echo "$target: $("$target/bin/nvcc" --version | tail -2 | head -1)"
