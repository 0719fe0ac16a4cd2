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
