#!/usr/bin/env python3
"""Sign one delivery as Standard Webhooks v1 and post it; standard library only.

    send-webhook.py URL SECRET-FILE JSON

URL is http://127.0.0.1:7371/hooks/NAME, and SECRET-FILE holds the whsec_ line
that `seedbed hook add NAME` printed. A delivery without an answer can be sent
again with the same id (WEBHOOK_ID in the environment). It never creates a second
instance. Exit status 0 means that the job is on disk (202).
"""

import base64
import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.request
import uuid


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    url, secret_file, body = sys.argv[1], sys.argv[2], sys.argv[3].encode()
    with open(secret_file, encoding="ascii") as f:
        key = base64.b64decode(f.read().strip().removeprefix("whsec_"), validate=True)
    msg_id = os.environ.get("WEBHOOK_ID") or "msg_" + uuid.uuid4().hex
    timestamp = str(int(time.time()))
    signed = b".".join([msg_id.encode(), timestamp.encode(), body])
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    request = urllib.request.Request(url, data=body, method="POST", headers={
        "Content-Type": "application/json",
        "webhook-id": msg_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": "v1," + signature,
    })
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            print(answer.read().decode())
            return 0 if answer.status == 202 else 1
    except urllib.error.HTTPError as err:
        print(err.read().decode(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
