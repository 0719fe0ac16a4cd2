# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, never run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Jobs of a build: one per CPU, and no more than memory allows; a file that includes CAF takes about 1.5 GiB.
build_jobs() {
  local cpus memory_kib by_memory
  cpus=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$((memory_kib / (1536 * 1024)))
  ((by_memory >= 1)) || by_memory=1
  echo $((cpus < by_memory ? cpus : by_memory))
}

# Files of the project that match the given patterns: tracked, or new and not ignored.
project_files() {
  git -c safe.directory="$root" ls-files --cached --others --exclude-standard --deduplicate -- "$@" \
    | while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done
}
