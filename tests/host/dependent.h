// Launches with programmatic stream serialization, for devices of compute capability 9.0.
#pragma once
#include "runtime.h"

#define DEPENDENT(kernel, grid, block, stream_, ...)                                                         \
    do {                                                                                                     \
        cudaLaunchAttribute attribute_ = {};                                                                 \
        attribute_.id = cudaLaunchAttributeProgrammaticStreamSerialization;                                  \
        attribute_.val.programmaticStreamSerializationAllowed = 1;                                           \
        cudaLaunchConfig_t config_ = {};                                                                     \
        config_.gridDim = grid;                                                                              \
        config_.blockDim = block;                                                                            \
        config_.stream = stream_;                                                                            \
        config_.attrs = &attribute_;                                                                         \
        config_.numAttrs = 1;                                                                                \
        OK(cudaLaunchKernelEx(&config_, kernel, __VA_ARGS__));                                               \
    } while (0)
