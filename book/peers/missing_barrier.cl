kernel void reverse(global const float *in, global float *out)
{
    local float tile[256];
    uint t = get_local_id(0);
    tile[t] = in[t];
    out[t] = tile[255 - t];
}
