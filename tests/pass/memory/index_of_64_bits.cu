// One shard of a tensor of 2^32 elements and more: row · columns is computed in 64 bits.
// Corpus: m09
//@launch: kernel=scale_rows grid=4 block=64 arg=shard:inout:f32[256]=ones arg=first_row:u32=131072 arg=columns:u32=32768 arg=first:u64=4294967296

extern "C" __global__ void scale_rows(float *shard, unsigned first_row, unsigned columns, unsigned long long first)
{
    unsigned row = first_row, column = blockIdx.x * 64 + threadIdx.x;
    unsigned long long index = (unsigned long long)row * columns + column;
    shard[index - first] *= 2.0f;
}
