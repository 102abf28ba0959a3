"""SDUs per second over a direct circuit between two processes: `speed.py OCTETS SECONDS batch|single`. As
bindings/tests/src/speed.rs; `CELLWAY_SOCKET` names the service, whose network is examples/two-hosts.toml."""

import subprocess
import sys
import time

import cellway

BATCH = 32
CIRCUIT = "0.100"


def send(octets, length, batched):
    sender, _ = cellway.open_direct("alpha", CIRCUIT, timeout=30)
    sdu = bytes(octets)
    batch = [sdu] * BATCH
    end = time.monotonic() + length
    while time.monotonic() < end:
        if batched:
            sent = 0
            while sent < BATCH:
                sent += sender.send_batch(batch[sent:] if sent else batch)
                if sent < BATCH:
                    # One alone waits for room.
                    sender.send(sdu)
                    sent += 1
        else:
            for one in batch:
                sender.send(one)
    sender.send(b"\0")
    time.sleep(60)  # until the receiver has it, and ends this


def count(batched):
    _, receiver = cellway.open_direct("beta", CIRCUIT, timeout=30)
    n, begin = -1, None
    while True:
        taken = receiver.receive_bytes_batch(BATCH) if batched else [receiver.receive_bytes()]
        begin = begin or time.monotonic()
        n += len(taken)
        if len(taken[-1]) == 1:
            return n / (time.monotonic() - begin)


def main():
    octets, length, batched = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] != "single"
    if len(sys.argv) > 4:
        return send(octets, length, batched)
    with subprocess.Popen([sys.executable, *sys.argv, "send"]) as sender:
        rate = count(batched)
        sender.kill()
    print(f"{rate:.0f}")


main()
