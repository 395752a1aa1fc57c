// Headers and a kernel that the programs in CUDA C++ share. A test compiles all of them as one file, each in its own namespace.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <thread>
#include <vector>

// The program continues after an error, as one that does not check would.
#define OK(call) (void)(call)

static __global__ void add(int *data, int number) { data[blockIdx.x * blockDim.x + threadIdx.x] += number; }
