#!/usr/bin/env bash
# WebGPU on a headless NVIDIA server, with or without a network: docs/headless-gpu.md.
set -euo pipefail

PYTHON=${PYTHON:-python3}
DRIVER=libEGL_nvidia.so.0
# The Vulkan loader, and libraries that NVIDIA's driver may ask for even where there is no display.
PACKAGES=(libvulkan1 libx11-6 libxext6 libxcb1 libxau6 libxdmcp6 libbsd0 libmd0 libwayland-client0)

usage() {
  cat >&2 <<'END'
usage: headless-gpu.sh collect [--no-deps] DIR [PYTHON_VERSION]    on a Debian or Ubuntu machine with a network
       eval "$(headless-gpu.sh activate DIR)"                      on the server

collect   puts the wheels of tinygpt[webgpu]'s dependencies and the Vulkan loader's packages into DIR
          (--no-deps: of the wheels only wgpu's own, for a server that has the others)
activate  unpacks them inside DIR and prints the variables to set
END
  exit 2
}

fail() {
  echo "headless-gpu: $1" >&2
  exit 1
}

collect() {
  local wgpu_only=false
  [[ ${1-} != --no-deps ]] || { wgpu_only=true && shift; }
  [[ $# -ge 1 && $# -le 2 && $1 != -* ]] || usage
  local dir=$1 version=${2:-} project machine tag
  command -v apt-get > /dev/null || fail "collect needs apt-get: run it on Debian or Ubuntu"
  mkdir -p "$dir"
  [[ -z $(ls -A "$dir") ]] || fail "$dir is not empty: name a new folder"
  project=$(dirname "${BASH_SOURCE[0]}")/../pyproject.toml
  machine=$(uname -m)
  [[ -n $version ]] || version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

  local fetch=("$PYTHON" -m pip download --quiet --disable-pip-version-check --only-binary=:all:)
  for tag in manylinux1 manylinux2010 manylinux2014 manylinux_2_{5,12,17,24,26,27,28}; do
    fetch+=(--platform "${tag}_$machine")
  done
  if $wgpu_only; then
    printf '%s\n' wgpu cffi pycparser > "$dir/requirements.txt"
    fetch+=(--no-deps)
  else
    "$PYTHON" - "$project" > "$dir/requirements.txt" << 'END'
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["webgpu"], sep="\n")
END
  fi
  "${fetch[@]}" --python-version "$version" --dest "$dir" --requirement "$dir/requirements.txt"

  [[ $(id -u) != 0 ]] || apt-get update -qq
  (cd "$dir" && apt-get download -qq -o APT::Sandbox::User=root "${PACKAGES[@]}")
  echo "$dir holds $(du -sh "$dir" | cut -f 1) for Python $version on $machine"
}

activate() {
  [[ $# = 1 && $1 != -* ]] || usage
  [[ -f $1/requirements.txt ]] || fail "$1 holds nothing to unpack: fill it with 'collect' first"
  local dir file folder libraries=
  dir=$(cd "$1" && pwd)
  file=$dir/unpacked/nvidia.json
  mkdir -p "$dir/unpacked"
  once unpack_packages "$dir/unpacked/packages" "$dir"/*.deb
  for folder in "$dir"/unpacked/packages/{usr/,}lib/*-linux-gnu; do
    libraries+=$folder:
  done
  libraries+=${LD_LIBRARY_PATH:-}
  check_driver "$libraries"
  once unpack_wheels "$dir/unpacked/wheels" "$dir"/*.whl
  echo "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": \"$DRIVER\", \"api_version\": \"1.3.0\"}}" > "$file"
  # An older loader knows only the first of the two names.
  printf 'export %s=%q\n' VK_ICD_FILENAMES "$file" VK_DRIVER_FILES "$file" \
    LD_LIBRARY_PATH "${libraries%:}" PYTHONPATH "$dir/unpacked/wheels${PYTHONPATH:+:$PYTHONPATH}"
}

# once COMMAND FOLDER FILE...: let COMMAND make FOLDER of the files, unless it is there from the last time
once() {
  [[ ! -d $2 ]] || return 0
  rm -rf "$2.part"
  mkdir "$2.part"
  "$1" "$2.part" "${@:3}" >&2
  mv "$2.part" "$2"
}

unpack_packages() {
  local package
  for package in "${@:2}"; do
    dpkg-deb -x "$package" "$1" || fail "$package cannot be unpacked (this needs dpkg-deb)"
  done
}

unpack_wheels() {
  [[ $# -gt 1 ]] || return 0
  "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$1" "${@:2}" \
    || fail "the wheels do not fit $("$PYTHON" --version) ($PYTHON): collect for that version, or set PYTHON to another"
}

check_driver() {
  local said
  said=$(LD_LIBRARY_PATH=$1 "$PYTHON" -c "import ctypes; ctypes.CDLL('$DRIVER')" 2>&1 | tail -n 1) && return
  case $said in
    "OSError: $DRIVER: cannot open"*) fail "$DRIVER is not found: there is no NVIDIA driver here, or only the part of it \
that computes (a container needs NVIDIA_DRIVER_CAPABILITIES=all)" ;;
    *) fail "$DRIVER does not load: $said" ;;
  esac
}

shopt -s nullglob
case ${1-} in
  collect | activate) "$@" ;;
  *) usage ;;
esac
