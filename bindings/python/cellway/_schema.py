"""Made by `cellway schema | bindings/python/generate-schema`: the types and requests of the management protocol."""
# ruff: noqa
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

VERSION = 2

CallStep: TypeAlias = 'CallStepVariant1 | CallStepVariant2 | CallStepVariant3'
"""A step of a call, one of many in a request ([`Request::Steps`])."""

CallStepVariant1 = TypedDict('CallStepVariant1', {
    'call': 'CallStepVariant1Call',
})
"""As [`Request::Call`], of the request's host. Gives [`StepOutcome::Calling`]."""

CallStepVariant1Call = TypedDict('CallStepVariant1Call', {
    'backward': 'NotRequired[CallTraffic | None]',
    'sap': 'NotRequired[str | None]',
    'to': 'str',
    'traffic': 'NotRequired[CallTraffic | None]',
})

CallStepVariant2 = TypedDict('CallStepVariant2', {
    'accept': 'CallStepVariant2Accept',
})
"""As [`Request::Accept`]. Gives [`StepOutcome::Accepted`]: the circuit, which is there before the caller hears of the answer."""

CallStepVariant2Accept = TypedDict('CallStepVariant2Accept', {
    'call': 'int',
})

CallStepVariant3 = TypedDict('CallStepVariant3', {
    'release': 'CallStepVariant3Release',
})
"""As [`Request::Release`]. Gives [`StepOutcome::Done`]."""

CallStepVariant3Release = TypedDict('CallStepVariant3Release', {
    'call': 'int',
    'cause': 'int',
})

CallTraffic = TypedDict('CallTraffic', {
    'category': 'NotRequired[str]',
    'mbs': 'NotRequired[int | None]',
    'pcr': 'NotRequired[int | None]',
    'scr': 'NotRequired[int | None]',
    'sdu_octets': 'NotRequired[int]',
})
"""A traffic contract in the words of a description, rates in cells each second."""

Circuit = TypedDict('Circuit', {
    'aal': 'NotRequired[str]',
    'back': 'NotRequired[Traffic | None]',
    'category': 'NotRequired[str]',
    'cdvt_us': 'NotRequired[TimeText]',
    'conformance': 'NotRequired[str | None]',
    'discard': 'NotRequired[str]',
    'ends': 'list[str]',
    'flow': 'NotRequired[str]',
    'low_latency': 'NotRequired[bool]',
    'max_cdv_us': 'NotRequired[TimeText | None]',
    'max_ctd_us': 'NotRequired[TimeText | None]',
    'mbs': 'NotRequired[int | None]',
    'mcr': 'NotRequired[RateText | None]',
    'mfs': 'NotRequired[int | None]',
    'oam': 'NotRequired[Oam]',
    'one_way': 'NotRequired[bool]',
    'pcr': 'NotRequired[RateText | None]',
    'scr': 'NotRequired[RateText | None]',
    'via': 'NotRequired[list[str]]',
})
"""`[[circuit]]`"""

Inject = TypedDict('Inject', {
    'from': 'NotRequired[str | None]',
    'link': 'str',
})
"""Where cells are to be put on a link."""

Link = TypedDict('Link', {
    'atmtcp': 'NotRequired[str | None]',
    'carries': 'NotRequired[str]',
    'cdvt_us': 'NotRequired[TimeText | None]',
    'cells_tcp': 'NotRequired[str | None]',
    'cells_udp': 'NotRequired[Udp | None]',
    'delay_us': 'NotRequired[TimeText]',
    'enabled': 'NotRequired[bool]',
    'ends': 'list[str]',
    'faults': 'NotRequired[LinkFaults | None]',
    'follows': 'NotRequired[str | None]',
    'peer_circuits_to': 'NotRequired[str | None]',
    'pseudowire': 'NotRequired[Pseudowire | None]',
    'queue_cells': 'NotRequired[int]',
    'rate': 'NotRequired[str]',
    'real': 'NotRequired[str | None]',
    'signalling': 'NotRequired[Signalling | None]',
    'tcp': 'NotRequired[str | None]',
    'tls': 'NotRequired[LinkTls | None]',
    'udp': 'NotRequired[Udp | None]',
})
"""`[[link]]`"""

LinkFaults = TypedDict('LinkFaults', {
    'corruption': 'NotRequired[float]',
    'duplication': 'NotRequired[float]',
    'loss': 'NotRequired[float]',
    'reordering': 'NotRequired[float]',
    'seed': 'NotRequired[int]',
})
"""`faults = { ... }` of a link: probabilities per cell."""

LinkTls = TypedDict('LinkTls', {
    'certificate': 'str',
    'key': 'str',
    'name': 'NotRequired[str | None]',
    'trust': 'str',
})
"""`tls = { ... }` of a link with `atmtcp`: PEM files, beside the description if their paths are relative."""

MyrinetSend = TypedDict('MyrinetSend', {
    'acknowledged': 'bool',
    'count': 'int',
    'from': 'str',
    'immediate': 'bool',
    'net': 'str',
    'octets': 'int',
    'to': 'list[str]',
})
"""Messages that the traffic generator is to send."""

Oam = TypedDict('Oam', {
    'continuity': 'NotRequired[bool]',
    'monitoring': 'NotRequired[int | None]',
})
"""`oam` of a circuit: what its two ends do from the beginning (I.610)."""

OamAsk = TypedDict('OamAsk', {
    'begin': 'bool',
    'circuit': 'str',
    'host': 'str',
    'subject': 'OamSubject',
})
"""What the other end of a circuit is asked for, both ways."""

OamSubject: TypeAlias = "Literal['continuity'] | OamSubjectVariant2"
"""What can be asked for."""

OamSubjectVariant2 = TypedDict('OamSubjectVariant2', {
    'monitoring': 'OamSubjectVariant2Monitoring',
})
"""Performance monitoring."""

OamSubjectVariant2Monitoring = TypedDict('OamSubjectVariant2Monitoring', {
    'block': 'int',
})

Pseudowire = TypedDict('Pseudowire', {
    'circuit': 'NotRequired[str | None]',
    'control_word': 'NotRequired[bool]',
    'label_in': 'int',
    'label_out': 'int',
    'local': 'str',
    'mode': 'NotRequired[str]',
    'peer': 'str',
})
"""`pseudowire = { ... }` of a link."""

RateText: TypeAlias = 'str | float'
"""A rate of circuits: cells each second, or a text."""

SessionRequest: TypeAlias = "SessionRequestVariant1 | SessionRequestVariant2 | SessionRequestVariant3 | SessionRequestVariant4 | SessionRequestVariant5 | SessionRequestVariant6 | SessionRequestVariant7 | SessionRequestVariant8 | Literal['wait'] | Literal['next'] | SessionRequestVariant11 | Literal['list'] | SessionRequestVariant13 | SessionRequestVariant14 | SessionRequestVariant15 | SessionRequestVariant16"
"""What an application asks."""

SessionRequestVariant1 = TypedDict('SessionRequestVariant1', {
    'listen': 'SessionRequestVariant1Listen',
})
"""Present incoming calls of a host to this session."""

SessionRequestVariant1Listen = TypedDict('SessionRequestVariant1Listen', {
    'host': 'str',
    'sap': 'NotRequired[str | None]',
    'selector': 'NotRequired[int | None]',
})

SessionRequestVariant2 = TypedDict('SessionRequestVariant2', {
    'call': 'SessionRequestVariant2Call',
})
"""Call an address."""

SessionRequestVariant2Call = TypedDict('SessionRequestVariant2Call', {
    'backward': 'NotRequired[CallTraffic | None]',
    'host': 'str',
    'multipoint': 'NotRequired[bool]',
    'sap': 'NotRequired[str | None]',
    'to': 'str',
    'traffic': 'NotRequired[CallTraffic]',
})

SessionRequestVariant3 = TypedDict('SessionRequestVariant3', {
    'take': 'SessionRequestVariant3Take',
})
"""Have a call that was presented to this session, or to another one of the same user: it is this session's from then on. Its circuit is there from then on too, so that it can be opened before the caller hears of the answer."""

SessionRequestVariant3Take = TypedDict('SessionRequestVariant3Take', {
    'call': 'int',
})

SessionRequestVariant4 = TypedDict('SessionRequestVariant4', {
    'accept': 'SessionRequestVariant4Accept',
})
"""Answer a call."""

SessionRequestVariant4Accept = TypedDict('SessionRequestVariant4Accept', {
    'call': 'int',
})

SessionRequestVariant5 = TypedDict('SessionRequestVariant5', {
    'tie': 'SessionRequestVariant5Tie',
})
"""End this connection when the call ends: for a program that is told of the end by its circuit alone."""

SessionRequestVariant5Tie = TypedDict('SessionRequestVariant5Tie', {
    'call': 'int',
})

SessionRequestVariant6 = TypedDict('SessionRequestVariant6', {
    'add_party': 'SessionRequestVariant6AddParty',
})
"""Add a party to a point-to-multipoint call that this session began."""

SessionRequestVariant6AddParty = TypedDict('SessionRequestVariant6AddParty', {
    'call': 'int',
    'to': 'str',
})

SessionRequestVariant7 = TypedDict('SessionRequestVariant7', {
    'drop_party': 'SessionRequestVariant7DropParty',
})
"""Drop a party. The call ends with its last one."""

SessionRequestVariant7DropParty = TypedDict('SessionRequestVariant7DropParty', {
    'call': 'int',
    'cause': 'int',
    'party': 'int',
})

SessionRequestVariant8 = TypedDict('SessionRequestVariant8', {
    'release': 'SessionRequestVariant8Release',
})
"""Refuse a call, or release one."""

SessionRequestVariant8Release = TypedDict('SessionRequestVariant8Release', {
    'call': 'int',
    'cause': 'int',
})

SessionRequestVariant11 = TypedDict('SessionRequestVariant11', {
    'steps': 'SessionRequestVariant11Steps',
})
"""Many steps at once, answered together ([`Answer::Stepped`]) with the events that there are. A step that is refused does not keep others from being taken."""

SessionRequestVariant11Steps = TypedDict('SessionRequestVariant11Steps', {
    'host': 'str',
    'steps': 'list[CallStep]',
    'wait': 'NotRequired[bool]',
})

SessionRequestVariant13 = TypedDict('SessionRequestVariant13', {
    'serve': 'SessionRequestVariant13Serve',
})
"""Signal for a host whose link leaves its side to a program (`by = "program"`): this session is told [`Event::Order`]s."""

SessionRequestVariant13Serve = TypedDict('SessionRequestVariant13Serve', {
    'host': 'str',
})

SessionRequestVariant14 = TypedDict('SessionRequestVariant14', {
    'report': 'SessionRequestVariant14Report',
})
"""What the program that signals for a host says, by any session of its user."""

SessionRequestVariant14Report = TypedDict('SessionRequestVariant14Report', {
    'host': 'str',
    'report': 'SignallingReport',
})

SessionRequestVariant15 = TypedDict('SessionRequestVariant15', {
    'set_address': 'SessionRequestVariant15SetAddress',
})
"""Give such a host an address, or take it away."""

SessionRequestVariant15SetAddress = TypedDict('SessionRequestVariant15SetAddress', {
    'address': 'str',
    'host': 'str',
    'present': 'bool',
})

SessionRequestVariant16 = TypedDict('SessionRequestVariant16', {
    'reset_addresses': 'SessionRequestVariant16ResetAddresses',
})
"""Take all addresses of such a host away."""

SessionRequestVariant16ResetAddresses = TypedDict('SessionRequestVariant16ResetAddresses', {
    'host': 'str',
})

Signalling = TypedDict('Signalling', {
    'addresses': 'NotRequired[list[str]]',
    'by': 'NotRequired[str | None]',
    'ilmi': 'NotRequired[bool]',
    'labels': 'NotRequired[str]',
    'max_calls': 'NotRequired[int]',
    'max_calls_per_second': 'NotRequired[int]',
    'rate': 'NotRequired[str | None]',
    'routes': 'NotRequired[list[str]]',
    'side': 'NotRequired[str | None]',
    'version': 'str',
})
"""`signalling = { ... }` of a link."""

SignallingReport: TypeAlias = 'SignallingReportVariant1 | SignallingReportVariant2 | SignallingReportVariant3 | SignallingReportVariant4'
"""What the program says."""

SignallingReportVariant1 = TypedDict('SignallingReportVariant1', {
    'okay': 'SignallingReportVariant1Okay',
})
"""`as_okay`: what was asked for is there."""

SignallingReportVariant1Okay = TypedDict('SignallingReportVariant1Okay', {
    'circuit': 'NotRequired[str | None]',
    'socket': 'int',
})

SignallingReportVariant2 = TypedDict('SignallingReportVariant2', {
    'failed': 'SignallingReportVariant2Failed',
})
"""`as_error`: it is not, and the program has forgotten it."""

SignallingReportVariant2Failed = TypedDict('SignallingReportVariant2Failed', {
    'errno': 'int',
    'socket': 'int',
})

SignallingReportVariant3 = TypedDict('SignallingReportVariant3', {
    'indicate': 'SignallingReportVariant3Indicate',
})
"""`as_indicate`: somebody calls."""

SignallingReportVariant3Indicate = TypedDict('SignallingReportVariant3Indicate', {
    'circuit': 'str',
    'from': 'NotRequired[str | None]',
    'listener': 'int',
    'sap': 'str',
    'to': 'NotRequired[str | None]',
    'traffic': 'list[CallTraffic]',
})

SignallingReportVariant4 = TypedDict('SignallingReportVariant4', {
    'closed': 'SignallingReportVariant4Closed',
})
"""`as_close`: the listening or call has ended."""

SignallingReportVariant4Closed = TypedDict('SignallingReportVariant4Closed', {
    'errno': 'int',
    'socket': 'int',
})

TimeText: TypeAlias = 'int | str'
"""A time: a number in the key's unit, or a text."""

Traffic = TypedDict('Traffic', {
    'category': 'NotRequired[str]',
    'cdvt_us': 'NotRequired[TimeText]',
    'conformance': 'NotRequired[str | None]',
    'discard': 'NotRequired[str]',
    'low_latency': 'NotRequired[bool]',
    'max_cdv_us': 'NotRequired[TimeText | None]',
    'max_ctd_us': 'NotRequired[TimeText | None]',
    'mbs': 'NotRequired[int | None]',
    'mcr': 'NotRequired[RateText | None]',
    'mfs': 'NotRequired[int | None]',
    'pcr': 'NotRequired[RateText | None]',
    'scr': 'NotRequired[RateText | None]',
})
"""`back = { ... }` of `[[circuit]]`; the same keys stand in `[[circuit]]` for the direction from the first end."""

Udp = TypedDict('Udp', {
    'form': 'NotRequired[str]',
    'header': 'NotRequired[str]',
    'local': 'str',
    'peer': 'str',
})
"""`cells_udp = { ... }` of a link."""

Action: TypeAlias = "Literal['added'] | Literal['replaced'] | Literal['removed'] | Literal['down'] | Literal['up'] | Literal['waiting']"
"""What a command did."""

Deviation = TypedDict('Deviation', {
    'action': 'Action',
    'kind': 'str',
    'name': 'str',
})
"""One difference between a description and its network that a command has made."""

Diagnostic = TypedDict('Diagnostic', {
    'column': 'int',
    'end_column': 'int',
    'end_line': 'int',
    'file': 'str',
    'line': 'int',
    'message': 'str',
})
"""One thing that is wrong. Lines and columns count from 1, columns in characters; the end is the first place beyond."""

Line = TypedDict('Line', {
    'interrupts': 'bool',
    'kind': 'str',
    'name': 'str',
    'verb': 'Verb',
    'what': 'str',
})
"""A line of a plan as a person reads it."""

Verb: TypeAlias = "Literal['add'] | Literal['change'] | Literal['remove']"
"""What a plan does to an object."""

CallEvent: TypeAlias = 'CallEventVariant1 | CallEventVariant2 | CallEventVariant3 | CallEventVariant4 | CallEventVariant5 | CallEventVariant6 | CallEventVariant7'
"""What happened to a call of the session's."""

CallEventVariant1 = TypedDict('CallEventVariant1', {
    'incoming': 'CallEventVariant1Incoming',
})
"""Somebody calls."""

CallEventVariant1Incoming = TypedDict('CallEventVariant1Incoming', {
    'call': 'int',
    'from': 'NotRequired[str | None]',
    'listen': 'int',
    'sap': 'NotRequired[str]',
    'to': 'NotRequired[str | None]',
    'traffic': 'NotRequired[list[CallTraffic]]',
})

CallEventVariant2 = TypedDict('CallEventVariant2', {
    'alerting': 'CallEventVariant2Alerting',
})
"""The called user is alerted."""

CallEventVariant2Alerting = TypedDict('CallEventVariant2Alerting', {
    'call': 'int',
})

CallEventVariant3 = TypedDict('CallEventVariant3', {
    'connected': 'CallEventVariant3Connected',
})
"""The circuit is there."""

CallEventVariant3Connected = TypedDict('CallEventVariant3Connected', {
    'call': 'int',
    'circuit': 'str',
    'host': 'str',
})

CallEventVariant4 = TypedDict('CallEventVariant4', {
    'released': 'CallEventVariant4Released',
})
"""The call is gone, and its circuit."""

CallEventVariant4Released = TypedDict('CallEventVariant4Released', {
    'call': 'int',
    'cause': 'int',
    'text': 'str',
})

CallEventVariant5 = TypedDict('CallEventVariant5', {
    'party_added': 'CallEventVariant5PartyAdded',
})
"""A party was added to a call."""

CallEventVariant5PartyAdded = TypedDict('CallEventVariant5PartyAdded', {
    'call': 'int',
    'party': 'int',
})

CallEventVariant6 = TypedDict('CallEventVariant6', {
    'party_dropped': 'CallEventVariant6PartyDropped',
})
"""A party was refused, or has left."""

CallEventVariant6PartyDropped = TypedDict('CallEventVariant6PartyDropped', {
    'call': 'int',
    'cause': 'int',
    'party': 'int',
    'text': 'str',
})

CallEventVariant7 = TypedDict('CallEventVariant7', {
    'order': 'SignallingOrder',
})
"""The program that signals for a host is to do something."""

CallStatus = TypedDict('CallStatus', {
    'call': 'int',
    'circuit': 'NotRequired[str | None]',
    'from': 'NotRequired[str | None]',
    'host': 'str',
    'outgoing': 'bool',
    'seconds': 'float',
    'state': 'str',
    'to': 'NotRequired[str | None]',
    'user': 'int',
})
"""A call of an application."""

CallsStatus = TypedDict('CallsStatus', {
    'calls': 'list[CallStatus]',
    'failures': 'list[FailureStatus]',
    'interfaces': 'list[InterfaceStatus]',
    'through': 'list[ThroughStatus]',
})
"""All calls of a network."""

FailureStatus = TypedDict('FailureStatus', {
    'called': 'NotRequired[str | None]',
    'cause': 'int',
    'seconds': 'float',
    'switch': 'str',
    'text': 'str',
})
"""A call that failed."""

HopStatus = TypedDict('HopStatus', {
    'conformed': 'int',
    'contract_cells_per_s': 'NotRequired[float | None]',
    'forward': 'bool',
    'jitter_s': 'NotRequired[float | None]',
    'offered': 'int',
    'pdu_dropped': 'int',
    'policed': 'int',
    'queue_dropped': 'int',
    'queued': 'int',
    'rate_cells_per_s': 'NotRequired[float | None]',
    'sent': 'int',
    'switch': 'str',
    'tagged': 'int',
    'to_port': 'int',
})
"""A circuit in one direction at a switch that it passes."""

InterfaceStatus = TypedDict('InterfaceStatus', {
    'addresses': 'list[str]',
    'calls': 'int',
    'dropped': 'NotRequired[int]',
    'esi': 'NotRequired[str | None]',
    'ignored': 'int',
    'labels': 'int',
    'limited': 'int',
    'link_errors': 'NotRequired[int]',
    'port': 'int',
    'program': 'NotRequired[bool]',
    'received': 'int',
    'refused_registrations': 'NotRequired[int]',
    'reported': 'int',
    'sent': 'int',
    'side': 'str',
    'station': 'str',
    'unsent': 'NotRequired[int]',
    'up': 'bool',
    'version': 'str',
})
"""An interface."""

SessionAnswer: TypeAlias = "Literal['done'] | SessionAnswerVariant2 | SessionAnswerVariant3 | SessionAnswerVariant4 | SessionAnswerVariant5 | SessionAnswerVariant6 | SessionAnswerVariant7"
"""The answer to all but [`Request::List`]."""

SessionAnswerVariant2 = TypedDict('SessionAnswerVariant2', {
    'listening': 'SessionAnswerVariant2Listening',
})
"""Calls are presented from now on."""

SessionAnswerVariant2Listening = TypedDict('SessionAnswerVariant2Listening', {
    'addresses': 'list[str]',
    'listen': 'int',
})

SessionAnswerVariant3 = TypedDict('SessionAnswerVariant3', {
    'calling': 'SessionAnswerVariant3Calling',
})
"""The call is being set up."""

SessionAnswerVariant3Calling = TypedDict('SessionAnswerVariant3Calling', {
    'call': 'int',
})

SessionAnswerVariant4 = TypedDict('SessionAnswerVariant4', {
    'taken': 'SessionAnswerVariant4Taken',
})
"""The call is this session's."""

SessionAnswerVariant4Taken = TypedDict('SessionAnswerVariant4Taken', {
    'circuit': 'str',
    'host': 'str',
})

SessionAnswerVariant5 = TypedDict('SessionAnswerVariant5', {
    'adding': 'SessionAnswerVariant5Adding',
})
"""The party is being added."""

SessionAnswerVariant5Adding = TypedDict('SessionAnswerVariant5Adding', {
    'party': 'int',
})

SessionAnswerVariant6 = TypedDict('SessionAnswerVariant6', {
    'events': 'list[CallEvent]',
})
"""What has happened since the last time, perhaps nothing."""

SessionAnswerVariant7 = TypedDict('SessionAnswerVariant7', {
    'stepped': 'SessionAnswerVariant7Stepped',
})
"""To [`Request::Steps`]."""

SessionAnswerVariant7Stepped = TypedDict('SessionAnswerVariant7Stepped', {
    'events': 'list[CallEvent]',
    'outcomes': 'list[StepOutcome]',
})

SignallingOrder: TypeAlias = "SignallingOrderVariant1 | SignallingOrderVariant2 | SignallingOrderVariant3 | SignallingOrderVariant4 | SignallingOrderVariant5 | Literal['readdress']"
"""What the program is to do."""

SignallingOrderVariant1 = TypedDict('SignallingOrderVariant1', {
    'listen': 'SignallingOrderVariant1Listen',
})
"""`as_listen`: indicate calls that fit. [`Report::Okay`] or [`Report::Failed`] follows."""

SignallingOrderVariant1Listen = TypedDict('SignallingOrderVariant1Listen', {
    'address': 'NotRequired[str | None]',
    'listener': 'int',
    'sap': 'str',
})

SignallingOrderVariant2 = TypedDict('SignallingOrderVariant2', {
    'connect': 'SignallingOrderVariant2Connect',
})
"""`as_connect`: call. [`Report::Okay`] or [`Report::Failed`] follows."""

SignallingOrderVariant2Connect = TypedDict('SignallingOrderVariant2Connect', {
    'call': 'int',
    'sap': 'str',
    'to': 'str',
    'traffic': 'list[CallTraffic]',
})

SignallingOrderVariant3 = TypedDict('SignallingOrderVariant3', {
    'accept': 'SignallingOrderVariant3Accept',
})
"""`as_accept`: answer the oldest call that was indicated to a listener; its number is this one from now on. [`Report::Okay`] or [`Report::Failed`] follows."""

SignallingOrderVariant3Accept = TypedDict('SignallingOrderVariant3Accept', {
    'call': 'int',
    'listener': 'int',
})

SignallingOrderVariant4 = TypedDict('SignallingOrderVariant4', {
    'reject': 'SignallingOrderVariant4Reject',
})
"""`as_reject`: refuse the oldest call that was indicated to a listener."""

SignallingOrderVariant4Reject = TypedDict('SignallingOrderVariant4Reject', {
    'listener': 'int',
})

SignallingOrderVariant5 = TypedDict('SignallingOrderVariant5', {
    'close': 'SignallingOrderVariant5Close',
})
"""`as_close`: end a listening or a call, or acknowledge its end."""

SignallingOrderVariant5Close = TypedDict('SignallingOrderVariant5Close', {
    'socket': 'int',
})

StepOutcome: TypeAlias = "Literal['done'] | StepOutcomeVariant2 | StepOutcomeVariant3 | StepOutcomeVariant4"
"""What became of a [`Step`]."""

StepOutcomeVariant2 = TypedDict('StepOutcomeVariant2', {
    'calling': 'StepOutcomeVariant2Calling',
})
"""The call is being set up."""

StepOutcomeVariant2Calling = TypedDict('StepOutcomeVariant2Calling', {
    'call': 'int',
})

StepOutcomeVariant3 = TypedDict('StepOutcomeVariant3', {
    'accepted': 'StepOutcomeVariant3Accepted',
})
"""The call is answered, and its circuit can be opened."""

StepOutcomeVariant3Accepted = TypedDict('StepOutcomeVariant3Accepted', {
    'call': 'int',
    'circuit': 'str',
})

StepOutcomeVariant4 = TypedDict('StepOutcomeVariant4', {
    'refused': 'str',
})
"""It is refused, for this reason."""

ThroughStatus = TypedDict('ThroughStatus', {
    'called': 'NotRequired[str | None]',
    'category': 'str',
    'counters': 'NotRequired[list[HopStatus]]',
    'from': 'str',
    'switch': 'str',
    'to': 'NotRequired[str | None]',
})
"""A call through a switch."""

CircuitRow = TypedDict('CircuitRow', {
    'category': 'str',
    'ends': 'list[EndRow]',
    'hops': 'NotRequired[list[HopStatus]]',
})
"""A circuit in a list."""

EndRow = TypedDict('EndRow', {
    'dropped': 'NotRequired[dict[str, int]]',
    'end': 'str',
    'open': 'NotRequired[str | None]',
    'opener': 'NotRequired[Opener | None]',
    'pdus_received': 'NotRequired[int | None]',
    'pdus_sent': 'NotRequired[int | None]',
})
"""An end of a circuit in a list."""

Opener = TypedDict('Opener', {
    'pid': 'int',
    'program': 'str',
    'uid': 'int',
})
"""Who has something open."""

AlarmStatus = TypedDict('AlarmStatus', {
    'alarm': 'str',
    'defect': 'str',
    'location': 'str',
    'since_s': 'float',
})
"""An alarm of a circuit's end."""

CircuitStatus = TypedDict('CircuitStatus', {
    'aal': 'str',
    'category': 'str',
    'ends': 'list[EndStatus]',
    'hops': 'NotRequired[list[HopStatus]]',
    'name': 'str',
    'one_way': 'bool',
    'pcr_cells_per_s': 'NotRequired[float | None]',
    'way': 'list[str]',
})
"""A circuit."""

CounterStatus = TypedDict('CounterStatus', {
    'cells': 'int',
    'dropped': 'dict[str, int]',
    'octets': 'int',
    'pdus': 'int',
})
"""Counters of cells, PDUs and octets, and of what was dropped by reason."""

EndStatus = TypedDict('EndStatus', {
    'alarms': 'NotRequired[list[AlarmStatus]]',
    'end': 'str',
    'endpoint': 'NotRequired[int | None]',
    'open': 'NotRequired[str | None]',
    'opener': 'NotRequired[Opener | None]',
    'received': 'NotRequired[CounterStatus | None]',
    'sent': 'NotRequired[CounterStatus | None]',
})
"""An end of a circuit."""

AdapterStatus = TypedDict('AdapterStatus', {
    'attached': 'bool',
    'counters': 'dict[str, CounterStatus]',
    'host': 'str',
    'link': 'NotRequired[str | None]',
    'name': 'str',
    'signal': 'bool',
    'socket': 'str',
    'state': 'str',
})
"""A virtual adapter."""

DeskChipStatus = TypedDict('DeskChipStatus', {
    'cache_hits': 'int',
    'cache_misses': 'int',
    'most_stored_cells': 'int',
    'power': 'bool',
    'received': 'list[CounterStatus]',
    'sent': 'list[CounterStatus]',
})
"""A chip."""

DeskPortStatus = TypedDict('DeskPortStatus', {
    'counters': 'dict[str, CounterStatus]',
    'device': 'NotRequired[str | None]',
    'station': 'str',
})
"""What is at a port."""

DeskStatus = TypedDict('DeskStatus', {
    'chips': 'list[DeskChipStatus]',
    'circuit_routes': 'int',
    'former_received': 'CounterStatus',
    'former_sent': 'CounterStatus',
    'lost_routes': 'int',
    'name': 'str',
    'ports': 'dict[str, Any]',
    'shape': 'str',
    'stood_s': 'float',
})
"""A desk-area network."""

DirectionStatus = TypedDict('DirectionStatus', {
    'delivered': 'CounterStatus',
    'intake': 'NotRequired[CounterStatus | None]',
    'promised_cells_per_s': 'float',
    'queued': 'NotRequired[int]',
    'sent': 'CounterStatus',
})
"""A direction of a link."""

EndedStatus = TypedDict('EndedStatus', {
    'kind': 'str',
    'name': 'str',
    'received': 'CounterStatus',
    'seconds': 'float',
    'sent': 'CounterStatus',
})
"""Something that has ended, with its last counters."""

EndpointStatus = TypedDict('EndpointStatus', {
    'channels': 'int',
    'endpoint': 'int',
    'event_counts': 'EventStatus',
    'events': 'str',
    'host': 'str',
    'path': 'str',
    'received': 'CounterStatus',
    'segment_octets': 'int',
    'sent': 'CounterStatus',
    'waiting_sdus': 'NotRequired[int]',
})
"""An endpoint of an application."""

EngineStatus = TypedDict('EngineStatus', {
    'busy_share': 'float',
    'commands': 'int',
    'frames': 'int',
    'frames_in_use': 'int',
    'log_lines_dropped': 'NotRequired[int]',
    'longest_command_s': 'float',
    'longest_recent_round_s': 'NotRequired[float]',
    'longest_round_s': 'NotRequired[float]',
    'longest_round_work': 'NotRequired[str]',
    'rounds': 'int',
    'shards': 'NotRequired[list[ShardStatus]]',
    'sleeps': 'int',
    'uptime_s': 'float',
})
"""The threads that carry everything: sums over the shards, and the longest of each."""

EventStatus = TypedDict('EventStatus', {
    'bells': 'int',
    'doorbells': 'int',
    'rests': 'int',
    'ticks': 'int',
})
"""What an event strategy has done."""

HostStatus = TypedDict('HostStatus', {
    'endpoints': 'int',
    'ip': 'NotRequired[str | None]',
    'max_endpoints': 'int',
})
"""A host."""

KeptStatus = TypedDict('KeptStatus', {
    'log_left_out': 'int',
    'not_kept': 'NotRequired[str | None]',
    'waits': 'bool',
})
"""How it is with what is to outlive the daemon: the state, and the log of changes."""

LinkStatus = TypedDict('LinkStatus', {
    'carries': 'str',
    'cdvt_s': 'NotRequired[float]',
    'circuits': 'int',
    'delay_s': 'float',
    'enabled': 'bool',
    'ends': 'list[str]',
    'from_a': 'DirectionStatus',
    'from_b': 'DirectionStatus',
    'name': 'str',
    'outside': 'NotRequired[str | None]',
    'queue_cells': 'int',
    'rate_cells_per_s': 'NotRequired[float | None]',
    'up': 'bool',
})
"""A link."""

MyrinetHostStatus = TypedDict('MyrinetHostStatus', {
    'address': 'str',
    'mapper': 'NotRequired[str | None]',
    'monitor': 'MyrinetMonitor',
    'name': 'str',
    'plugged': 'NotRequired[str | None]',
    'received': 'CounterStatus',
    'route_count': 'int',
    'routes': 'NotRequired[dict[str, list[int]]]',
    'routes_version': 'int',
    'sent': 'CounterStatus',
})
"""An interface, and the host that it is in."""

MyrinetMap = TypedDict('MyrinetMap', {
    'cables': 'list[list[list[int]]]',
    'hosts': 'dict[str, list[int] | None]',
    'switches': 'int',
})
"""A map as a mapper draws it. Switches have no names on a Myrinet, and ports are distances."""

MyrinetMonitor = TypedDict('MyrinetMonitor', {
    'forwarded': 'int',
    'host_engine_s': 'float',
    'link_stops': 'int',
    'mapping_received': 'CounterStatus',
    'mapping_sent': 'CounterStatus',
    'maps': 'int',
    'packets_received': 'CounterStatus',
    'packets_sent': 'CounterStatus',
    'processor_s': 'float',
    'received': 'CounterStatus',
    'sent': 'CounterStatus',
    'transfers': 'int',
})
"""Monitoring variables of a control program."""

MyrinetPortStatus = TypedDict('MyrinetPortStatus', {
    'packets': 'int',
    'port': 'int',
    'slack_peak': 'int',
    'stops': 'int',
    'timeouts': 'int',
    'to': 'str',
})
"""A port of a switch."""

MyrinetRun = TypedDict('MyrinetRun', {
    'acknowledged': 'bool',
    'count': 'int',
    'damaged': 'int',
    'done': 'bool',
    'from': 'str',
    'immediate': 'bool',
    'mbit_s': 'float',
    'octets': 'int',
    'received': 'int',
    'round_trip_us': 'NotRequired[list[float] | None]',
    'sent': 'int',
    'to': 'list[str]',
    'took_s': 'float',
})
"""A run of the traffic generator."""

MyrinetStatus = TypedDict('MyrinetStatus', {
    'circuit_routes': 'int',
    'hosts': 'list[MyrinetHostStatus]',
    'interrupted_pdus': 'int',
    'map': 'NotRequired[MyrinetMap | None]',
    'map_agrees': 'bool',
    'mapper': 'NotRequired[str | None]',
    'mapping_packets': 'int',
    'mapping_unfound': 'int',
    'name': 'str',
    'overflowed_symbols': 'int',
    'packets': 'CounterStatus',
    'run': 'NotRequired[MyrinetRun | None]',
    'stood_s': 'float',
    'switches': 'list[MyrinetSwitchStatus]',
    'timeouts': 'int',
})
"""A Myrinet."""

MyrinetSwitchStatus = TypedDict('MyrinetSwitchStatus', {
    'name': 'str',
    'ports': 'list[MyrinetPortStatus]',
})
"""A switch."""

ServiceStatus = TypedDict('ServiceStatus', {
    'acceptor_restarts': 'NotRequired[int]',
    'accepts': 'NotRequired[bool]',
    'max_users_octets': 'NotRequired[int]',
    'memory_refusals': 'NotRequired[int]',
    'users_octets': 'NotRequired[int]',
})
"""The service."""

ShardStatus = TypedDict('ShardStatus', {
    'busy_share': 'float',
    'frames': 'int',
    'frames_in_use': 'int',
    'longest_recent_round_s': 'float',
    'longest_round_s': 'float',
    'rounds': 'int',
    'sleeps': 'int',
    'stations': 'list[str]',
})
"""One of the engine's threads, and what it carries."""

StationKind: TypeAlias = "Literal['host'] | Literal['switch'] | Literal['myrinet'] | Literal['desk'] | Literal['outside']"
"""What a name stands for."""

SwitchAlarmStatus = TypedDict('SwitchAlarmStatus', {
    'circuits': 'int',
    'defect': 'str',
    'location': 'str',
    'path': 'NotRequired[int | None]',
    'port': 'int',
    'since_s': 'float',
})
"""A defect at a switch's port, of which it tells circuits by AIS."""

SwitchStatus = TypedDict('SwitchStatus', {
    'alarms': 'NotRequired[list[SwitchAlarmStatus]]',
    'dropped': 'dict[str, int]',
    'max_routes': 'int',
    'name': 'str',
    'port_drops': 'dict[str, Any]',
    'port_queued': 'NotRequired[dict[str, Any]]',
    'ports': 'int',
    'queued': 'NotRequired[int]',
    'routes': 'int',
})
"""A switch."""

MonitoringStatus = TypedDict('MonitoringStatus', {
    'block': 'NotRequired[int | None]',
    'blocks': 'int',
    'cells': 'int',
    'errored_blocks': 'int',
    'errored_parities': 'int',
    'lost': 'int',
    'lost_clp0': 'int',
    'misinserted': 'int',
    'monitoring_lost': 'int',
})
"""What performance monitoring has found in one direction."""

FarEnd = TypedDict('FarEnd', {
    'end': 'str',
    'known': 'bool',
    'open': 'NotRequired[str | None]',
    'received': 'CounterStatus',
    'receives': 'bool',
    'reliable': 'bool',
    'sent': 'CounterStatus',
})
"""A far end."""

PathPoint = TypedDict('PathPoint', {
    'at': 'str',
    'delay_s': 'float',
    'dropped': 'dict[str, int]',
    'enabled': 'bool',
    'link': 'bool',
    'queued': 'int',
    'up': 'bool',
})
"""A link or a switch on a path."""

Changed = TypedDict('Changed', {
    'objects': 'int',
    'revision': 'int',
    'verb': 'str',
    'what': 'list[str]',
    'who': 'str',
})
"""A change that was made."""

Done = TypedDict('Done', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

LinkAdded = TypedDict('LinkAdded', {
    'link': 'str',
    'not_kept': 'NotRequired[str | None]',
})
"""A link was added."""

Applied = TypedDict('Applied', {
    'added': 'int',
    'changed': 'int',
    'changes': 'list[Line]',
    'confirm_seconds': 'NotRequired[int | None]',
    'dropped': 'list[str]',
    'dry_run': 'bool',
    'interrupted': 'list[str]',
    'kept': 'NotRequired[list[Deviation]]',
    'not_kept': 'NotRequired[str | None]',
    'problems': 'NotRequired[list[Diagnostic]]',
    'removed': 'int',
    'revision': 'int',
    'unchanged_circuits': 'int',
})
"""A description was applied, or would be."""

CallsAnswer: TypeAlias = 'CallsStatus | SessionAnswer'
"""What a request about calls is answered with."""

Capturing = TypedDict('Capturing', {
    'epoch_unix_nanos': 'int',
    'link': 'str',
})
"""A capture has begun."""

TrialEnded = TypedDict('TrialEnded', {
    'confirmed': 'bool',
    'not_kept': 'NotRequired[str | None]',
    'revision': 'int',
})
"""The trial of a description has ended."""

Status = TypedDict('Status', {
    'adapters': 'list[AdapterStatus]',
    'circuit_count': 'NotRequired[int]',
    'circuits': 'list[CircuitStatus]',
    'desks': 'NotRequired[list[DeskStatus]]',
    'ended': 'NotRequired[list[EndedStatus]]',
    'endpoints': 'list[EndpointStatus]',
    'engine': 'EngineStatus',
    'hosts': 'dict[str, HostStatus]',
    'links': 'list[LinkStatus]',
    'myrinets': 'NotRequired[list[MyrinetStatus]]',
    'revision': 'int',
    'service': 'NotRequired[ServiceStatus]',
    'state': 'NotRequired[KeptStatus | None]',
    'stations': 'dict[str, StationKind]',
    'stray': 'dict[str, CounterStatus]',
    'switches': 'list[SwitchStatus]',
    'trial_seconds': 'NotRequired[int | None]',
    'version': 'int',
})
"""Everything that is told."""

Exported = TypedDict('Exported', {
    'description': 'str',
    'revision': 'int',
})
"""A network as a description."""

Injected = TypedDict('Injected', {
    'cells': 'int',
    'corrected': 'int',
    'from': 'str',
    'header_errors': 'int',
    'link': 'str',
    'taken': 'int',
})
"""Cells were put on a link."""

OamStatus = TypedDict('OamStatus', {
    'alarms': 'list[AlarmStatus]',
    'circuit': 'str',
    'continuity_checked': 'bool',
    'continuity_sent': 'bool',
    'host': 'str',
    'received': 'NotRequired[MonitoringStatus | None]',
    'refused': 'int',
    'request': 'NotRequired[str | None]',
    'sent': 'NotRequired[MonitoringStatus | None]',
})
"""OAM of one end of a circuit."""

PathStatus = TypedDict('PathStatus', {
    'back': 'list[PathPoint]',
    'call': 'bool',
    'circuit': 'str',
    'far': 'list[FarEnd]',
    'forward': 'list[PathPoint]',
    'host': 'str',
    'received': 'CounterStatus',
    'receives': 'bool',
    'sends': 'bool',
    'sent': 'CounterStatus',
})
"""A circuit as one of its ends sees it."""

LinkRemoved = TypedDict('LinkRemoved', {
    'not_kept': 'NotRequired[str | None]',
    'removed_circuits': 'list[str]',
})
"""A link was removed."""

LinkSet = TypedDict('LinkSet', {
    'enabled': 'bool',
    'link': 'str',
    'not_kept': 'NotRequired[str | None]',
})
"""A link was taken down, or up again."""

WrongRevision = TypedDict('WrongRevision', {
    'changes_since': 'list[Changed]',
    'complete': 'bool',
    'expected_revision': 'int',
    'revision': 'int',
})
"""The expected revision is not the current one: nothing was done."""

StatusAnswer = TypedDict('StatusAnswer', {
    'adapters': 'list[AdapterStatus]',
    'circuit_count': 'NotRequired[int]',
    'circuits': 'list[CircuitStatus]',
    'desks': 'NotRequired[list[DeskStatus]]',
    'ended': 'NotRequired[list[EndedStatus]]',
    'endpoints': 'list[EndpointStatus]',
    'engine': 'EngineStatus',
    'hosts': 'dict[str, HostStatus]',
    'links': 'list[LinkStatus]',
    'myrinets': 'NotRequired[list[MyrinetStatus]]',
    'revision': 'int',
    'service': 'NotRequired[ServiceStatus]',
    'state': 'NotRequired[KeptStatus | None]',
    'stations': 'dict[str, StationKind]',
    'stray': 'dict[str, CounterStatus]',
    'switches': 'list[SwitchStatus]',
    'trial_seconds': 'NotRequired[int | None]',
    'version': 'int',
})
"""Everything that is told."""

OverviewAnswer = TypedDict('OverviewAnswer', {
    'adapters': 'list[AdapterStatus]',
    'circuit_count': 'NotRequired[int]',
    'circuits': 'list[CircuitStatus]',
    'desks': 'NotRequired[list[DeskStatus]]',
    'ended': 'NotRequired[list[EndedStatus]]',
    'endpoints': 'list[EndpointStatus]',
    'engine': 'EngineStatus',
    'hosts': 'dict[str, HostStatus]',
    'links': 'list[LinkStatus]',
    'myrinets': 'NotRequired[list[MyrinetStatus]]',
    'revision': 'int',
    'service': 'NotRequired[ServiceStatus]',
    'state': 'NotRequired[KeptStatus | None]',
    'stations': 'dict[str, StationKind]',
    'stray': 'dict[str, CounterStatus]',
    'switches': 'list[SwitchStatus]',
    'trial_seconds': 'NotRequired[int | None]',
    'version': 'int',
})
"""Everything that is told."""

EndedAnswer = TypedDict('EndedAnswer', {
    'adapters': 'list[AdapterStatus]',
    'circuit_count': 'NotRequired[int]',
    'circuits': 'list[CircuitStatus]',
    'desks': 'NotRequired[list[DeskStatus]]',
    'ended': 'NotRequired[list[EndedStatus]]',
    'endpoints': 'list[EndpointStatus]',
    'engine': 'EngineStatus',
    'hosts': 'dict[str, HostStatus]',
    'links': 'list[LinkStatus]',
    'myrinets': 'NotRequired[list[MyrinetStatus]]',
    'revision': 'int',
    'service': 'NotRequired[ServiceStatus]',
    'state': 'NotRequired[KeptStatus | None]',
    'stations': 'dict[str, StationKind]',
    'stray': 'dict[str, CounterStatus]',
    'switches': 'list[SwitchStatus]',
    'trial_seconds': 'NotRequired[int | None]',
    'version': 'int',
})
"""Everything that is told."""

AddCircuitAnswer = TypedDict('AddCircuitAnswer', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

RemoveCircuitAnswer = TypedDict('RemoveCircuitAnswer', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

AddLinkAnswer = TypedDict('AddLinkAnswer', {
    'link': 'str',
    'not_kept': 'NotRequired[str | None]',
})
"""A link was added."""

RemoveLinkAnswer = TypedDict('RemoveLinkAnswer', {
    'not_kept': 'NotRequired[str | None]',
    'removed_circuits': 'list[str]',
})
"""A link was removed."""

SetLinkAnswer = TypedDict('SetLinkAnswer', {
    'enabled': 'bool',
    'link': 'str',
    'not_kept': 'NotRequired[str | None]',
})
"""A link was taken down, or up again."""

RenameAnswer = TypedDict('RenameAnswer', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

PathAnswer = TypedDict('PathAnswer', {
    'back': 'list[PathPoint]',
    'call': 'bool',
    'circuit': 'str',
    'far': 'list[FarEnd]',
    'forward': 'list[PathPoint]',
    'host': 'str',
    'received': 'CounterStatus',
    'receives': 'bool',
    'sends': 'bool',
    'sent': 'CounterStatus',
})
"""A circuit as one of its ends sees it."""

MyrinetSendAnswer = TypedDict('MyrinetSendAnswer', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

OamAnswer = TypedDict('OamAnswer', {
    'alarms': 'list[AlarmStatus]',
    'circuit': 'str',
    'continuity_checked': 'bool',
    'continuity_sent': 'bool',
    'host': 'str',
    'received': 'NotRequired[MonitoringStatus | None]',
    'refused': 'int',
    'request': 'NotRequired[str | None]',
    'sent': 'NotRequired[MonitoringStatus | None]',
})
"""OAM of one end of a circuit."""

OamAskAnswer = TypedDict('OamAskAnswer', {
    'done': 'bool',
    'not_kept': 'NotRequired[str | None]',
})
"""It is done, and there is nothing to say of it."""

InjectAnswer = TypedDict('InjectAnswer', {
    'cells': 'int',
    'corrected': 'int',
    'from': 'str',
    'header_errors': 'int',
    'link': 'str',
    'taken': 'int',
})
"""Cells were put on a link."""

ApplyAnswer = TypedDict('ApplyAnswer', {
    'added': 'int',
    'changed': 'int',
    'changes': 'list[Line]',
    'confirm_seconds': 'NotRequired[int | None]',
    'dropped': 'list[str]',
    'dry_run': 'bool',
    'interrupted': 'list[str]',
    'kept': 'NotRequired[list[Deviation]]',
    'not_kept': 'NotRequired[str | None]',
    'problems': 'NotRequired[list[Diagnostic]]',
    'removed': 'int',
    'revision': 'int',
    'unchanged_circuits': 'int',
})
"""A description was applied, or would be."""

ResetAnswer = TypedDict('ResetAnswer', {
    'added': 'int',
    'changed': 'int',
    'changes': 'list[Line]',
    'confirm_seconds': 'NotRequired[int | None]',
    'dropped': 'list[str]',
    'dry_run': 'bool',
    'interrupted': 'list[str]',
    'kept': 'NotRequired[list[Deviation]]',
    'not_kept': 'NotRequired[str | None]',
    'problems': 'NotRequired[list[Diagnostic]]',
    'removed': 'int',
    'revision': 'int',
    'unchanged_circuits': 'int',
})
"""A description was applied, or would be."""

ConfirmAnswer = TypedDict('ConfirmAnswer', {
    'confirmed': 'bool',
    'not_kept': 'NotRequired[str | None]',
    'revision': 'int',
})
"""The trial of a description has ended."""

ExportAnswer = TypedDict('ExportAnswer', {
    'description': 'str',
    'revision': 'int',
})
"""A network as a description."""


def _given(all: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in all.items() if v is not None}


class Requests:
    """A method for each request. `expect`: of a change, the revision that it is for."""

    def _ask(self, request: Any, expect: int | None) -> Any:
        raise NotImplementedError

    def status(self, *, expect: int | None = None) -> Status:
        """Everything that `status` shows."""
        return self._ask('status', expect)

    def overview(self, *, expect: int | None = None) -> Status:
        """The same; of many circuits only those that are open or have counted something."""
        return self._ask('overview', expect)

    def ended(self, *, expect: int | None = None) -> Status:
        """The same as `status`, with the counters of circuits, endpoints and links that have ended."""
        return self._ask('ended', expect)

    def circuits(self, *, expect: int | None = None) -> list[CircuitStatus]:
        """All circuits."""
        return self._ask('circuits', expect)

    def circuit_rows(self, *, expect: int | None = None) -> list[CircuitRow]:
        """The same in rows of a list: without ways, and with PDUs alone."""
        return self._ask('circuit_rows', expect)

    def links(self, *, expect: int | None = None) -> list[LinkStatus]:
        """All links."""
        return self._ask('links', expect)

    def add_circuit(self, value: Circuit, *, expect: int | None = None) -> Done:
        """Add a circuit."""
        return self._ask({'add_circuit': value}, expect)

    def remove_circuit(self, *, ends: list[str], expect: int | None = None) -> Done:
        """Remove the circuit of these ends."""
        return self._ask({'remove_circuit': _given({'ends': ends})}, expect)

    def add_link(self, value: Link, *, expect: int | None = None) -> LinkAdded:
        """Add a link."""
        return self._ask({'add_link': value}, expect)

    def remove_link(self, *, name: str, expect: int | None = None) -> LinkRemoved:
        """Remove a link by its name."""
        return self._ask({'remove_link': _given({'name': name})}, expect)

    def set_link(self, *, name: str, up: bool, expect: int | None = None) -> LinkSet:
        """Take a link down, or up again."""
        return self._ask({'set_link': _given({'name': name, 'up': up})}, expect)

    def rename(self, *, from_: str, to: str, expect: int | None = None) -> Done:
        """Give a host or switch another name. What passes is not interrupted."""
        return self._ask({'rename': _given({'from': from_, 'to': to})}, expect)

    def path(self, *, circuit: str, host: str, expect: int | None = None) -> PathStatus:
        """Where a circuit leads from a host, who has its far ends open, and what has been dropped on it. Whoever may open the circuit may ask."""
        return self._ask({'path': _given({'circuit': circuit, 'host': host})}, expect)

    def myrinets(self, *, expect: int | None = None) -> list[MyrinetStatus]:
        """All Myrinets, with their routes."""
        return self._ask('myrinets', expect)

    def myrinet_send(self, value: MyrinetSend, *, expect: int | None = None) -> Done:
        """Send messages over a Myrinet; what comes of it is in `myrinets`."""
        return self._ask({'myrinet_send': value}, expect)

    def oam(self, *, circuit: str, host: str, expect: int | None = None) -> OamStatus:
        """OAM of one end of a circuit."""
        return self._ask({'oam': _given({'circuit': circuit, 'host': host})}, expect)

    def oam_ask(self, value: OamAsk, *, expect: int | None = None) -> Done:
        """Ask the other end of a circuit to begin or end continuity check or monitoring; what comes of it is in `oam`."""
        return self._ask({'oam_ask': value}, expect)

    def inject(self, value: Inject, *, expect: int | None = None) -> Injected:
        """Put cells on a link: 53 octets each, in a sealed memory file that comes along."""
        return self._ask({'inject': value}, expect)

    def apply(self, *, dry_run: bool, folder: str, name: str, text: str, allow_empty: bool | None = None, confirm_seconds: int | None | None = None, exact: bool | None = None, expect: int | None = None) -> Applied:
        """Make the network what a description says."""
        return self._ask({'apply': _given({'dry_run': dry_run, 'folder': folder, 'name': name, 'text': text, 'allow_empty': allow_empty, 'confirm_seconds': confirm_seconds, 'exact': exact})}, expect)

    def reset(self, *, dry_run: bool, expect: int | None = None) -> Applied:
        """Make the network what its description says: without what commands have added, removed, taken down or up."""
        return self._ask({'reset': _given({'dry_run': dry_run})}, expect)

    def confirm(self, *, undo: bool | None = None, expect: int | None = None) -> TrialEnded:
        """End the trial of a description that was applied with `confirm_seconds`."""
        return self._ask({'confirm': _given({'undo': undo})}, expect)

    def export(self, *, expect: int | None = None) -> Exported:
        """The network as a description."""
        return self._ask('export', expect)
