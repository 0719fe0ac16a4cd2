# shellcheck shell=bash
# Shared by scripts/slurm-up and scripts/slurm-down; sourced, never run. Expects $dir, the folder of the cluster.
conf=$dir/slurm.conf

# Names of the daemons, as of their pid files; the nodes first.
daemons() {
  sed -n 's/^NodeName=\([^ ]*\) .*/\1/p' "$conf"
  echo slurmctld munged
}

# The process of one daemon of this folder; fails where it does not run.
running() {
  local pid
  pid=$(cat "$dir/run/$1.pid" 2>/dev/null) && [[ $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == *"$dir/"* ]]
}
