// Every thread stores the same value into one slot. The stores are not ordered, but whichever comes last the
// slot holds 7: worth a note, not an error.
// Result: out[i] = 7
// Corpus: r16
//@launch: kernel=spread grid=1 block=64 arg=value:i32=7 arg=out:out:i32[64]

extern "C" __global__ void spread(int value, int *out)
{
    __shared__ int slot;
    slot = value; //~ note: shared-race
    __syncthreads();
    out[threadIdx.x] = slot;
}
