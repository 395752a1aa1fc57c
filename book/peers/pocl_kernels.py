"""Runs the OpenCL kernels of this directory with PoCL: pocl_kernels.py NAME."""

import sys

import numpy
import pyopencl


def run(name, kernel, threads, group, arrays, *values):
    platform = next(p for p in pyopencl.get_platforms() if "Portable" in p.name)
    context = pyopencl.Context(platform.get_devices())
    queue = pyopencl.CommandQueue(context)
    program = pyopencl.Program(context, open(f"{name}.cl").read()).build()
    flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    buffers = [pyopencl.Buffer(context, flags, hostbuf=array) for array in arrays]
    getattr(program, kernel)(queue, (threads,), (group,), *buffers, *values)
    pyopencl.enqueue_copy(queue, arrays[-1], buffers[-1])
    queue.finish()
    return arrays[-1]


def numbers(count):
    return numpy.arange(count, dtype=numpy.float32)


def zeros(count, kind=numpy.float32):
    return numpy.zeros(count, kind)


name = sys.argv[1]
if name == "missing_barrier":
    out = run(name, "reverse", 256, 256, [numbers(256), zeros(256)])
    print("ends;", int((out != numbers(256)[::-1]).sum()), "of 256 elements are wrong")
elif name == "missing_warp_barrier":
    out = run(name, "swap_neighbors", 32, 32, [numbers(32), zeros(32)])
    print("ends;", int((out != numbers(32).reshape(16, 2)[:, ::-1].ravel()).sum()), "of 32 elements are wrong")
elif name == "blocks_race":
    print("ends; the count of 4 groups is", int(run(name, "count", 128, 32, [zeros(1, numpy.int32)])[0]))
elif name == "out_of_bounds":
    out = run(name, "copy", 1024, 256, [numbers(1000), zeros(1000)])
    print("ends;", int((out != numbers(1000)).sum()), "of 1000 elements are wrong")
elif name == "neighbor":
    print("ends; element 32 is", run(name, "add", 64, 64, [numbers(64), zeros(64)])[32])
elif name == "uninitialized":
    print("ends; element 0 is", run(name, "reverse", 128, 128, [numbers(100), zeros(128)], numpy.uint32(100))[0])
elif name == "divergent_barrier":
    out = run(name, "reverse", 64, 64, [numbers(64), zeros(64)], numpy.uint32(40))
    print("ends;", int((out[:40] != numbers(40)[::-1]).sum()), "of 40 elements are wrong")
