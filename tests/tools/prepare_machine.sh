# Sourced by demo.sh and test.sh: installs what a fresh Debian machine lacks, and says what it does.

debian_packages="
  cmake ninja-build g++ ccache pkg-config
  protobuf-compiler libprotobuf-dev libonnx-dev
  libclang-19-dev libclang-cpp19-dev llvm-19-dev
  libcli11-dev nlohmann-json3-dev libssl-dev libsqlite3-dev zlib1g-dev libzstd-dev libstb-dev libutf8proc-dev
  libgtest-dev libgmock-dev libbenchmark-dev openmpi-bin
  python3 python3-venv python3-dev pybind11-dev"

# What tests alone want: another compiler for what is generated and for the sanitized build, and its sanitizers, and signatures.
test_packages="clang-19 libclang-rt-19-dev minisign"

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs the Debian packages that are not there yet; silent when all are.
install_debian_packages() {
  command -v dpkg-query >/dev/null || { echo "This script installs Debian packages; elsewhere, install the counterparts of:$debian_packages"; return 0; }
  missing=""
  for package in $debian_packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "== installing Debian packages:$missing"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null
}

# Makes an environment with PyTorch, outside of the repository for its size. Its Python: $pytorch.
pytorch_place=${XDG_CACHE_HOME:-$HOME/.cache}/metac-tests/pytorch
prepare_pytorch() {
  local wanted=tests/tools/pytorch.txt
  cmp -s "$wanted" "$pytorch_place/requirements.txt" && return
  echo "== installing PyTorch into $pytorch_place"
  rm -rf "$pytorch_place" && mkdir -p "$pytorch_place" && python3 -m venv "$pytorch_place" &&
    "$pytorch_place/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" &&
    cp "$wanted" "$pytorch_place/requirements.txt"
}

# Makes .cache/python, a virtual environment with the packages of requirements file $1. Sets $python.
prepare_python() {
  python="$PWD/.cache/python/bin/python"
  if ! cmp -s "$1" .cache/python/requirements.txt; then
    echo "== installing Python packages: $(grep -v '^#' "$1" | tr '\n' ' ')"
    rm -rf .cache/python
    mkdir -p .cache
    python3 -m venv .cache/python
    "$python" -m pip install --quiet --disable-pip-version-check -r "$1"
    cp "$1" .cache/python/requirements.txt
  fi
}
