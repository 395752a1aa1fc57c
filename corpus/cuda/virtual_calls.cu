// Virtual functions: vtables in global memory, calls through them that diverge within a warp, multiple inheritance.
// Result: virtual_area  out[i] = area of shape i: circle π·s², square s², rectangle s·(s+1), by i % 3, s = in[i]
//         virtual_bases out[i] = 10 * in[i] + 1 through the second base
//@arch: 75+
//@launch: kernel=virtual_area grid=1 block=96 arg=in:f32[96]=iota arg=out:f32[96]
//@launch: kernel=virtual_bases grid=1 block=32 arg=in:i32[32]=iota arg=out:i32[32]

class Shape {
  public:
    __device__ explicit Shape(float side) : side(side) {}
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}

  protected:
    float side;
};

class Circle : public Shape {
  public:
    __device__ explicit Circle(float r) : Shape(r) {}
    __device__ float area() const override { return 3.14159265f * side * side; }
};

class Square : public Shape {
  public:
    __device__ explicit Square(float s) : Shape(s) {}
    __device__ float area() const override { return side * side; }
};

class Rectangle : public Square {
  public:
    __device__ explicit Rectangle(float s) : Square(s) {}
    __device__ float area() const override { return side * (side + 1.0f); }
};

__noinline__ __device__ float area_of(const Shape *shape)
{
    return shape->area();
}

extern "C" __global__ void virtual_area(const float *in, float *out)
{
    float side = in[threadIdx.x];
    Circle circle(side);
    Square square(side);
    Rectangle rectangle(side);
    const Shape *shapes[3] = {&circle, &square, &rectangle};
    out[threadIdx.x] = area_of(shapes[threadIdx.x % 3]);
}

struct Left {
    int a;
    __device__ virtual int left() const { return a; }
};

struct Right {
    int b;
    __device__ virtual int right() const { return b; }
};

struct Both : Left, Right {
    __device__ int left() const override { return a + 1; }
    __device__ int right() const override { return 10 * b + 1; }
};

__noinline__ __device__ int ask(const Right *object)
{
    return object->right();
}

extern "C" __global__ void virtual_bases(const int *in, int *out)
{
    Both both;
    both.a = 0;
    both.b = in[threadIdx.x];
    out[threadIdx.x] = ask(&both);
}
