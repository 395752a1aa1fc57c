// Quantizes 512 floats to bytes in shared memory, one byte per thread and turn, and stores them as words.
// Result: out[i] = round(16 * in[i]), limited to -128 ... 127
//@launch: kernel=quantize grid=1 block=128 arg=in:in:f32[512]=randn(seed=0) arg=out:out:i8[512]

extern "C" __global__ void quantize(const float *in, unsigned *out)
{
    __shared__ __align__(4) signed char bytes[512];
    unsigned t = threadIdx.x;
    for (unsigned i = t; i < 512; i += 128) {
        int q = __float2int_rn(16.0f * in[i]);
        bytes[i] = (signed char)max(-128, min(127, q));
    }
    __syncthreads();
    out[t] = ((const unsigned *)bytes)[t];
}
