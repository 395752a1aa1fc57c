//! Blocks that do the same are followed once: the findings must be those of following each block, whatever one block does
//! differently.

use warpproof_check::{BufferRole, Check, CheckLaunch, Class, Role, Settings};
use warpproof_sim::schedule::Order;
use warpproof_sim::{Device, Level};

/// d = a · bᵀ: a has 96 rows, b 64 rows, both of 64 columns. A block of two warps computes 32 × 16 elements, in four steps of k
/// through shared memory. One block, `bad`, does `how`.
const KERNEL: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u32 pbad, .param .u32 phow) {
.reg .b32 %r<64>; .reg .b64 %a<32>; .reg .f32 %f<16>; .reg .b32 %g, %t, %l, %w, %k, %x, %y, %n, %id; .reg .pred %p<16>;
.shared .align 16 .b8 rows[1024];
.shared .align 16 .b8 columns[512];
ld.param.u64 %a1, [pa]; ld.param.u64 %a2, [pb]; ld.param.u64 %a3, [pd];
ld.param.u32 %r40, [pbad]; ld.param.u32 %r41, [phow];
mov.u32 %id, %tid.x; and.b32 %l, %id, 31; shr.u32 %w, %id, 5; shr.u32 %g, %l, 2; and.b32 %t, %l, 3;
mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y;
mad.lo.u32 %r42, %y, 4, %x; setp.ne.u32 %p0, %r42, %r40; selp.u32 %r41, 0, %r41, %p0;
setp.eq.u32 %p1, %r41, 1; setp.eq.u32 %p2, %r41, 2; setp.eq.u32 %p3, %r41, 3; setp.eq.u32 %p4, %r41, 4;
setp.eq.u32 %p5, %r41, 5; setp.eq.u32 %p6, %r41, 6; setp.eq.u32 %p7, %r41, 7; setp.eq.u32 %p8, %r41, 8;
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
mov.f32 %f5, %f1; mov.f32 %f6, %f1; mov.f32 %f7, %f1; mov.f32 %f8, %f1;
mov.u32 %k, 0; mov.u32 %n, 64; @%p5 mov.u32 %n, 48;
// The place of this thread's 16 bytes of a: row id / 2, half id % 2.
shr.u32 %r1, %id, 1; and.b32 %r2, %id, 1;
mad.lo.u32 %r3, %y, 32, %r1; mad.lo.u32 %r4, %r3, 64, 0; mad.lo.u32 %r4, %r2, 8, %r4; mul.wide.u32 %a4, %r4, 2; add.u64 %a4, %a1, %a4;
mad.lo.u32 %r5, %x, 16, %r1; mad.lo.u32 %r6, %r5, 64, 0; mad.lo.u32 %r6, %r2, 8, %r6; mul.wide.u32 %a5, %r6, 2; add.u64 %a5, %a2, %a5;
mov.u32 %r7, rows; mad.lo.u32 %r8, %id, 16, %r7; mov.u32 %r9, columns; mad.lo.u32 %r10, %id, 16, %r9;
setp.lt.u32 %p9, %id, 32;
// Rows for ldmatrix.
and.b32 %r11, %l, 15; shr.u32 %r12, %l, 4; mad.lo.u32 %r13, %w, 16, %r11; mad.lo.u32 %r13, %r13, 32, %r7; mad.lo.u32 %r13, %r12, 16, %r13;
and.b32 %r14, %l, 7; shr.u32 %r15, %l, 3; and.b32 %r15, %r15, 1; shr.u32 %r16, %l, 4; mad.lo.u32 %r17, %r16, 8, %r14; mad.lo.u32 %r17, %r17, 32, %r9; mad.lo.u32 %r17, %r15, 16, %r17;
LOOP:
mul.wide.u32 %a6, %k, 2; add.u64 %a7, %a4, %a6;
// 2: another tile of k of a in the second step.
setp.eq.u32 %p10, %k, 16; and.pred %p10, %p10, %p2; @%p10 add.u64 %a7, %a7, 32;
// 6: the first tile again.
setp.eq.u32 %p11, %k, 32; and.pred %p11, %p11, %p6; @%p11 mov.u64 %a7, %a4; add.u64 %a8, %a5, %a6; @%p11 mov.u64 %a8, %a5;
cp.async.ca.shared.global [%r8], [%a7], 16;
@%p9 cp.async.ca.shared.global [%r10], [%a8], 16;
cp.async.commit_group; cp.async.wait_group 0;
// 4: no barrier in the last step.
setp.eq.u32 %p12, %k, 48; and.pred %p12, %p12, %p4; @%p12 bra NONE;
bar.sync 0;
NONE:
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r13];
@%p7 bra TURNED;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r24, %r25, %r26, %r27}, [%r17];
bra.uni BOTH;
TURNED:
ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r24, %r25, %r26, %r27}, [%r17];
BOTH:
// 1: registers of a exchanged.
selp.b32 %r30, %r22, %r21, %p1; selp.b32 %r22, %r21, %r22, %p1; mov.b32 %r21, %r30;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f1, %f2, %f3, %f4};
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f8}, {%r20, %r21, %r22, %r23}, {%r26, %r27}, {%f5, %f6, %f7, %f8};
bar.sync 0;
add.u32 %k, %k, 16; setp.lt.u32 %p13, %k, %n; @%p13 bra LOOP;
// Rows y * 32 + w * 16 + g, columns x * 16 + 2 t. 3: columns exchanged. 8: the row of another block.
mad.lo.u32 %r50, %y, 32, %g; mad.lo.u32 %r50, %w, 16, %r50; @%p8 xor.b32 %r50, %r50, 1;
mul.lo.u32 %r51, %t, 2; @%p3 xor.b32 %r51, %r51, 2; mad.lo.u32 %r51, %x, 16, %r51;
mad.lo.u32 %r52, %r50, 64, %r51; mul.wide.u32 %a9, %r52, 4; add.u64 %a9, %a3, %a9;
st.global.f32 [%a9], %f1; st.global.f32 [%a9+4], %f2; st.global.f32 [%a9+2048], %f3; st.global.f32 [%a9+2052], %f4;
st.global.f32 [%a9+32], %f5; st.global.f32 [%a9+36], %f6; st.global.f32 [%a9+2080], %f7; st.global.f32 [%a9+2084], %f8;
ret;
}
";

/// Threads of the host, and the level of its vector instructions.
const HOSTS: [(usize, Level); 3] = [(1, Level::V4), (2, Level::V3), (8, Level::Portable)];

/// The findings as text, of one launch.
fn findings(
    order: Order,
    (threads, level): (usize, Level),
    (bad, how): (u32, u32),
    each_block: bool,
) -> Vec<String> {
    let mut device = Device::new().with_threads(threads).with_level(level.or_below());
    device.schedule.order = order;
    let module = device.load(KERNEL).unwrap();
    let halves = |count: u16| (0..count).map(|i| 0x3c00 + i % 512).collect::<Vec<u16>>();
    let (a, b) = (device.upload(&halves(96 * 64)).unwrap(), device.upload(&halves(64 * 64)).unwrap());
    let d = device.upload(&vec![0f32; 96 * 64]).unwrap();
    let kernel = module.kernel("k").unwrap();
    let launch = kernel.launch().grid([4, 3, 1]).block(64).arg(a).arg(b).arg(d).arg(bad).arg(how);
    let mut settings = Settings { each_block, ..Settings::default() };
    for (name, address, element, rows, role) in [
        ("a", a.address(), 2, 96, Role::In),
        ("b", b.address(), 2, 64, Role::In),
        ("d", d.address(), 4, 96, Role::Out),
    ] {
        let (name, extents, initialized) = (name.to_owned(), vec![rows, 64], role == Role::In);
        settings.buffers.push(BufferRole { name, address, element, extents, role, initialized });
    }
    settings.checks.retain(|check| *check != Check::Output);
    let checked = device.check(&launch, &settings);
    assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    checked
        .findings
        .iter()
        .map(|finding| format!("{:?} {} × {finding}", finding.class, finding.count))
        .collect()
}

#[test]
fn blocks_alike_have_no_findings() {
    for order in [Order::Forward, Order::Reverse, Order::Random(3)] {
        for host in HOSTS {
            assert_eq!(findings(order, host, (0, 0), false), [""; 0]);
        }
        assert_eq!(findings(order, HOSTS[0], (0, 0), true), [""; 0]);
    }
}

#[test]
fn a_block_that_does_something_else_is_found() {
    let class = format!("{:?}", Class::Provenance);
    for how in 1..=8 {
        for bad in [0, 1, 11] {
            for order in [Order::Forward, Order::Random(7)] {
                let each = findings(order, HOSTS[0], (bad, how), true);
                for host in HOSTS {
                    assert_eq!(findings(order, host, (bad, how), false), each, "way {how} of block {bad}");
                }
                // A step of k that is left out in all of a product is not an error of provenance; a missing barrier is a race.
                if ![4, 5].contains(&how) {
                    assert!(each.iter().any(|finding| finding.starts_with(&class)), "{how}: {each:?}");
                }
            }
        }
    }
}
