// Every process publishes its number and node over PMIx and reads those of all others: what a launcher must
// be good for. Prints "rank R of N on HOST: heard S", S the sum of all numbers; exits with 0 where all were
// right.
#include <pmix.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int failed(const char* what, pmix_status_t status) {
  std::fprintf(stderr, "pmix_exchange: %s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

int exchange(const pmix_proc_t& me) {
  pmix_value_t* value = nullptr;
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  if (auto status = PMIx_Get(&all, PMIX_JOB_SIZE, nullptr, 0, &value); status != PMIX_SUCCESS)
    return failed("job size", status);
  auto size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  pmix_value_t mine;
  PMIX_VALUE_CONSTRUCT(&mine);
  mine.type = PMIX_UINT32;
  mine.data.uint32 = me.rank + 1;
  if (auto status = PMIx_Put(PMIX_GLOBAL, "number", &mine); status != PMIX_SUCCESS)
    return failed("put", status);
  if (auto status = PMIx_Commit(); status != PMIX_SUCCESS) return failed("commit", status);
  bool collect = true;
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  if (auto status = PMIx_Fence(&all, 1, &info, 1); status != PMIX_SUCCESS) return failed("fence", status);
  unsigned sum = 0;
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    pmix_proc_t peer = me;
    peer.rank = rank;
    if (auto status = PMIx_Get(&peer, "number", nullptr, 0, &value); status != PMIX_SUCCESS)
      return failed("get", status);
    sum += value->data.uint32;
    PMIX_VALUE_RELEASE(value);
  }
  const char* node = std::getenv("SLURMD_NODENAME");
  std::printf("rank %u of %u on %s: heard %u\n", me.rank, size, node ? node : "this machine", sum);
  return sum == size * (size + 1) / 2 ? 0 : 1;
}

} // namespace

int main() {
  pmix_proc_t me;
  if (auto status = PMIx_Init(&me, nullptr, 0); status != PMIX_SUCCESS) return failed("init", status);
  auto code = exchange(me);
  PMIx_Finalize(nullptr, 0);
  return code;
}
