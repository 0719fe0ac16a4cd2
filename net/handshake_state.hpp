// What a lane knows of the connections between itself and one peer's lane: the rules of the handshake,
// without network or clock.
//
// Either lane may ask for a connection, with a hello. Each hello makes a connection of its own and is
// answered once, on that connection. So hellos that cross make two connections, both of them good, and no
// answer depends on what became of another connection. Ends of connections are numbered on each side, from 1.
// A lane asks only when it has no end left, and its hello says which hello of the peer's was the last to come
// here: the peer's end that said it, or an older one, is closed here, and so has to be there, and so has
// whatever answers an older hello of ours. A later hello of the peer's is still on its way, and will be
// answered.
//
// An end that is closed before its hello was answered says bye once the answer comes, because the peer takes
// that connection for a good one.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>

namespace dualpath::net {

class handshake_state {
public:
  enum class role : std::uint8_t { asking, answering };
  /// What a hello tells.
  struct greeting {
    std::uint64_t generation = 0; ///< of the end that says hello
    std::uint64_t heard = 0;      ///< of the peer's last hello that has come
  };
  /// What to do about a hello.
  struct response {
    bool late = false; ///< the peer has said hello since: turn it away, nothing else has changed
    bool closes_asking = false,
         closes_answering = false; ///< ends that are over; they have gone from the state
    std::uint64_t generation = 0;  ///< of the end that answers
  };

  /// Opens an end. There must be none.
  greeting ask() {
    assert(!asking_ && !answering_);
    asking_ = end{++last_, 0};
    return {last_, heard_};
  }

  response on_hello(greeting from) {
    if (from.generation <= heard_) return {.late = true};
    heard_ = from.generation;
    response out;
    if (asking_ && asking_->generation <= from.heard) {
      out.closes_asking = true;
      asking_.reset();
    }
    out.closes_answering = answering_.has_value();
    answering_ = end{++last_, from.generation};
    out.generation = last_;
    return out;
  }

  /// True if that is the end that asks: it is open now. Else it is gone, and says bye.
  bool on_reply(std::uint64_t hello_generation, std::uint64_t generation) {
    if (!asking_ || asking_->generation != hello_generation) return false;
    asking_->peer_generation = generation;
    return true;
  }

  /// The end that the peer has closed; nothing if it is gone. It stays in the state until it is closed here.
  std::optional<role> on_bye(std::uint64_t generation) const {
    if (generation == 0) return std::nullopt;
    if (asking_ && asking_->peer_generation == generation) return role::asking;
    if (answering_ && answering_->peer_generation == generation) return role::answering;
    return std::nullopt;
  }

  /// An end of ours is closed.
  void closed(std::uint64_t generation) {
    if (asking_ && asking_->generation == generation) asking_.reset();
    if (answering_ && answering_->generation == generation) answering_.reset();
  }

  bool empty() const { return !asking_ && !answering_; }
  /// Bytes may go.
  bool open() const { return answering_ || (asking_ && asking_->peer_generation != 0); }

private:
  struct end {
    std::uint64_t generation;
    std::uint64_t peer_generation; ///< of the connection's other end; 0: it has not answered
  };

  std::optional<end> asking_, answering_;
  std::uint64_t last_ = 0;  ///< end of ours
  std::uint64_t heard_ = 0; ///< last end of the peer's that said hello
};

} // namespace dualpath::net
