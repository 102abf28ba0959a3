"""Scapy layers for cells (I.361), AAL5 CPCS-PDUs (I.363.5) and OAM cells (I.610).

Needs scapy: `pip install cellway[scapy]`.
"""

from collections.abc import Iterable, Iterator

from scapy.fields import BitEnumField, BitField, ByteField, IntField, ShortField, StrField
from scapy.packet import Packet, bind_layers

from .capture import Record

__all__ = ["AAL5", "ATM", "OAM", "cells_of", "crc10", "crc32", "hec", "packet", "pdus_of"]

_PTI = {
    0: "user",
    1: "user, last",
    2: "user, congestion",
    3: "user, congestion, last",
    4: "OAM segment",
    5: "OAM end to end",
}
_OAM_TYPES = {1: "fault management", 2: "performance management", 8: "activation", 15: "system management"}


def hec(header: bytes) -> int:
    """Header error control of four octets (I.432.1 section 4.3): CRC-8 and the coset leader."""
    crc = 0
    for octet in header[:4]:
        crc ^= octet
        for _ in range(8):
            crc = (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc ^ 0x55


def crc10(octets: bytes, zero_bits: int = 0) -> int:
    """CRC-10 of OAM cells (I.610 section 10.1), x^10 + x^9 + x^5 + x^4 + x + 1, of octets and so many zero bits."""
    crc = 0
    for octet in octets:
        crc = _crc10_shift(crc ^ octet << 2, 8)
    return _crc10_shift(crc, zero_bits)


def _crc10_shift(crc: int, bits: int) -> int:
    for _ in range(bits):
        crc = (crc << 1 ^ 0x233) & 0x3FF if crc & 0x200 else crc << 1
    return crc


def _crc32_table() -> list[int]:
    table = []
    for n in range(256):
        crc = n << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7) & 0xFFFFFFFF if crc & 0x80000000 else crc << 1
        table.append(crc)
    return table


_CRC32 = _crc32_table()


def crc32(octets: bytes) -> int:
    """CRC-32 of AAL5 (I.363.5 section 9.2.1.2): the most significant bit first, complemented."""
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = (crc << 8 ^ _CRC32[crc >> 24 ^ octet]) & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF


class ATM(Packet):
    """A cell at the NNI, or at the UNI with a GFC of zero: five octets of header, 48 of payload."""

    name = "ATM"
    fields_desc = [
        BitField("vpi", 0, 12),
        BitField("vci", 32, 16),
        BitEnumField("pti", 0, 3, _PTI),
        BitField("clp", 0, 1),
        ByteField("hec", None),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.hec is None:
            pkt = pkt[:4] + bytes([hec(pkt)])
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return s[:48], s[48:]


class OAM(Packet):
    """An OAM cell's payload."""

    name = "OAM"
    fields_desc = [
        BitEnumField("type", 1, 4, _OAM_TYPES),
        BitField("function", 8, 4),
        StrField("specific", b"\x6a" * 45),
        ShortField("crc", None),
    ]

    def do_dissect(self, s: bytes) -> bytes:
        if len(s) < 48:
            return s
        self.fields.update(
            type=s[0] >> 4, function=s[0] & 15, specific=s[1:46], crc=int.from_bytes(s[46:48], "big")
        )
        self.raw_packet_cache = s[:48]
        return s[48:]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.crc is None:
            # Six reserved bits stand before the CRC.
            pkt = pkt[:46] + crc10(pkt[:46], 6).to_bytes(2, "big")
        return pkt + pay


class AAL5(Packet):
    """A CPCS-PDU: the SDU, padding to whole cells, and the trailer. Shows and takes the SDU."""

    name = "AAL5"
    fields_desc = [
        StrField("sdu", b""),
        ByteField("uu", 0),
        ByteField("cpi", 0),
        ShortField("length", None),
        IntField("crc", None),
    ]

    def do_dissect(self, s: bytes) -> bytes:
        if len(s) < 48 or len(s) % 48:
            return s
        length = int.from_bytes(s[-6:-4], "big")
        self.fields.update(
            sdu=s[:length] if length <= len(s) - 8 else s[:-8],
            uu=s[-8], cpi=s[-7], length=length, crc=int.from_bytes(s[-4:], "big"),
        )
        self.raw_packet_cache = s
        return b""

    def self_build(self) -> bytes:
        if self.raw_packet_cache is not None:
            return self.raw_packet_cache
        sdu = bytes(self.sdu)
        length = len(sdu) if self.length is None else self.length
        pdu = sdu + bytes(-(len(sdu) + 8) % 48) + bytes([self.uu, self.cpi]) + length.to_bytes(2, "big")
        return pdu + (crc32(pdu) if self.crc is None else self.crc).to_bytes(4, "big")

    def is_intact(self) -> bool:
        """Whether the CRC and the length are right."""
        pdu = bytes(self)
        return crc32(pdu[:-4]) == int.from_bytes(pdu[-4:], "big") and 0 <= len(pdu) - 8 - len(self.sdu) < 48


bind_layers(ATM, OAM, pti=4)
bind_layers(ATM, OAM, pti=5)


def packet(record: Record) -> Packet:
    """A capture's record as layers."""
    if record.kind == "aal5":
        return AAL5(record.payload)
    header = record.vpi << 20 | record.vci << 4 | record.pti << 1 | record.clp
    head = header.to_bytes(4, "big")
    return ATM(head + bytes([hec(head)]) + record.payload)


def cells_of(sdu: bytes, vpi: int, vci: int, uu: int = 0) -> Iterator[Packet]:
    """The cells of an SDU by AAL5."""
    pdu = bytes(AAL5(sdu=sdu, uu=uu))
    for at in range(0, len(pdu), 48):
        yield ATM(vpi=vpi, vci=vci, pti=int(at + 48 == len(pdu))) / pdu[at : at + 48]


def pdus_of(cells: Iterable[Packet]) -> Iterator[tuple[int, int, AAL5]]:
    """The PDUs that user cells of mixed circuits make up: VPI, VCI, PDU. A PDU of more than 1366 cells is dropped."""
    parts: dict[tuple[int, int], bytes] = {}
    for cell in cells:
        if cell.pti >= 4:
            continue
        circuit = (cell.vpi, cell.vci)
        octets = parts.pop(circuit, b"") + bytes(cell.payload)[:48]
        if cell.pti & 1:
            yield (*circuit, AAL5(octets))
        elif len(octets) < 1366 * 48:
            parts[circuit] = octets
