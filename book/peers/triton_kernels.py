"""Two of the defects for Triton's interpreter: TRITON_INTERPRET=1 triton_kernels.py NAME.

A Triton kernel has no threads, shared memory or barriers of its own, so only these two can be written. `Array` is as much
of a PyTorch tensor as the interpreter asks for.
"""

import sys

import numpy
import triton
import triton.language as tl


class Storage:
    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def cpu(self):
        return self

    def copy_(self, other):
        pass


class Array:
    dtype = "float32"

    def __init__(self, array):
        self.array = array
        self.storage = Storage(array)

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        return self.storage

    def new_empty(self, *_, **__):
        return Array(self.array)

    def set_(self, *_):
        return self

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return (1,)


@triton.jit
def copy(source, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i))


@triton.jit
def count(total):
    tl.store(total, tl.load(total) + 1.0)


name = sys.argv[1]
if name == "out_of_bounds":
    # What lies behind the arrays is ours, so that the overrun does no harm here.
    source, out = numpy.arange(2048, dtype=numpy.float32), numpy.zeros(2048, numpy.float32)
    copy[(4,)](Array(source[:1000]), Array(out[:1000]), BLOCK=256)
    print("ends;", int((out[1000:] != 0).sum()), "elements behind the output were overwritten")
elif name == "blocks_race":
    total = numpy.zeros(1, numpy.float32)
    count[(4,)](Array(total))
    print("ends; the count of 4 programs is", int(total[0]))
