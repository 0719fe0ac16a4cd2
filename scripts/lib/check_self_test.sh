#!/usr/bin/env bash
# Proves that scripts/check finds what it is for: a small project passes, and fails by name with one fault put in.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sandbox=$(mktemp -d)
trap 'rm -rf "$sandbox"' EXIT

fresh_project() {
  rm -rf "$sandbox/project"
  mkdir -p "$sandbox/project"/{core,kernels,net,storage,proto,actors,apps,tests/core,scripts}
  cp -r "$root/scripts/." "$sandbox/project/scripts/"
  cp "$root/.clang-format" "$sandbox/project/"
  cd "$sandbox/project" || exit
  git init -q
  printf '#include <openssl/sha.h>\n#include <vector>\n' >core/good.hpp
  printf '#include "core/good.hpp"\n#include "proto/lane.capnp.h"\n#include <ucp/api/ucp.h>\n' >net/good.cpp
  printf '#include "kernels/compute.hpp"\n#include "proto/messages.hpp"\n#include <caf/all.hpp>\n' >actors/good.cpp
  printf '#include "net/good.hpp"\n#include "storage/good.hpp"\n' >apps/good.cpp
  printf '#include "fixture.hpp"\n' >tests/core/good.cpp
  printf '#pragma once\n' >tests/core/fixture.hpp
}

cases=0
# expect_fault WHAT_THE_CHECK_SAYS FILE TEXT
expect_fault() {
  local said
  fresh_project
  printf '%b' "$3" >"$2"
  if said=$(scripts/check 2>&1); then fail "not found in $2: $3"; fi
  grep -qF -- "$1" <<<"$said" || fail "found in $2, but not as \"$1\":"$'\n'"$said"
  cases=$((cases + 1))
}

long_body=$(printf '  ++n;\\n%.0s' {1..60})
long_file=$(printf 'int a;\\n%.0s' {1..601})
unfinished="TO""DO"

fresh_project
said=$(scripts/check 2>&1) || fail "a project without faults fails:"$'\n'"$said"

expect_fault 'core may include only' core/bad.hpp '#include "kernels/compute.hpp"\n'
expect_fault 'core may include only' core/bad.hpp '#include <caf/all.hpp>\n'
expect_fault 'core may include only' core/bad.cpp '#include <sys/mman.h>\n'
expect_fault 'kernels may include only' kernels/bad.cpp '#include "net/fabric.hpp"\n'
expect_fault 'kernels may include only' kernels/bad.cpp '#include "proto/block.capnp.h"\n'
expect_fault 'net may include only' net/bad.cpp '#include "storage/block_store.hpp"\n'
expect_fault 'net may include only' net/bad.cpp '#include "proto/messages.hpp"\n'
expect_fault 'storage may include only' storage/bad.cpp '  #  include "net/fabric.hpp"\n'
expect_fault 'storage may include only' storage/bad.cpp '#include <ucp/api/ucp.h>\n'
expect_fault 'proto may include only' proto/bad.hpp '#include "actors/engine.hpp"\n'
expect_fault 'actors may include only' actors/bad.cpp '#include "net/ucx/ucx_fabric.hpp"\n'
expect_fault 'actors may include only' actors/bad.cpp '#include "kernels/cpu/cpu_device.hpp"\n'
expect_fault 'folder/file.hpp' actors/bad.cpp '#include "engine.hpp"\n'
expect_fault 'format of' core/bad.cpp 'int   a;\n'
expect_fault 'a function of 62 lines' core/bad.cpp "void f(int n) {\n$long_body}\n"
expect_fault 'a function of 62 lines' core/bad.cpp "struct s {\n  s(int n) : a{n}, b{n} {\n${long_body//  ++n/    ++n}  }\n  int a, b;\n};\n"
expect_fault 'a function of 62 lines' core/bad.cpp "MACRO(a)\n\nnamespace n {\n\nvoid f(int n) {\n$long_body}\n\n} // namespace n\n"
expect_fault '601 lines' core/bad.cpp "$long_file"
expect_fault "$unfinished: finish it" core/bad.cpp "// $unfinished: later\n"
expect_fault 'shell scripts: FAILED' scripts/bad.sh 'if then\n'
say "check: self-test: a project without faults passes, $cases faults are found"
