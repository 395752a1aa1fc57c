kernel void add(global const float *in, global float *out)
{
    local float x[32], y[32];
    uint t = get_local_id(0);
    if (t < 32) {
        x[t] = in[t];
        y[t] = in[t + 32];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[t] = x[t] + y[t % 32];
}
