// Bitonic sort of 256 integers. In each step one thread of a pair compares and exchanges; a barrier ends the
// step.
// Result: out = in in ascending order
//@launch: kernel=sort grid=1 block=256 arg=in:in:i32[256]=randint(-999,999,seed=0) arg=out:out:i32[256]

extern "C" __global__ void sort(const int *in, int *out)
{
    __shared__ int keys[256];
    unsigned t = threadIdx.x;
    keys[t] = in[t];
    for (unsigned size = 2; size <= 256; size *= 2) {
        for (unsigned distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            unsigned partner = t ^ distance;
            if (partner > t) {
                int low = keys[t], high = keys[partner];
                bool ascending = (t & size) == 0;
                if (low > high == ascending) {
                    keys[t] = high;
                    keys[partner] = low;
                }
            }
        }
    }
    __syncthreads();
    out[t] = keys[t];
}
