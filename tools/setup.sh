# Sourced by quickstart, test and .ci/run: the packages that the build needs, and the build itself.
# shellcheck shell=bash

# The one list of packages (Debian 12's names; Ubuntu's are the same).
packages=(
  g++ cmake ninja-build pkg-config python3     # compiler, build, and the checks in tools/
  libdnnl-dev                                  # oneDNN: matrix products
  libfmt-dev nlohmann-json3-dev libxxhash-dev  # text, JSON, hashes
  libcli11-dev libtomlplusplus-dev             # flags, configuration files
  libgtest-dev                                 # tests
)

fail() { # WHAT HINT
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 2
}

say() { printf '== %s\n' "$*"; }

missing_packages() {
  local name
  for name in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || printf '%s\n' "$name"
  done
}

# Installs what is missing, and nothing when nothing is. Needs root or sudo only if there is something to install.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "packages: not a Debian system, so what is installed is taken as it is"
    return
  fi
  local missing=() as_root=() log=build/setup.log
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      fail "these packages are missing and installing them needs root: ${missing[*]}" \
        "run: su -c 'apt-get update && apt-get install -y --no-install-recommends ${missing[*]}', then this again"
    fi
  fi
  say "packages: installing ${missing[*]} (log: $log)"
  mkdir -p build
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q) attempt
  for attempt in 1 2; do
    # The lists are fetched where there are none, and again where they proved too old.
    if ((attempt == 2)) || ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
      "${apt[@]}" update >>"$log" 2>&1 || true
    fi
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 && return
  done
  tail -n 5 "$log" >&2
  fail "apt-get could not install ${missing[*]}" "see $log, check the network and the package sources, and try again"
}

# One compiler a core, but no more than memory has room for: the heaviest source takes about 1 GiB.
build_jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  ((gib < 1)) && gib=1
  echo $((cores < gib ? cores : gib))
}

# build_preset PRESET [TARGET...]: configures where needed and builds. The second time there is little to do.
build_preset() {
  local preset=$1 dir=build/$1 log=build/$1/configure.log stale=()
  shift
  mkdir -p "$dir"
  # A folder that was moved or copied since: its cache names the old place.
  grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$dir/CMakeCache.txt" 2>/dev/null || stale=(--fresh)
  if ! cmake --preset "$preset" "${stale[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "the $preset build could not be configured" "see $log; what it misses is named there"
  fi
  local jobs
  jobs=$(build_jobs)
  say "build: $preset, $jobs at a time"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} ||
    fail "the $preset build failed" "the first error above says where; the compiler is $(g++ --version | head -n 1)"
}
