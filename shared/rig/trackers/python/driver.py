"""Drives the Python tracker as its users have it: POST, ten events a request.

    python3 driver.py URL

Commands come as JSON lines on standard input, notices go out the same way.
"""
import json
import sys
import threading

import requests
from snowplow_tracker import (Emitter, PageView, SelfDescribing, SelfDescribingJson,
                              StructuredEvent, Subject, Tracker)

NOTE = 'naïve "quotes" \\ <tags> & 日本 😀 \u2028 end'
out = threading.Lock()


def notice(**members):
    with out:
        print(json.dumps(members), flush=True)


def answered(response, **_):
    if response.status_code != 200:
        notice(failed={"status": response.status_code, "willRetry": True})


def event(n):
    if n % 3 == 0:
        return PageView(page_url=f"https://shop.example/page/{n}?q=a%20b&x=%C3%A9#top", page_title=f"page {n} {NOTE}")
    if n % 3 == 1:
        return StructuredEvent(category="shop", action="add", label=f"label {n} {NOTE}", property_=f"property {n}", value=n + 0.5)
    thing = SelfDescribingJson("iglu:example.shop/thing/jsonschema/1-0-0", {"number": n, "text": NOTE})
    where = SelfDescribingJson("iglu:example.shop/where/jsonschema/1-0-0", {"shelf": n})
    return SelfDescribing(event_json=thing, context=[where])


def main():
    session = requests.Session()
    session.trust_env = False
    session.hooks["response"].append(answered)
    emitter = Emitter(sys.argv[1], on_success=lambda batch: notice(sent=batch), session=session, max_retry_delay_seconds=2)
    tracker = Tracker("sp", emitter, app_id="python", subject=Subject(), encode_base64=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "track":
            for n in range(command["first"], command["first"] + command["count"]):
                tracker.track(event(n))
        elif command["do"] == "flush":
            tracker.flush()
        notice(did=command["do"])


main()
