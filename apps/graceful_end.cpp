#include "apps/graceful_end.hpp"

#include "apps/temporary_folder.hpp"

#include <cstdio>
#include <unistd.h>

namespace dualpath::apps {

graceful_end::graceful_end()
    : interrupts_{[this](int signal, unsigned count) {
        if (count == 1) {
          std::fputs(
              "\ndualpath: interrupted; the rounds under way are finished first, once more ends at once\n",
              stderr);
          signal_ = signal;
          drain_->request();
          return;
        }
        temporary_folder::remove_all();
        ::_exit(128 + signal);
      }} {}

} // namespace dualpath::apps
