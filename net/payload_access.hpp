// When bytes of callers and peers may be touched follows from the messages of the network, which the thread
// sanitizer does not see. So it is told not to look while they are copied: told to forget what it found, it
// takes most of the time for finding.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace dualpath::net {

/// While it lives, this thread copies payload and does nothing else.
class payload_access {
public:
  payload_access(const payload_access&) = delete;
  payload_access& operator=(const payload_access&) = delete;
#if defined(__SANITIZE_THREAD__)
  payload_access() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~payload_access() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  payload_access() {}
#endif
};

} // namespace dualpath::net
