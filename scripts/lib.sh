# What the scripts of this folder share; sourced, never run. Works with bash and Debian's base system alone.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
venv=$root/.venv
python=$venv/bin/python
inputs=$root/.cache/inputs                             # real model and data, made by scripts/inputs
model_dir=$inputs/SmolLM2-135M-Instruct
data_dir=$inputs/wordnet_squad
cores=$(nproc)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
export CCACHE_SLOPPINESS=pch_defines,time_macros       # lets ccache serve files with a precompiled header

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

stage_times=()
# stage NAME COMMAND...: runs it, says how long it took, and stops the script when it fails.
stage() {
  local name=$1 begun=$SECONDS
  shift
  say "$name"
  "$@"
  stage_times+=("$(printf '%6d s  %s' $((SECONDS - begun)) "$name")")
  printf -- '-- %s: %d s\n' "$name" $((SECONDS - begun))
}
print_stage_times() {
  say "Time of each stage"
  printf '%s\n' "${stage_times[@]}"
  printf '%6d s  in all\n' "$SECONDS"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root: run it as root or install sudo. The command was: $*"
  fi
}
# apt_get ARGS...: without questions; waits for another apt or dpkg that holds the lock.
apt_get() {
  local try log
  log=$(mktemp)
  for try in $(seq 1 30); do
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=60 "$@" >"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
    grep -qE 'Could not get lock|Unable to lock|is another process using it' "$log" || break
    echo "another program holds apt's lock; trying again ($try of 30)"
    sleep 5
  done
  cat "$log" >&2
  rm -f "$log"
  die "apt-get $* failed"
}
