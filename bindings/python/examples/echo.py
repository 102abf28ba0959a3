"""Sends back what comes: `cellway up examples/two-hosts.toml`, then `python3 echo.py beta 0.100`."""

import sys

import cellway

if len(sys.argv) != 3:
    sys.exit("usage: echo.py HOST VPI.VCI")
host, circuit = sys.argv[1:]
with cellway.Endpoint(host) as endpoint:
    channel = endpoint.open(circuit)
    while True:
        with endpoint.receive() as sdu:
            endpoint.send(channel, sdu)
