"""Sends between nodes of scripts/netns: to one, to two at once, and both ways at once. Fails where a node's link carries
more than its rate, or much less.

Usage: throughput.py scripts/netns RATE_MBIT
"""
import subprocess
import sys

PORT = 7777
BYTES = 6_000_000
# The burst and what the queues hold arrive outside the rate; headers count against it.
# Acknowledgements queue behind what goes the other way.
MOST, LEAST = 1.15, 0.35

RECEIVE = f"""
import socket, time
server = socket.create_server(("", {PORT}))
print("ready", flush=True)
peer, _ = server.accept()
start = None
while peer.recv(1 << 20):
    start = start or time.monotonic()
print(start, time.monotonic(), flush=True)
"""
SEND = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=30) as peer:
    peer.sendall(bytes({BYTES}))
"""


def on_node(netns, node, program, *arguments):
    return subprocess.Popen([netns, "exec", str(node), sys.executable, "-c", program, *arguments],
                            stdout=subprocess.PIPE, text=True)


def measure(netns, pairs):
    """Mbit/s of each receiver while every pair (sender, receiver) is busy, and of all together from first byte to last."""
    receivers = [on_node(netns, receiver, RECEIVE) for _, receiver in pairs]
    for each in receivers:
        assert each.stdout.readline() == "ready\n"
    senders = [on_node(netns, sender, SEND, f"10.88.0.{receiver + 1}") for sender, receiver in pairs]
    for each in senders:
        assert each.wait() == 0
    spans = [[float(word) for word in each.communicate()[0].split()] for each in receivers]
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    return [BYTES * 8e-6 / (end - start) for start, end in spans], len(pairs) * BYTES * 8e-6 / (last - first)


def main(netns, rate_text):
    rate = float(rate_text)
    (alone,), _ = measure(netns, [(0, 1)])
    _, shared = measure(netns, [(0, 1), (0, 2)])
    (there, back), _ = measure(netns, [(0, 1), (1, 0)])
    print(f"of {rate} Mbit/s: one receiver {alone:.1f}, two of one sender {shared:.1f} together, there {there:.1f} and "
          f"back {back:.1f} at once")
    for what, seen in (("one receiver", alone), ("two receivers of one sender", shared), ("there", there), ("back", back)):
        assert LEAST * rate <= seen, f"{what}: {seen:.1f} Mbit/s, much less than {rate}"
        assert seen <= MOST * rate, f"{what}: {seen:.1f} Mbit/s, more than {rate}"


main(*sys.argv[1:])
