// Switches over many cases, one of them a small stack machine, and a jump table by hand (brx.idx, .branchtargets).
// Result: opcode_table  out[i] = case i % 12 of the switch applied to in[i]
//         interpreter   out[t] = the program below on thread t: ((t + 3) * 4 - t) ^ 5
//         jump_table    out[i] = 10, 20, 30 or 40 by in[i] % 4
//@arch: 75+
//@launch: kernel=opcode_table grid=1 block=96 arg=in:u32[96]=randint(seed=0) arg=out:u32[96]
//@launch: kernel=interpreter grid=1 block=32 arg=program:u32[18]=[0,0,1,3,2,0,1,4,4,0,0,0,3,0,1,5,5,0] arg=length:u32=9 arg=out:u32[32]
//@launch: kernel=jump_table grid=1 block=64 arg=in:u32[64]=randint(seed=1) arg=out:u32[64]

extern "C" __global__ void opcode_table(const unsigned *in, unsigned *out)
{
    unsigned x = in[threadIdx.x], y = x;
    switch (threadIdx.x % 12) {
    case 0: y = x * 3; break;
    case 1: y = __popc(x); break;
    case 2: y = __clz(x); break;
    case 3: y = __brev(x); break;
    case 4: y = x / 7; break;
    case 5: y = x % 13; break;
    case 6: y = ~x; break;
    case 7: y = x << 5 | x >> 27; break;
    case 8: y = __ffs(x); break;
    case 9: y = x & (x - 1); [[fallthrough]];
    case 10: y ^= 0x5a5a5a5a; break;
    default: y = 0; break;
    }
    out[threadIdx.x] = y;
}

// An instruction is a pair (opcode, operand): 0 push thread, 1 push operand, 2 add, 3 subtract, 4 multiply, 5 xor,
// 6 duplicate, 7 drop.
extern "C" __global__ void interpreter(const uint2 *program, unsigned length, unsigned *out)
{
    unsigned stack[8], top = 0;
    for (unsigned pc = 0; pc < length; pc++) {
        uint2 instruction = program[pc];
        switch (instruction.x) {
        case 0: stack[top++] = threadIdx.x; break;
        case 1: stack[top++] = instruction.y; break;
        case 2: top--; stack[top - 1] += stack[top]; break;
        case 3: top--; stack[top - 1] -= stack[top]; break;
        case 4: top--; stack[top - 1] *= stack[top]; break;
        case 5: top--; stack[top - 1] ^= stack[top]; break;
        case 6: stack[top] = stack[top - 1]; top++; break;
        case 7: top--; break;
        }
    }
    out[threadIdx.x] = stack[top - 1];
}

extern "C" __global__ void jump_table(const unsigned *in, unsigned *out)
{
    unsigned result;
    asm volatile("{\n\t"
                 "ways: .branchtargets ten, twenty, thirty, forty;\n\t"
                 "brx.idx %1, ways;\n\t"
                 "ten:    mov.u32 %0, 10; bra joined;\n\t"
                 "twenty: mov.u32 %0, 20; bra joined;\n\t"
                 "thirty: mov.u32 %0, 30; bra joined;\n\t"
                 "forty:  mov.u32 %0, 40;\n\t"
                 "joined:\n\t"
                 "}"
                 : "=r"(result)
                 : "r"(in[threadIdx.x] % 4));
    out[threadIdx.x] = result;
}
