"""CUDA C++ kernels, compiled and launched by cuda.core, against numpy."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
extern "C" __global__ void scale(float *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= factor;
}

extern "C" __global__ void reverse(float *x, int n)
{
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

extern "C" __global__ void warp_sum(float *x, float *out)
{
    float value = x[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    if (threadIdx.x == 0)
        *out = value;
}

extern "C" __global__ void shift(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 2 * x[i]; // planted: no test of i against n
}

extern "C" __global__ void count(int *counter)
{
    atomicAdd(counter, 1);
}
"""


@pytest.fixture(scope="module")
def kernels():
    device = Device()
    device.set_current()
    options = ProgramOptions(arch=f"sm_{device.arch}", lineinfo=True)
    module = Program(SOURCE, code_type="c++", options=options).compile("ptx")
    return device, module


def run(kernels, name, grid, block, arrays, *numbers, shared=0):
    """Copies arrays to the device, launches a kernel, copies them back."""
    device, module = kernels
    device.set_current()
    stream = device.create_stream()
    buffers = []
    for array in arrays:
        buffer = device.allocate(array.nbytes, stream=stream)
        (error,) = driver.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, array.nbytes)
        assert error == 0
        buffers.append(buffer)
    config = LaunchConfig(grid=grid, block=block, shmem_size=shared)
    launch(stream, config, module.get_kernel(name), *buffers, *numbers)
    stream.sync()
    for array, buffer in zip(arrays, buffers):
        (error,) = driver.cuMemcpyDtoH(array.ctypes.data, int(buffer.handle), array.nbytes)
        assert error == 0
        buffer.close(stream)


@pytest.mark.parametrize("n", [1, 64, 200])
def test_scale(kernels, n):
    x = np.arange(n, dtype=np.float32)
    run(kernels, "scale", (n + 63) // 64, 64, [x], ctypes.c_float(3), ctypes.c_int(n))
    np.testing.assert_array_equal(x, 3 * np.arange(n))


@pytest.mark.parametrize("n", [32, 100])
def test_reverse(kernels, n):
    x = np.arange(n, dtype=np.float32)
    run(kernels, "reverse", 1, n, [x], ctypes.c_int(n), shared=4 * n)
    np.testing.assert_array_equal(x, np.arange(n)[::-1])


def test_warp_sum(kernels):
    x, out = np.arange(32, dtype=np.float32), np.zeros(1, np.float32)
    run(kernels, "warp_sum", 1, 32, [x, out])
    assert out[0] == 496


def test_shift(kernels):
    x = np.arange(100, dtype=np.float32)
    try:
        run(kernels, "shift", 2, 64, [x], ctypes.c_int(100))
    except Exception:
        # On a GPU this access is not noticed.
        pass


@pytest.mark.parametrize("blocks", [1, 5])
def test_count(kernels, blocks):
    counter = np.zeros(1, np.int32)
    run(kernels, "count", blocks, 32, [counter])
    assert counter[0] == 32 * blocks


@pytest.mark.warpproof(checks="none")
def test_unchecked(kernels):
    x = np.ones(8, np.float32)
    run(kernels, "scale", 1, 8, [x], ctypes.c_float(2), ctypes.c_int(8))
    np.testing.assert_array_equal(x, 2)
