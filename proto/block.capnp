@0xb7f2c9d15e083a46;
# The header page of a stored block. The page is this message, zero bytes, and the XXH3-128 of all that in its last
# 16 bytes. Fields may be added (an epoch, a time) without a new version: old readers skip them, new readers see zero.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dualpath::proto");

struct BlockHeader {
  magic @0 :UInt64;
  version @1 :UInt32;
  depth @2 :UInt32;
  key @3 :Data;
  parent @4 :Data;
  model @5 :Data;
  layers @6 :UInt32;
  blockTokens @7 :UInt32;
  tokenBytes @8 :UInt32;
  payloadBytes @9 :UInt64;
  # XXH3-128 of the payload and its padding.
  checksumLow @10 :UInt64;
  checksumHigh @11 :UInt64;
}
