"""Gives Schemathesis what no API description contains: names of existing items, and matching request bodies.

Half of the valid requests get a run, a job, a segment or an object that exists in the database, and a matching body; the other
half, and all invalid requests, stay as generated.
"""

import collections
import json
import os
import random

import blake3
import schemathesis

with open(os.environ["WARPPROOF_TEST_SEEDS"], encoding="utf-8") as file:
    SEEDS = json.load(file)
SEEN = collections.Counter()


@schemathesis.serializer("application/jsonl")
def lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/octet-stream", "application/jsonl")
def as_it_is(ctx, response):
    return response.content.decode("utf-8", "replace")


@schemathesis.hook
def before_call(ctx, case, kwargs):
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive:
        return
    # Requests wait only briefly for a run: the time is for other requests.
    if isinstance((case.query or {}).get("wait"), int):
        case.query["wait"] = min(case.query["wait"], 1)
    # Every second request of a route, starting with the first. The same seed generates the same names, so that findings can be
    # reproduced.
    route = f"{case.method.upper()} {case.path}"
    SEEN[route] += 1
    if SEEN[route] % 2 == 0:
        return
    dice = random.Random(f"{route} {SEEN[route]}")
    name = next(iter(case.path_parameters or {}), None)
    if route == "POST /v1/runs":
        case.body = dict(dice.choice(SEEDS["submissions"]), run=f"{dice.getrandbits(128):032x}")
    elif route == "POST /v1/claims":
        case.body = dict(case.body, version=SEEDS["version"], capabilities=["software-gpu"], limit=1, worker="fuzz")
    elif route == "POST /v1/heartbeats":
        case.body = {"worker": "seed", "leases": dice.sample(SEEDS["leases"], 2), "lease_seconds": 3600}
    elif route == "POST /v1/tokens":
        case.body = {"name": "fuzz", "roles": ["read"], "quota": 1}
    elif route in ("POST /v1/jobs/{job}/release", "POST /v1/jobs/{job}/failure"):
        lease = dice.choice(SEEDS["leases"])
        case.path_parameters["job"] = lease["job"]
        case.body = dict(case.body, token=lease["token"])
    elif route == "POST /v1/jobs/{job}/result":
        result = dice.choice(SEEDS["results"])
        case.path_parameters["job"] = result["job"]
        case.body = result["outcome"]
    elif route == "PUT /v1/segments/{id}":
        segment = dice.choice(SEEDS["imports"])
        case.path_parameters["id"] = segment["id"]
        case.body = segment["text"]
    elif route == "PUT /v1/objects/{hash}":
        body = dice.randbytes(dice.randrange(100))
        case.path_parameters["hash"] = blake3.blake3(body).hexdigest()
        case.body = body
    elif route == "GET /v1/records/{hash}":
        case.path_parameters["hash"] = dice.choice(SEEDS["records"])
    elif route == "DELETE /v1/tokens/{id}":
        case.path_parameters["id"] = dice.choice(SEEDS["tokens"])
    elif name in ("run", "hash", "id"):
        case.path_parameters[name] = dice.choice(SEEDS[{"run": "runs", "hash": "objects", "id": "segments"}[name]])
