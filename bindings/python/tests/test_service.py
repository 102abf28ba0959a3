"""With a service: `CELLWAY_SOCKET` names its socket; its network is examples/two-hosts.toml."""

import asyncio
import os
import subprocess
import threading
import unittest

import cellway
from cellway import aio, capture
from cellway.control import Client, WrongRevision

CIRCUIT = "0.100"


@unittest.skipUnless("CELLWAY_SOCKET" in os.environ, "no service is named")
class Service(unittest.TestCase):
    def ends(self, **options):
        ends = [cellway.Endpoint(host, **options) for host in ("alpha", "beta")]
        for end in ends:
            self.addCleanup(end.close)
        return ends, [end.open(CIRCUIT) for end in ends]

    def test_sdus_of_all_lengths_arrive_by_copy_loan_and_batch(self):
        (alpha, beta), (there, back) = self.ends(path="zero-copy")
        for data in [b"s", b"m" * 41, b"l" * 9188]:
            alpha.send(there, data)
            with beta.receive(30) as sdu:
                self.assertEqual((bytes(sdu), sdu.channel), (data, back))
        loan = alpha.loan()
        with memoryview(loan) as view:
            view[:5] = b"hello"
        alpha.send_loan(there, loan, 5)
        self.assertEqual(beta.receive_bytes(30), b"hello")
        data = [bytes([n]) * 100 for n in range(32)]
        self.assertEqual(alpha.send_batch(there, data), 32)
        got = []
        while len(got) < 32:
            got += beta.receive_bytes_batch(32, 30) or self.fail("lost")
        self.assertEqual(got, data)
        self.assertTrue(alpha.wait_sent(30))

    def test_kept_sdus_go_back_and_a_closed_endpoint_leaves_them_readable(self):
        (alpha, beta), (there, _) = self.ends(buffers=16, ring=16, buffer_octets=1024)
        for n in range(100):
            alpha.send(there, bytes([n]) * 1000)
            sdu = beta.receive(30)
            self.assertEqual(bytes(sdu)[0], n)
        view = memoryview(sdu)
        beta.close()
        self.assertEqual(bytes(view), bytes([99]) * 1000)

    def test_a_refusal_has_its_kind(self):
        for host, circuit, kind in [("nobody", CIRCUIT, "no_host"), ("alpha", "0.7", "no_circuit")]:
            with self.assertRaises(cellway.Refused) as caught:
                cellway.Endpoint(host).open(circuit)
            self.assertEqual(caught.exception.kind, kind)
        (_, _), _ = self.ends()
        with self.assertRaises(cellway.Refused) as caught:
            cellway.Endpoint("alpha").open(CIRCUIT)
        self.assertEqual(caught.exception.kind, "in_use")

    def test_asyncio_receives_by_the_descriptor(self):
        (alpha, beta), (there, back) = self.ends()

        async def echo():
            async for sdu in aio.sdus(beta):
                beta.send(back, sdu)

        async def main():
            echoing = asyncio.create_task(echo())
            for n in range(10):
                alpha.send(there, bytes([n]) * 500)
                self.assertEqual(bytes(await aio.receive(alpha)), bytes([n]) * 500)
            echoing.cancel()

        asyncio.run(asyncio.wait_for(main(), 60))

    def test_a_direct_circuit_joins_two_programs(self):
        ends = {}

        def open_end(host):
            ends[host] = cellway.open_direct(host, CIRCUIT, timeout=30)

        other = threading.Thread(target=open_end, args=["beta"])
        other.start()
        open_end("alpha")
        other.join()
        ends["alpha"][0].send(b"x" * 5000)
        self.assertEqual(ends["beta"][1].receive_bytes(30), b"x" * 5000)
        with self.assertRaises(cellway.NoPeer):
            cellway.open_direct("alpha", "0.101", timeout=0.05)

    def test_the_client_asks_and_changes_once_and_expects_a_revision(self):
        client = Client()
        before = client.status()["revision"]
        client.add_circuit({"ends": ["alpha 0.300", "beta 0.300"]})
        try:
            self.assertIn("alpha 0.300", str(client.circuits()))
            self.assertGreater(client.status()["revision"], before)
            with self.assertRaises(WrongRevision) as caught:
                client.remove_circuit(ends=["alpha 0.300", "beta 0.300"], expect=before)
            self.assertEqual(caught.exception.answer["expected_revision"], before)
        finally:
            client.remove_circuit(ends=["alpha 0.300", "beta 0.300"])
        path = client.path(host="alpha", circuit=CIRCUIT)
        self.assertTrue(path["sends"])
        with self.assertRaises(cellway.Refused):
            client.path(host="nobody", circuit=CIRCUIT)

    @unittest.skipUnless("CELLWAY_PROGRAM" in os.environ, "no program is named")
    def test_a_capture_is_read_while_it_runs(self):
        (alpha, beta), (there, _) = self.ends()
        program = [os.environ["CELLWAY_PROGRAM"], "capture", "alpha:0", "-"]
        link = next(link["name"] for link in Client().links() if "alpha" in link["name"])
        program[2] = link
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stderr.readline()  # it says that it has begun
            alpha.send(there, b"captured" * 20)
            record = next(record for record in capture.read(process.stdout) if record.kind == "aal5")
            process.terminate()
        self.assertEqual((record.vci, record.sdu), (100, b"captured" * 20))
        self.assertEqual(beta.receive_bytes(30), b"captured" * 20)


if __name__ == "__main__":
    unittest.main()
