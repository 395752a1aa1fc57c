import numpy, triton, triton.language as tl, warpproof, warpproof.triton

@triton.jit
def sum_of(x, total, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    part = tl.sum(tl.load(x + i))
    tl.store(total, tl.load(total) + part)

warpproof.triton.install()
with warpproof.check() as report:
    sum_of[(4,)](numpy.ones(256, "float32"), numpy.zeros(1, "float32"), SIZE=64)
print(report)
