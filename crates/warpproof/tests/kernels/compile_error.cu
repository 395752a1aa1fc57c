__global__ void broken(float *out) {
    int unused = 3;
    out[0] = undeclared + 1;
    out[1] = "text";
}
