// The FP8 attention kernel n4 at the shape `mission` of tasks/attention.toml: two sequences of 256 rows, 8 heads of 64 elements, with its launch:
//     warpproof check crates/kernels/examples/n4.cu --arch sm_89 --schedules 8
#define HEAD_DIM 64
#define USE_SMEM_SWIZZLE_XOR 1
#define USE_TWO_LEVEL 1
#include "../cuda/n4.cu"
// factor is log2(e) / sqrt(64).
//@launch: kernel=attention grid=4,8,2 block=128 arg=p:{q:{codes:in:e4m3[2x8x256x64]=randn(seed=1), scales:in:f32[16]=0.5, batch_stride:u64=131072, head_stride:u64=16384, row_stride:u64=64, scale_batch:u32=8, scale_head:u32=1, scale_shift:u32=31, reserved:u32=0}, k:{codes:in:e4m3[2x8x256x64]=randn(seed=2), scales:in:f32[16]=0.5, batch_stride:u64=131072, head_stride:u64=16384, row_stride:u64=64, scale_batch:u32=8, scale_head:u32=1, scale_shift:u32=31, reserved:u32=0}, v:{codes:in:e4m3[2x8x256x64]=randn(seed=3), scales:in:f32[16]=0.5, batch_stride:u64=131072, head_stride:u64=16384, row_stride:u64=64, scale_batch:u32=8, scale_head:u32=1, scale_shift:u32=31, reserved:u32=0}, o:out:f16[2x8x256x64], o_batch_stride:u64=131072, o_head_stride:u64=16384, o_row_stride:u64=64, lse:u64=0, query_starts:u64=0, key_starts:u64=0, partial:u64=0, heads:u32=8, group:u32=1, queries:u32=256, keys:u32=256, lse_rows:u32=256, tiles_per_split:u32=4, batches:u32=2, splits:u32=1, factor:f32=0.18033688, epoch:u32=0, window_left:u32=0, window_right:u32=0, cap:f32=0, reserved:u32=0, sinks:u64=0, slopes:u64=0, pages:u64=0, max_pages:u32=0, page_shift:u32=0}
