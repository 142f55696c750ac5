#!/usr/bin/env bash
# Installs the Debian packages that are missing and makes .venv. Does nothing when all is there.
#
#   tools/bootstrap.sh         what building, testing and the demo need
#   tools/bootstrap.sh --lint  also what `make lint` uses
#   tools/bootstrap.sh --tidy  also what `make tidy` uses
#   tools/bootstrap.sh --wheel also what `make wheel` uses
#   tools/bootstrap.sh --page  also what `make test-page` uses: a browser, and what drives it
#
# PYTHON=... chooses the interpreter (default /usr/bin/python3); SKIP_PACKAGES=1 installs nothing.
# Where packages cannot be installed it says what is missing and goes on: the build may still find
# what it needs elsewhere, and says so itself when it does not.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}

say() { echo "bootstrap: $*"; }

# Each line: a package, and how to see that what it brings is here, whoever installed it.
needs='
g++                 command  c++
cmake               command  cmake
ninja-build         command  ninja
ccache              command  ccache
git                 command  git
pkg-config          command  pkg-config
protobuf-compiler   command  protoc
libprotobuf-dev     header   google/protobuf/message.h
libgrpc++-dev       header   grpcpp/grpcpp.h
protobuf-compiler-grpc command grpc_cpp_plugin
libgloo-dev         header   gloo/allreduce.h
librocksdb-dev      header   rocksdb/db.h
libgtest-dev        header   gtest/gtest.h
libgmock-dev        header   gmock/gmock.h
libdnnl-dev         header   oneapi/dnnl/dnnl.hpp
libopenblas-dev     library  openblas
pybind11-dev        pybind11 headers
python3-dev         include  Python.h
python3-venv        module   ensurepip
python3-numpy       module   numpy
python3-pytest      module   pytest
python3-pytest-xdist module  xdist
python3-sklearn     module   sklearn
python3-matplotlib  module   matplotlib
graphviz            command  dot
'
lint_needs='
clang-format        command  clang-format
pyflakes3           module   pyflakes
'
tidy_needs='
clang               command  clang++
clang-tidy          command  clang-tidy
'
wheel_needs='
patchelf            command  patchelf
'
page_needs='
chromium            command  chromium
chromium-driver     command  chromedriver
python3-selenium    module   selenium
'
[[ ${1:-} == --page ]] && needs+=$page_needs
[[ ${1:-} == --lint ]] && needs+=$lint_needs
[[ ${1:-} == --tidy ]] && needs+=$tidy_needs
[[ ${1:-} == --wheel ]] && needs+=$wheel_needs

installed_package() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

here() {  # here KIND NAME
  case $1 in
    command) command -v "$2" >/dev/null ;;
    header) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$2" | c++ -E -x c++ - >/dev/null 2>&1 ;;
    library) echo 'int main() {}' | c++ -x c++ - -o /dev/null "-l$2" 2>/dev/null ;;
    module) "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$2') is None)" 2>/dev/null ;;
    pybind11) here header pybind11/pybind11.h || here module pybind11 ;;
    include) [[ -e $("$python" -c "import sysconfig; print(sysconfig.get_path('include'))" 2>/dev/null)/$2 ]] ;;
  esac
}

missing=()
while read -r package kind name; do
  [[ -z $package ]] && continue
  installed_package "$package" || here "$kind" "$name" || missing+=("$package")
done <<<"$needs"

install_packages() {
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || { say "not root and no sudo here"; return 1; }
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y
             --no-install-recommends)
  "${apt[@]}" update || say "apt-get update failed; trying with the package lists that are here"
  "${apt[@]}" install "${missing[@]}" && return
  # One name that this system does not have stops them all: take the others one by one.
  local package failed=()
  for package in "${missing[@]}"; do "${apt[@]}" install "$package" || failed+=("$package"); done
  say "could not install ${failed[*]:-}"
  ((${#failed[@]} == 0))
}

if ((${#missing[@]})); then
  if [[ -n ${SKIP_PACKAGES:-} ]] || ! command -v apt-get >/dev/null; then
    say "missing, please install: ${missing[*]}"
  else
    say "installing ${missing[*]}"
    install_packages || say "going on with what is here"
  fi
fi

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

version=$(version_of "$python") || { say "no Python at $python; set PYTHON=..."; exit 1; }

# .venv sees the packages of the Python it is made from. Its trireme.pth names the package in python/
# and the extension module that the release build leaves in build/release/python.
if [[ $(version_of .venv/bin/python) != "$version" ]]; then
  say "making .venv from $python ($version)"
  rm -rf .venv
  "$python" -m venv --system-site-packages --without-pip .venv
fi
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
paths=$PWD/python$'\n'$PWD/build/release/python
# An environment made from another one sees only what is under both: name the other's packages too.
paths+=$("$python" -c 'import sys, sysconfig
if sys.prefix != sys.base_prefix: print("\n" + sysconfig.get_path("purelib"), end="")')
if [[ $(cat "$site/trireme.pth" 2>/dev/null) != "$paths" ]]; then
  say "pointing .venv at python/ and build/release/python/"
  echo "$paths" >"$site/trireme.pth"
fi
