"""Calls a reference function of one file repeatedly, in a separate process.

Warpproof runs this text with `python -I -c`. The first argument is JSON: the file, the function and the limits. Each request
on standard input is a line of JSON, followed by the bytes of the inputs. Each reply on standard output is a line of JSON, followed
by the bytes of the outputs. All numbers are little-endian and by row; outputs are doubles. With numpy, inputs are numpy arrays.
Without it they are memoryviews, which have the same `shape`, `x[i, j]` and `tolist()`.
"""

import array
import importlib.util
import inspect
import json
import os
import sys
import traceback

try:
    import resource
except ImportError:
    resource = None


class Stop(Exception):
    """One sentence for the user."""


def limit(limits):
    """Limits disk and memory of this process and of its children."""
    if resource is None:
        return
    for name, value in (
        ("RLIMIT_FSIZE", limits["file_bytes"]),
        ("RLIMIT_DATA", limits["memory_bytes"]),
        ("RLIMIT_CPU", limits["cpu_seconds"]),
        ("RLIMIT_CORE", 0),
    ):
        which = getattr(resource, name, None)
        if which is not None:
            hard = resource.getrlimit(which)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (value, value))


settings = json.loads(sys.argv[1])
limit(settings["limits"])
# Do not write `__pycache__` to the user's directory.
sys.dont_write_bytecode = True
# Output that the reference prints must not mix with the replies.
requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
nowhere = os.open(os.devnull, os.O_RDWR)
os.dup2(nowhere, 0)
os.dup2(nowhere, 1)

try:
    import numpy
except ImportError:
    numpy = None


def read(given):
    data = bytearray(requests.read(given["bytes"]))
    if numpy is not None:
        kind = {"q": "<i8", "Q": "<u8", "d": "<f8"}[given["code"]]
        return numpy.frombuffer(data, dtype=kind).reshape(given["dims"])
    values = array.array(given["code"])
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    if not values:
        return memoryview(values)
    return memoryview(values).cast("B").cast(given["code"], given["dims"])


def extents(value):
    """The extents of nested lists."""
    dims = []
    while isinstance(value, (list, tuple)):
        dims.append(len(value))
        if not value:
            break
        value = value[0]
    return dims


def flatten(value, dims, into):
    if not dims:
        into.append(float(value))
        return
    if not isinstance(value, (list, tuple)) or len(value) != dims[0]:
        raise ValueError("rows of different lengths")
    for row in value:
        flatten(row, dims[1:], into)


def doubles(value):
    """The extents of a result and its bytes."""
    if numpy is not None:
        value = numpy.asarray(value)
        if value.dtype.kind not in "biuf":
            raise TypeError("expected real numbers, found elements of type %s" % value.dtype)
        return list(value.shape), numpy.ascontiguousarray(value, dtype="<f8").tobytes()
    if hasattr(value, "tolist"):
        value = value.tolist()
    dims = extents(value)
    values = array.array("d")
    flatten(value, dims, values)
    if sys.byteorder == "big":
        values.byteswap()
    return dims, values.tobytes()


def load():
    name = settings["function"]
    spec = importlib.util.spec_from_file_location("reference", settings["file"])
    if spec is None or spec.loader is None:
        raise Stop("expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise Stop("the file has no function `%s`" % name)
    return function


def call(function, request, arguments):
    name = settings["function"]
    taken = inspect.signature(function).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    for axis, extent in request["axes"].items():
        if every or axis in taken:
            arguments[axis] = extent
    result = function(**arguments)
    if result is None:
        raise Stop("expected an array or a dict by output name, found None")
    outputs = request["outputs"]
    if not isinstance(result, dict):
        if len(outputs) != 1:
            raise Stop("`%s` must return a dict with %s" % (name, ", ".join(outputs)))
        result = {outputs[0]: result}
    given, total = [], 0
    for output in outputs:
        if output not in result:
            raise Stop("`%s` returned no `%s`" % (name, output))
        try:
            dims, data = doubles(result[output])
        except (TypeError, ValueError) as cause:
            raise Stop("`%s` must return an array of numbers for `%s`: %s" % (name, output, cause)) from None
        total += len(data)
        if total > request["most"]:
            raise Stop("the array that `%s` returned for `%s` is too large: %s" % (name, output, dims))
        given.append((dims, data))
    return given


def answer(function, request, arguments):
    """The header of a reply, its bytes, and the function for the next request."""
    try:
        if function is None:
            function = load()
        given = call(function, request, arguments)
        return {"outputs": [dims for dims, _ in given]}, [data for _, data in given], function
    except Stop as stop:
        return {"sentence": str(stop)}, [], function
    except BaseException as cause:
        text = traceback.format_exc()[-8000:]
        return {"raised": text, "memory": isinstance(cause, MemoryError)}, [], function


def serve():
    function = None
    while True:
        line = requests.readline()
        if not line:
            return
        request = json.loads(line)
        arguments = {given["name"]: read(given) for given in request["inputs"]}
        header, data, function = answer(function, request, arguments)
        replies.write(json.dumps(header).encode("ascii") + b"\n")
        for one in data:
            replies.write(one)
        replies.flush()


serve()
