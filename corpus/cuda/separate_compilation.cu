// Relocatable code: functions and variables of another translation unit, visible, weak and static linkage, C names.
// Cannot be launched by itself: `scale_elsewhere` and `table_elsewhere` are defined nowhere here.
//@arch: 75+
//@options: --relocatable-device-code=true
//@ptxas: --compile-only

extern "C" __device__ float scale_elsewhere(float x, int exponent);
extern __device__ int table_elsewhere[16];
extern __constant__ float limit_elsewhere;

__device__ int exported_counter = 3;
static __device__ int private_counter = 4;

__device__ __noinline__ float exported(float x, const float *p)
{
    return scale_elsewhere(x, (int)*p);
}

static __device__ __noinline__ int internal(int x)
{
    return x * private_counter + table_elsewhere[x & 15];
}

template <typename T> __device__ __noinline__ T inlinable_anywhere(T x)
{
    return x * x + T(1);
}

class Interface {
  public:
    __device__ virtual ~Interface();
    __device__ virtual int value() const { return 1; }
};

__device__ __noinline__ int ask(const Interface *object)
{
    return object->value();
}

__global__ void linked_later(const float *in, float *out, int *counts)
{
    float x = fminf(in[threadIdx.x], limit_elsewhere);
    out[threadIdx.x] = exported(inlinable_anywhere(x), in);
    counts[threadIdx.x] = internal(inlinable_anywhere((int)threadIdx.x)) + atomicAdd(&exported_counter, 1);
}
