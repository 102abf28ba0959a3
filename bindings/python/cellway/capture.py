"""Captures as an iterator: the pcapng files of `cellway capture`, ERF records of cells and of AAL5 PDUs."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import BinaryIO, Literal

__all__ = ["CaptureError", "Record", "read"]

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_LINKTYPE_ERF = 197
_HEAD_OCTETS = 20
_MAX_BLOCK_OCTETS = 1 << 20
_KINDS: dict[int, Literal["cell", "aal5"]] = {3: "cell", 4: "aal5"}


class CaptureError(ValueError):
    """The file is no capture, or a damaged one."""


@dataclass(frozen=True, slots=True)
class Record:
    """A cell, or an AAL5 CPCS-PDU, as it passed a link."""

    time: float
    """Seconds since 1970."""
    kind: Literal["cell", "aal5"]
    interface: int
    """The direction: of which end of the link it came."""
    vpi: int
    vci: int
    pti: int
    """Of a PDU, that of its last cell."""
    clp: bool
    payload: bytes
    """48 octets of a cell; of a PDU all, with padding and trailer."""

    @property
    def sdu(self) -> bytes:
        """The PDU's SDU: as many octets as its trailer says."""
        if self.kind != "aal5" or len(self.payload) < 8:
            raise CaptureError("a cell has no SDU")
        octets = int.from_bytes(self.payload[-6:-4], "big")
        if octets > len(self.payload) - 8:
            raise CaptureError(f"a trailer of {octets} octets in a PDU of {len(self.payload)}")
        return self.payload[:octets]


def read(source: str | PathLike[str] | BinaryIO) -> Iterator[Record]:
    """The records of a file, or of a pipe as they come, such as `cellway capture LINK -`."""
    if hasattr(source, "read"):
        yield from _records(source)  # type: ignore[arg-type]
    else:
        with open(source, "rb") as file:
            yield from _records(file)


def _exactly(file: BinaryIO, octets: int) -> bytes:
    text = file.read(octets)
    while len(text) < octets:
        more = file.read(octets - len(text))
        if not more:
            break
        text += more
    return text


def _records(file: BinaryIO) -> Iterator[Record]:
    order = ""
    erf: list[bool] = []
    while head := _exactly(file, 8):
        if len(head) < 8:
            raise CaptureError("the file ends in a block")
        if struct.unpack("<I", head[:4])[0] == _SECTION:
            magic = _exactly(file, 4)
            order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(magic, "")
            erf = []
        else:
            magic = b""
        if not order:
            raise CaptureError("not a pcapng file")
        kind, octets = struct.unpack(order + "II", head)
        if octets % 4 or not 12 + len(magic) <= octets <= _MAX_BLOCK_OCTETS:
            raise CaptureError(f"a block of {octets} octets")
        body = _exactly(file, octets - 8 - len(magic))
        if len(body) != octets - 8 - len(magic):
            raise CaptureError("the file ends in a block")
        if kind == _INTERFACE:
            erf.append(len(body) >= 12 and struct.unpack_from(order + "H", body)[0] == _LINKTYPE_ERF)
        elif kind == _PACKET and len(body) >= 24:
            interface, _, _, captured, _ = struct.unpack_from(order + "5I", body)
            if interface < len(erf) and erf[interface] and captured <= len(body) - 24:
                record = _record(body[20 : 20 + captured])
                if record is not None:
                    yield record


def _record(erf: bytes) -> Record | None:
    """A record of ERF types 3 and 4; others are passed over."""
    if len(erf) < _HEAD_OCTETS:
        raise CaptureError(f"an ERF record of {len(erf)} octets")
    time, number, flags, octets = struct.unpack_from("<QBB", erf)[:3] + struct.unpack_from(">H", erf, 10)
    kind = _KINDS.get(number & 0x7F)
    if kind is None:
        return None
    if not _HEAD_OCTETS <= octets <= len(erf):
        raise CaptureError(f"an ERF record of {octets} octets in {len(erf)}")
    header = int.from_bytes(erf[16:20], "big")
    return Record(
        time=time / (1 << 32),
        kind=kind,
        interface=flags & 3,
        vpi=header >> 20,
        vci=header >> 4 & 0xFFFF,
        pti=header >> 1 & 7,
        clp=bool(header & 1),
        payload=erf[_HEAD_OCTETS:octets],
    )
