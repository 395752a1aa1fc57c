// Each group of eight lanes sums a row of its own length: the groups leave the loop at different times, and
// shuffles name the lanes of their group only.
// Result: out[r] = sum of row r of in, which has lengths[r] elements of at most 64
//@launch: kernel=ragged_sums grid=1 block=64 arg=in:in:i32[8x64]=randint(-99,99,seed=0) arg=lengths:in:u32[8]=[64,8,1,0,33,17,40,9] arg=out:out:i32[8]

extern "C" __global__ void ragged_sums(const int *in, const unsigned *lengths, int *out)
{
    unsigned row = threadIdx.x / 8, place = threadIdx.x % 8, mask = 0xffu << threadIdx.x % 32 / 8 * 8;
    int total = 0;
    for (unsigned first = 0; first < lengths[row]; first += 8) {
        int value = first + place < lengths[row] ? in[row * 64 + first + place] : 0;
        for (int distance = 4; distance > 0; distance /= 2)
            value += __shfl_xor_sync(mask, value, distance);
        total += value;
    }
    if (place == 0)
        out[row] = total;
}
