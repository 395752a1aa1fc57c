//! Cooperative launches: the grid's workspace, and grids that are too large.

use warpproof_driver::abi::{Handle, LaunchAttribute, LaunchConfig};
use warpproof_driver::api::{self, In};

use crate::program::{download, from, kernel, null, out, start, upload};
use crate::{answer, ok};

/// Each block stores its number; after a barrier of the grid, each reads that of the next block. The barrier is that of CUDA's
/// cooperative groups: a counter in the workspace whose address is in `%envreg1` and `%envreg2`.
const PTX: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .entry ring(.param .u64 data)
{
    .reg .b64 %rd<8>; .reg .b32 %r<12>; .reg .pred %p<4>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %nctaid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    setp.ne.u32 %p1, %r3, 0;
    cvt.rn.f32.u32 %f1, %r1;
    @!%p1 st.global.f32 [%rd2], %f1;
    mov.u32 %r4, %envreg1;
    mov.u32 %r5, %envreg2;
    mov.b64 %rd3, {%r5, %r4};
    setp.ne.s64 %p2, %rd3, 0;
    @%p2 bra HAS;
    trap;
HAS:
    bar.sync 0;
    @%p1 bra WAITED;
    mov.u32 %r6, 1;
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra ADD;
    sub.u32 %r7, %r2, 1;
    sub.u32 %r6, 0x80000000, %r7;
ADD:
    atom.add.release.gpu.u32 %r8, [%rd3+4], %r6;
POLL:
    ld.acquire.gpu.u32 %r9, [%rd3+4];
    xor.b32 %r10, %r9, %r8;
    setp.ge.s32 %p3, %r10, 0;
    @%p3 bra POLL;
WAITED:
    bar.sync 0;
    @%p1 bra END;
    add.u32 %r11, %r1, 1;
    rem.u32 %r11, %r11, %r2;
    mul.wide.u32 %rd4, %r11, 4;
    add.s64 %rd4, %rd1, %rd4;
    ld.global.f32 %f1, [%rd4];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd5, %rd5, %rd2;
    st.global.f32 [%rd5], %f1;
END:
    ret;
}
";

/// Launches `ring` with `blocks` blocks through `cuLaunchKernelEx`.
fn launch(function: Handle, blocks: u32, data: u64, cooperative: bool) -> u32 {
    let mut value = [0; 16];
    value[0] = u32::from(cooperative);
    let attribute = [LaunchAttribute { id: 2, pad: 0, value }];
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        shared: 0,
        stream: null(),
        attributes: from(&attribute),
        count: 1,
    };
    let arguments = [from(std::slice::from_ref(&data)).cast::<u8>()];
    answer!(api::cuLaunchKernelEx(
        from(std::slice::from_ref(&config)),
        function,
        from(&arguments),
        In::none()
    ))
}

#[test]
fn blocks_wait_for_each_other_and_a_finding_would_fail_the_launch() {
    // SAFETY: this process has one thread yet.
    unsafe { std::env::set_var("WARPPROOF_FAIL", "1") };
    start();
    let ring = kernel(PTX, "ring");
    let data = upload(&[0.0; 16]);
    assert_eq!(launch(ring, 8, data, true), 0);
    // The checks see the order of the blocks: a race would be an error here.
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 16)[8..], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
    let arguments = [from(std::slice::from_ref(&data)).cast::<u8>()];
    ok!(api::cuLaunchCooperativeKernel(ring, 4, 1, 1, 64, 1, 1, 0, null(), from(&arguments)));
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 8)[4..], [1.0, 2.0, 3.0, 0.0]);
}

#[test]
fn a_grid_that_cannot_be_resident_at_once_is_refused() {
    start();
    let ring = kernel(PTX, "ring");
    let data = upload(&[0.0; 16]);
    let (mut blocks, mut multiprocessors) = (0, 0);
    ok!(api::cuOccupancyMaxActiveBlocksPerMultiprocessor(out(&mut blocks), ring, 64, 0));
    ok!(api::cuDeviceGetAttribute(out(&mut multiprocessors), 16, 0));
    let most = u32::try_from(blocks * multiprocessors).unwrap();
    assert_eq!(launch(ring, most + 1, data, true), 720);
    // The context has no error from it.
    ok!(api::cuCtxSynchronize());
}

#[test]
fn a_barrier_of_the_grid_without_a_cooperative_launch_fails() {
    start();
    let ring = kernel(PTX, "ring");
    let data = upload(&[0.0; 16]);
    assert_eq!(launch(ring, 8, data, false), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 719);
}

#[test]
fn a_captured_cooperative_launch_stays_one() {
    start();
    let ring = kernel(PTX, "ring");
    let data = upload(&[0.0; 16]);
    let (mut stream, mut graph, mut executable) = (null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    let arguments = [from(std::slice::from_ref(&data)).cast::<u8>()];
    ok!(api::cuLaunchCooperativeKernel(ring, 8, 1, 1, 64, 1, 1, 0, stream, from(&arguments)));
    ok!(api::cuStreamEndCapture(stream, out(&mut graph)));
    ok!(api::cuGraphInstantiateWithFlags(out(&mut executable), graph, 0));
    ok!(api::cuGraphLaunch(executable, stream));
    ok!(api::cuStreamSynchronize(stream));
    assert_eq!(download(data, 16)[15], 0.0);
    assert_eq!(download(data, 16)[8], 1.0);
}

#[test]
fn a_kernel_node_can_be_cooperative() {
    start();
    let ring = kernel(PTX, "ring");
    let data = upload(&[0.0; 16]);
    let arguments = [from(std::slice::from_ref(&data)).cast::<u8>()];
    let node = warpproof_driver::abi::KernelNodeV2 {
        node: warpproof_driver::abi::KernelNode {
            function: ring,
            grid: [8, 1, 1],
            block: [64, 1, 1],
            shared: 0,
            arguments: from(&arguments),
            extra: In::none(),
        },
        kernel: null(),
        context: null(),
    };
    let (mut graph, mut added, mut executable) = (null(), null(), null());
    ok!(api::cuGraphCreate(out(&mut graph), 0));
    ok!(api::cuGraphAddKernelNode_v2(
        out(&mut added),
        graph,
        In::none(),
        0,
        from(std::slice::from_ref(&node))
    ));
    let (mut value, mut read) = ([0u32; 16], [9u32; 16]);
    ok!(api::cuGraphKernelNodeGetAttribute(added, 2, out(&mut read)));
    assert_eq!(read[0], 0);
    value[0] = 1;
    ok!(api::cuGraphKernelNodeSetAttribute(added, 2, from(std::slice::from_ref(&value))));
    ok!(api::cuGraphKernelNodeGetAttribute(added, 2, out(&mut read)));
    assert_eq!(read[0], 1);
    ok!(api::cuGraphInstantiateWithFlags(out(&mut executable), graph, 0));
    ok!(api::cuGraphLaunch(executable, null()));
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 16)[8], 1.0);
}
