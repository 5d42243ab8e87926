#!/usr/bin/env python3
"""Makes golden.jsonl: payloads and their Thrift bytes, encoded by the Thrift
project's own Python library rather than by the code under test.

    pip install thrift==0.25.0 && python3 golden.py > golden.jsonl
"""
import base64
import json
import random

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

FIELDS = [
    (100, "ipAddress"), (200, "timestamp"), (210, "encoding"), (220, "collector"), (300, "userAgent"),
    (310, "refererUri"), (320, "path"), (330, "querystring"), (340, "body"), (350, "headers"),
    (360, "contentType"), (400, "hostname"), (410, "networkUserId"), (31337, "schema"),
]


def encode(payload):
    buffer = TMemoryBuffer()
    out = TBinaryProtocol(buffer)
    out.writeStructBegin("CollectorPayload")
    for number, name in FIELDS:
        value = payload.get(name)
        if value is None:
            continue
        if name == "timestamp":
            out.writeFieldBegin(name, TType.I64, number)
            out.writeI64(value)
        elif name == "headers":
            out.writeFieldBegin(name, TType.LIST, number)
            out.writeListBegin(TType.STRING, len(value))
            for element in value:
                out.writeBinary(element)
            out.writeListEnd()
        else:
            out.writeFieldBegin(name, TType.STRING, number)
            out.writeBinary(value)
        out.writeFieldEnd()
    out.writeFieldStop()
    out.writeStructEnd()
    return buffer.getvalue()


def is_text(value):
    try:
        value.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


def readable(payload):
    out = {}
    for _, name in FIELDS:
        value = payload.get(name)
        if value is None:
            continue
        if name == "timestamp":
            out[name] = value
        elif name == "headers":
            if all(map(is_text, value)):
                out[name] = [v.decode() for v in value]
            else:
                out[name + "Base64"] = [base64.b64encode(v).decode() for v in value]
        elif is_text(value):
            out[name] = value.decode()
        else:
            out[name + "Base64"] = base64.b64encode(value).decode()
    return out


def main():
    rnd = random.Random(20261201)
    alphabet = [b"a", b"=", b"&", b"%20", b"\n", b"\r", b"\x00", b"\x7f", b'"', b"\\", b"<", "é".encode(),
                "\u2028".encode(), "\U0001f600".encode(), b"\xff", b"\xc3", b"\xed\xa0\x80"]

    def text(binary):
        pieces = alphabet if binary else alphabet[:14]
        return b"".join(rnd.choice(pieces) for _ in range(rnd.choice([0, 1, 5, 40])))

    for number in range(40):
        payload = {"timestamp": rnd.choice([0, -1, 1700000000123, 2**63 - 1, -2**63])}
        for _, name in FIELDS:
            if name == "timestamp" or rnd.random() < 0.3:
                continue
            binary = rnd.random() < 0.2
            if name == "headers":
                payload[name] = [text(binary) for _ in range(rnd.choice([0, 1, 2, 7]))]
            else:
                payload[name] = text(binary)
        print(json.dumps({"name": f"random {number}", "payload": readable(payload),
                          "thrift": base64.b64encode(encode(payload)).decode()}, ensure_ascii=True))


main()
