kernel void reverse(global const float *in, global float *out, uint n)
{
    local float tile[64];
    uint t = get_local_id(0);
    float value = in[t];
    tile[t] = value;
    if (t < n) {
        barrier(CLK_LOCAL_MEM_FENCE);
        value = tile[n - 1 - t];
    }
    out[t] = value;
}
