"""NIXL between two processes of this machine, DRAM to DRAM, over UCX. Prints "put GB/s" and "get GB/s": the
median batch.

Usage: bench_nixl.py BLOCK_BYTES BLOCKS ROUNDS; UCX_TLS picks the transports.
"""
import multiprocessing
import os
import statistics
import sys
import time

import numpy
from nixl_cu12._api import nixl_agent, nixl_agent_config


def agent(name):
    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


PATIENCE_S = 90  # a target whose caller is gone must not stay, for it spins


def target(to_caller, from_caller, total):
    near = agent("target")
    memory = numpy.zeros(total, dtype=numpy.uint8)
    registered = near.register_memory([(memory.ctypes.data, total, 0, "")], "DRAM")
    to_caller.put((near.get_agent_metadata(), memory.ctypes.data))
    from_caller.get(timeout=PATIENCE_S)
    to_caller.put(int(memory.sum(dtype=numpy.uint64)))
    from_caller.get(timeout=PATIENCE_S)
    del registered
    os._exit(0)


def median_gb_per_s(near, operation, local, remote, peer, total, rounds):
    handle = near.initialize_xfer(operation, local, remote, peer)
    seconds = []
    for _ in range(rounds + 2):
        begin = time.perf_counter()
        state = near.transfer(handle)
        while state not in ("DONE", "ERR"):
            state = near.check_xfer_state(handle)
        if state != "DONE":
            sys.exit(f"NIXL's {operation} failed")
        seconds.append(time.perf_counter() - begin)
    return total / statistics.median(seconds[2:]) / 1e9


def main():
    block, count, rounds = (int(word) for word in sys.argv[1:4])
    total = block * count
    multiprocessing.set_start_method("spawn")
    from_target, to_target = multiprocessing.Queue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=target, args=(from_target, to_target, total), daemon=True)
    process.start()
    near = agent("caller")
    memory = numpy.frombuffer(bytearray(os.urandom(total)), dtype=numpy.uint8)
    near.register_memory([(memory.ctypes.data, total, 0, "")], "DRAM")
    metadata, base = from_target.get(timeout=PATIENCE_S)
    peer = near.add_remote_agent(metadata)
    if isinstance(peer, bytes):
        peer = peer.decode()

    def blocks(address):
        return near.get_xfer_descs([(address + i * block, block, 0) for i in range(count)], "DRAM")

    local, remote = blocks(memory.ctypes.data), blocks(base)
    put = median_gb_per_s(near, "WRITE", local, remote, peer, total, rounds)
    get = median_gb_per_s(near, "READ", local, remote, peer, total, rounds)
    expected = int(memory.sum(dtype=numpy.uint64))
    to_target.put(1)
    if from_target.get(timeout=PATIENCE_S) != expected:
        sys.exit("NIXL left other bytes than it was given")
    to_target.put(1)
    print(f"put {put:.2f}\nget {get:.2f}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
