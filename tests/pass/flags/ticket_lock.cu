// A ticket lock: tickets by atomicAdd, the number being served by acquire loads and release stores.
// Result: order[k] = the ticket k in the order of service; total[0] = 0 + 1 + ... + 7
//@launch: kernel=serve grid=8 block=32 arg=tickets:inout:u32[1]=zeros arg=serving:inout:u32[1]=zeros arg=total:inout:u32[1]=zeros arg=order:out:u32[8]

extern "C" __global__ void serve(unsigned *tickets, unsigned *serving, unsigned *total, unsigned *order)
{
    if (threadIdx.x != 0)
        return;
    unsigned ticket = atomicAdd(tickets, 1), now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(serving) : "memory");
    } while (now != ticket);
    order[ticket] = ticket;
    *total += ticket;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(serving), "r"(ticket + 1) : "memory");
}
