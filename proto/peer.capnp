@0xd4a1c7f09b3e5582;
# What engines tell each other on the data plane, outside CAF.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dualpath::proto");

struct Layout {
  layers @0 :UInt32;
  blockTokens @1 :UInt32;
  tokenBytes @2 :UInt32;
}

struct Identity {
  protocolVersion @0 :UInt32;
  instance @1 :UInt64;
  engine @2 :UInt32;
  incarnation @3 :UInt32;
  model @4 :Data;
  layout @5 :Layout;
}

# What a peer needs to connect. The digest covers the lanes: a transport is never handed a damaged address.
struct Address {
  identity @0 :Identity;
  lanes @1 :List(Data);
  digest @2 :Data;
}

# The first message of every endpoint, on every lane.
struct Hello {
  sender @0 :Address;
  targetInstance @1 :UInt64;
  generation @2 :UInt64;       # of the sender's endpoint on this lane, counted from 1
  replyTo @3 :Data;            # transport address of the endpoint's worker
  replyDigest @4 :Data;
  proof @5 :Data;              # that the sender holds the cluster's secret: an HMAC over all else
  heard @6 :UInt64;            # generation of the target's last hello that has come here
}

struct HelloReply {
  sender @0 :Identity;
  namedInstance @1 :UInt64;    # the target the hello named
  helloGeneration @2 :UInt64;  # as in the hello
  generation @3 :UInt64;       # of the endpoint that leads back
  refusal @4 :Text;            # empty: accepted
}

struct Bye {
  senderInstance @0 :UInt64;
  generation @1 :UInt64;       # of the endpoint that is closed
  reason @2 :Text;
}

# Header of a message between engines; the payload follows.
struct MessageHeader {
  senderInstance @0 :UInt64;
  targetInstance @1 :UInt64;
  kind @2 :UInt16;
  length @3 :UInt64;
}

# A registered memory region: what a peer needs to reach it. The digest covers everything else.
struct Region {
  instance @0 :UInt64;
  base @1 :UInt64;
  size @2 :UInt64;
  keys @3 :List(Data);         # one a lane
  digest @4 :Data;
}

# Puts and gets where the transport has none: rows of one registered region, carried by messages. The payload is the rows
# one after another.
struct Row {
  offset @0 :UInt64;           # from the region's base
  bytes @1 :UInt64;
}

struct CopyChunk {
  number @0 :UInt64;           # names the answer
  base @1 :UInt64;             # of the region
  size @2 :UInt64;
  rows @3 :List(Row);
}

struct CopyRequest {
  senderInstance @0 :UInt64;
  targetInstance @1 :UInt64;
  chunks @2 :List(CopyChunk);  # a put's message carries one
}

struct CopyReply {
  senderInstance @0 :UInt64;
  targetInstance @1 :UInt64;
  chunks @2 :List(UInt64);     # a get's data answers one
  refusal @3 :Text;            # empty: done
}
