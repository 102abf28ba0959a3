"""Direct circuits, buffers, asyncio, captures and layers: what needs no service."""

import asyncio
import gc
import io
import struct
import threading
import time
import unittest

import cellway
from cellway import aio, capture

try:
    import numpy
except ImportError:
    numpy = None
try:
    from cellway import layers
except ImportError:
    layers = None


class Direct(unittest.TestCase):
    def setUp(self):
        (self.sender, self.back), (self.answerer, self.receiver) = cellway.direct_pair()

    def test_a_copy_of_any_buffer_arrives_as_it_was_sent(self):
        for data in [b"short", b"x" * 40, bytes(range(256)) * 4, bytearray(9188), memoryview(b"abcdef")[1:4]]:
            self.sender.send(data)
            self.assertEqual(self.receiver.receive_bytes(5), bytes(data))

    def test_a_loan_is_filled_in_place_and_sent_once(self):
        loan = self.sender.loan(9188)
        with memoryview(loan) as view:
            view[:] = b"z" * len(view)
            with self.assertRaises(BufferError):
                self.sender.send_loan(loan)
        self.sender.send_loan(loan, 9000)
        with self.assertRaises(ValueError):
            self.sender.send_loan(loan)
        with self.assertRaises(BufferError):
            memoryview(loan)
        self.assertEqual(self.receiver.receive_bytes(5), b"z" * 9000)

    def test_a_loan_of_another_circuit_is_refused(self):
        (other, _), _there = cellway.direct_pair()
        loan = self.sender.loan(100)
        with self.assertRaises(ValueError):
            other.send_loan(loan)
        self.sender.send_loan(loan)

    def test_forgotten_loans_and_sdus_give_their_memory_back(self):
        (sender, _), (_, receiver) = cellway.direct_pair(ring=16, blocks=16)
        for n in range(200):
            del_me = sender.loan(1000, 0)
            del del_me
            sender.send(bytes([n]) * 1000, 0)
            self.assertEqual(bytes(receiver.receive(5)), bytes([n]) * 1000)

    def test_an_sdu_shows_its_memory_until_it_is_released(self):
        self.sender.send(b"q" * 1000)
        sdu = self.receiver.receive(5)
        view = memoryview(sdu)
        self.assertTrue(view.readonly and sdu.may_change and len(sdu) == 1000)
        with self.assertRaises(BufferError):
            sdu.release()
        view.release()
        sdu.release()
        with self.assertRaises(ValueError):
            bytes(sdu)

    def test_an_sdu_outlives_its_closed_circuit(self):
        self.sender.send(b"q" * 1000)
        sdu = self.receiver.receive(5)
        view = memoryview(sdu)
        self.receiver.close()
        self.sender.close()
        del self.sender, self.receiver, sdu
        gc.collect()
        self.assertEqual(bytes(view), b"q" * 1000)

    def test_batches_keep_their_order_and_tell_how_many_there_was_room_for(self):
        (sender, _), (_, receiver) = cellway.direct_pair(ring=64)
        data = [n.to_bytes(2, "big") * 100 for n in range(100)]
        sent = sender.send_batch(data)
        self.assertEqual(sent, 64)
        taken = receiver.receive_batch(40, 5)
        rest = receiver.receive_bytes_batch(100, 5)
        self.assertEqual([bytes(sdu) for sdu in taken] + rest, data[:64])
        self.assertEqual(receiver.receive_batch(10, 0), [])
        with self.assertRaises(ValueError):
            sender.send_batch([b""])

    def test_room_that_does_not_come_in_time_is_full(self):
        (sender, _), (_, receiver) = cellway.direct_pair(ring=16)
        self.assertEqual(sender.send_batch([b"x"] * 20), 16)
        with self.assertRaises(cellway.Full):
            sender.send(b"x", 0)
        with self.assertRaises(cellway.Full):
            sender.send(b"x", 0.01)
        self.assertEqual(receiver.receive_bytes(5), b"x")

    def test_who_waits_lets_other_threads_run_and_another_user_is_refused(self):
        got = []
        waits = threading.Thread(target=lambda: got.append(self.receiver.receive_bytes(30)))
        waits.start()
        # Without the lock given up, this loop would never run before the time-out.
        refused = None
        while refused is None:
            try:
                self.receiver.fileno()
                time.sleep(0.001)
            except RuntimeError as e:
                refused = e
        self.sender.send(b"now")
        waits.join()
        self.assertEqual(got, [b"now"])

    def test_the_end_of_the_other_side_is_told(self):
        self.answerer.close()
        self.receiver.close()
        del self.answerer, self.receiver
        gc.collect()
        with self.assertRaises(cellway.PeerGone):
            self.back.receive(5)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_shows_loans_and_sdus_without_a_copy(self):
        loan = self.sender.loan(8000)
        there = numpy.frombuffer(loan, dtype=">u4")
        there[:] = numpy.arange(2000)
        del there
        self.sender.send_loan(loan)
        sdu = self.receiver.receive(5)
        here = numpy.frombuffer(sdu, dtype=">u4")
        self.assertFalse(here.flags.owndata or here.flags.writeable)
        self.assertEqual(int(here.sum()), 1999 * 1000)
        self.sender.send(numpy.arange(10, dtype="u1"))
        self.assertEqual(self.receiver.receive_bytes(5), bytes(range(10)))

    def test_asyncio_wakes_by_the_descriptor(self):
        async def main():
            async def send():
                for n in range(20):
                    await asyncio.sleep(0)
                    self.sender.send(bytes([n]) * 100)

            sending = asyncio.create_task(send())
            got = []
            async for sdu in aio.sdus(self.receiver):
                got.append(bytes(sdu)[0])
                if len(got) == 20:
                    break
            await sending
            return got

        self.assertEqual(asyncio.run(asyncio.wait_for(main(), 60)), list(range(20)))

    def test_a_service_that_is_not_there_is_named(self):
        with self.assertRaises(cellway.NoService) as caught:
            cellway.Endpoint("alpha", socket="/nowhere/socket")
        self.assertIn("/nowhere/socket", str(caught.exception))
        with self.assertRaises(ValueError):
            cellway.Endpoint("alpha", socket="/nowhere/socket", path="teleport")


def pcapng(records, order="<"):
    """A file of ERF records."""

    def block(kind, body):
        body += bytes(-len(body) % 4)
        octets = 12 + len(body)
        return struct.pack(order + "II", kind, octets) + body + struct.pack(order + "I", octets)

    section = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack(order + "HHI", 197, 0, 0))
    packets = [block(6, struct.pack(order + "5I", 0, 0, 0, len(r), len(r)) + r) for r in records]
    return section + interface + b"".join(packets)


def erf(kind, vpi, vci, pti, payload, seconds=5):
    header = (vpi << 20 | vci << 4 | pti << 1).to_bytes(4, "big")
    head = struct.pack("<QBB", seconds << 32 | 1 << 31, kind, 1) + struct.pack(">HHH", 20 + len(payload), 0, 0)
    return head + header + payload


class Captures(unittest.TestCase):
    def test_cells_and_pdus_are_read_in_either_order_of_octets(self):
        pdu = b"hello" + bytes(35) + struct.pack(">BBHI", 3, 0, 5, 0)
        for order in "<>":
            text = pcapng([erf(3, 1, 100, 1, bytes(48)), erf(2, 0, 0, 0, b""), erf(4, 0, 200, 1, pdu)], order)
            cell, whole = capture.read(io.BytesIO(text))
            self.assertEqual((cell.kind, cell.vpi, cell.vci, cell.pti, cell.interface), ("cell", 1, 100, 1, 1))
            self.assertEqual((whole.kind, whole.vci, whole.sdu, whole.time), ("aal5", 200, b"hello", 5.5))

    def test_a_damaged_file_is_an_error_and_not_a_loop(self):
        text = pcapng([erf(4, 0, 200, 1, bytes(48))])
        for end in range(1, len(text) - 1):
            with self.subTest(end):
                try:
                    list(capture.read(io.BytesIO(text[:end])))
                except capture.CaptureError:
                    pass
        with self.assertRaises(capture.CaptureError):
            list(capture.read(io.BytesIO(b"no capture, but some text")))


@unittest.skipIf(layers is None, "scapy is not installed")
class Layers(unittest.TestCase):
    def test_an_sdu_becomes_cells_and_an_sdu_again(self):
        for octets in [1, 40, 41, 48, 9188]:
            sdu = bytes(n & 255 for n in range(octets))
            cells = list(layers.cells_of(sdu, 1, 100, uu=7))
            self.assertEqual(len(cells), (octets + 8 + 47) // 48)
            again = [layers.ATM(bytes(cell)) for cell in cells]
            self.assertTrue(all(len(bytes(cell)) == 53 for cell in cells))
            ((vpi, vci, pdu),) = layers.pdus_of(again)
            self.assertEqual((vpi, vci, pdu.sdu, pdu.uu, pdu.is_intact()), (1, 100, sdu, 7, True))

    def test_a_damaged_pdu_is_seen(self):
        pdu = bytearray(bytes(layers.AAL5(sdu=b"hello")))
        pdu[0] ^= 1
        self.assertFalse(layers.AAL5(bytes(pdu)).is_intact())

    def test_published_values(self):
        # I.432.1: an idle cell's header, and its HEC; the check value of the CRC catalogue for CRC-32/BZIP2.
        self.assertEqual(layers.hec(bytes([0, 0, 0, 1])), 0x52)
        self.assertEqual(layers.crc32(b"123456789"), 0xFC891918)
        self.assertEqual(layers.crc10(b"123456789"), 0x199)

    def test_an_oam_cell_has_its_crc(self):
        cell = layers.ATM(vpi=0, vci=100, pti=5) / layers.OAM(type=1, function=8, specific=bytes(45))
        again = layers.ATM(bytes(cell))
        self.assertEqual((again[layers.OAM].function, len(bytes(cell))), (8, 53))
        self.assertEqual(layers.crc10(bytes(again.payload)), 0)


if __name__ == "__main__":
    unittest.main()
