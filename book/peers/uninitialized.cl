kernel void reverse(global const float *in, global float *out, uint n)
{
    local float tile[128];
    uint t = get_local_id(0);
    if (t < n)
        tile[t] = in[t];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[t] = tile[127 - t];
}
