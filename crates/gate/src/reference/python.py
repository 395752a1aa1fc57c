"""Calls a reference: one function of one file, in a process of its own.

The request is a JSON file that is named on the command line. Inputs come as .npy files, and outputs go to .npy files, all of
them little-endian and by row. With numpy, inputs are numpy arrays. Without it they are memoryviews, which have the same
`shape`, `x[i, j]` and `tolist()`.
"""

import array
import importlib.util
import inspect
import json
import sys

try:
    import resource
except ImportError:
    resource = None
try:
    import numpy
except ImportError:
    numpy = None


def stop(sentence):
    """Ends with one sentence for the user."""
    sys.stderr.write(sentence + "\n")
    sys.exit(3)


def limit(limits):
    """No run may fill the disk or the memory, or outlive its time, whatever it starts."""
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


def read(given):
    if numpy is not None:
        return numpy.load(given["path"], allow_pickle=False)
    values = array.array(given["code"])
    with open(given["path"], "rb") as file:
        head = file.read(10)
        file.seek(10 + int.from_bytes(head[8:10], "little"))
        values.frombytes(file.read())
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


def write(path, value):
    if numpy is not None:
        value = numpy.asarray(value)
        if value.dtype.kind not in "biuf":
            raise TypeError("elements of type %s are no real numbers" % value.dtype)
        numpy.save(path, numpy.ascontiguousarray(value, dtype="<f8").reshape(value.shape), allow_pickle=False)
        return
    if hasattr(value, "tolist"):
        value = value.tolist()
    dims = extents(value)
    values = array.array("d")
    flatten(value, dims, values)
    if sys.byteorder == "big":
        values.byteswap()
    shape = "".join("%d, " % extent for extent in dims)
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }" % shape.rstrip(" ")
    header = header.encode("ascii")
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.write(values.tobytes())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    limit(request["limits"])
    # The user's directory stays as it is.
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("reference", request["file"])
    if spec is None or spec.loader is None:
        stop("the file cannot be loaded as Python: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, request["function"], None)
    if not callable(function):
        stop("the file has no function `%s`" % request["function"])
    arguments = {given["name"]: read(given) for given in request["inputs"]}
    taken = inspect.signature(function).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    for name, extent in request["axes"].items():
        if every or name in taken:
            arguments[name] = extent
    result = function(**arguments)
    if result is None:
        stop("the function returned None; it returns one array, or a dict by output name")
    outputs = request["outputs"]
    if not isinstance(result, dict):
        if len(outputs) != 1:
            names = ", ".join(wanted["name"] for wanted in outputs)
            stop("`%s` must return a dict with %s" % (request["function"], names))
        result = {outputs[0]["name"]: result}
    for wanted in outputs:
        name = wanted["name"]
        if name not in result:
            stop("`%s` returned no `%s`" % (request["function"], name))
        try:
            write(wanted["path"], result[name])
        except (TypeError, ValueError) as cause:
            stop("what `%s` returned for `%s` is no array of numbers: %s" % (request["function"], name, cause))
        except OSError as cause:
            stop("what `%s` returned for `%s` is too large: %s" % (request["function"], name, cause))


main()
