kernel void swap_neighbors(global const float *in, global float *out)
{
    local volatile float tile[32];
    uint lane = get_local_id(0);
    tile[lane] = in[lane];
    out[lane] = tile[lane ^ 1];
}
