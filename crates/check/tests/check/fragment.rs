//! Provenance of fragment elements: d = a · bᵀ of one tile, with layout bugs that the hardware does not detect.

use warpproof_check::{BufferRole, Check, CheckLaunch, Class, Finding, Role, Settings};
use warpproof_sim::Device;

/// Declarations, and the lane's row `%g` and column `%t` of the layout.
const HEAD: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u64 px) {
.reg .b32 %r<32>; .reg .b64 %a<32>; .reg .f32 %f<8>; .reg .b32 %g, %t, %l;
.shared .align 16 .b8 tile[512];
ld.param.u64 %a1, [pa]; ld.param.u64 %a2, [pb]; ld.param.u64 %a3, [pd]; ld.param.u64 %a8, [px];
mov.u32 %l, %tid.x; shr.u32 %g, %l, 2; and.b32 %t, %l, 3;
mov.f32 %f0, 0f00000000;
";
/// `%r0` to `%r3`: the four quarters of A, by hand. Rows of 32 bytes.
const LOAD_A: &str = "
mad.lo.u32 %r20, %g, 8, %t; mul.wide.u32 %a4, %r20, 4; add.u64 %a4, %a1, %a4;
ld.global.u32 %r0, [%a4]; ld.global.u32 %r1, [%a4+256]; ld.global.u32 %r2, [%a4+16]; ld.global.u32 %r3, [%a4+272];
";
/// `%r4` and `%r5`: the two halves of B, stored by columns.
const LOAD_B: &str = "
mad.lo.u32 %r21, %g, 8, %t; mul.wide.u32 %a5, %r21, 4; add.u64 %a5, %a2, %a5;
ld.global.u32 %r4, [%a5]; ld.global.u32 %r5, [%a5+16];
";
/// Stores the accumulators to their correct elements.
const STORE: &str = "
mad.lo.u32 %r22, %g, 4, %t; mul.wide.u32 %a6, %r22, 8; add.u64 %a6, %a3, %a6;
st.global.f32 [%a6], %f1; st.global.f32 [%a6+4], %f2; st.global.f32 [%a6+256], %f3; st.global.f32 [%a6+260], %f4;
";

fn mma(a: [u32; 4], b: [u32; 2]) -> String {
    format!(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r{}, %r{}, %r{}, %r{}}}, \
         {{%r{}, %r{}}}, {{%f0, %f0, %f0, %f0}};\n",
        a[0], a[1], a[2], a[3], b[0], b[1]
    )
}

/// Runs a kernel on a of 16 × 16, b of the given extents and d of 16 × 8.
fn findings(body: &[&str], b: [u64; 2]) -> Vec<Finding> {
    let ptx = format!("{HEAD}{}\nret;\n}}\n", body.concat());
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let kernel = module.kernel("k").unwrap();
    let mut launch = kernel.launch().grid(1).block(32);
    let mut settings = Settings { checks: vec![Check::Provenance], ..Settings::default() };
    let halves: Vec<u16> = (0..256).map(|i| 0x3c00 + i).collect();
    let (a, second) = (device.upload(&halves).unwrap(), device.upload(&halves[..128]).unwrap());
    let (d, index) = (device.upload(&[0f32; 128]).unwrap(), device.upload(&[0u32; 32]).unwrap());
    launch = launch.arg(a).arg(second).arg(d).arg(index);
    for (name, address, element, extents, role) in [
        ("a", a.address(), 2, [16, 16], Role::In),
        ("b", second.address(), 2, b, Role::In),
        ("d", d.address(), 4, [16, 8], Role::Out),
    ] {
        let (name, extents) = (name.to_owned(), extents.to_vec());
        let initialized = role == Role::In;
        settings.buffers.push(BufferRole { name, address, element, extents, role, initialized });
    }
    let checked = device.check(&launch, &settings);
    assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    checked.findings
}

/// The instruction and the sentence of the only finding, which must be of class `Provenance`.
fn one(body: &[&str], b: [u64; 2]) -> (String, String) {
    let found = findings(body, b);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].class, Class::Provenance);
    (found[0].places[0].place.instruction.clone(), found[0].sentence.clone())
}

const BY_COLUMNS: [u64; 2] = [8, 16];

#[test]
fn a_product_in_order_is_silent() {
    let found = findings(&[LOAD_A, LOAD_B, &mma([0, 1, 2, 3], [4, 5]), STORE], BY_COLUMNS);
    assert_eq!(found, []);
}

#[test]
fn registers_of_a_exchanged() {
    let (at, sentence) = one(&[LOAD_A, LOAD_B, &mma([0, 2, 1, 3], [4, 5]), STORE], BY_COLUMNS);
    assert!(at.starts_with("mma"), "{at}");
    assert_eq!(
        sentence,
        "thread (0,0,0) of block (0,0,0) holds a[8][0] as element (0,8) of A, expected a[0][8]"
    );
}

#[test]
fn halves_of_k_exchanged_in_both_or_in_one() {
    let found = findings(&[LOAD_A, LOAD_B, &mma([2, 3, 0, 1], [5, 4]), STORE], BY_COLUMNS);
    assert_eq!(found, [], "both use the same order of k");
    let (at, sentence) = one(&[LOAD_A, LOAD_B, &mma([2, 3, 0, 1], [4, 5]), STORE], BY_COLUMNS);
    assert!(at.starts_with("mma") && sentence.starts_with("A and B use different orders of k"), "{sentence}");
}

#[test]
fn tags_go_through_packing_conversion_and_selection() {
    // Convert both halves to f32, scale them, convert them back to f16 and pack them again.
    let through = "
.reg .b16 %h<4>; .reg .f32 %x<4>; .reg .pred %p;
mov.b32 {%h0, %h1}, %r2; cvt.f32.f16 %x0, %h0; cvt.f32.f16 %x1, %h1;
mul.f32 %x0, %x0, 0f40000000; mul.f32 %x1, %x1, 0f40000000;
cvt.rn.f16x2.f32 %r6, %x1, %x0;
setp.lt.u32 %p, %l, 16; selp.b32 %r6, %r6, %r6, %p;
shr.u32 %r7, %r6, 16; shl.b32 %r8, %r6, 16; or.b32 %r9, %r7, %r8; prmt.b32 %r6, %r9, %r9, 0x1032;
";
    let found = findings(&[LOAD_A, LOAD_B, through, &mma([0, 1, 6, 3], [4, 5]), STORE], BY_COLUMNS);
    assert_eq!(found, []);
    let (_, sentence) = one(&[LOAD_A, LOAD_B, through, &mma([0, 6, 1, 3], [4, 5]), STORE], BY_COLUMNS);
    assert!(sentence.contains("holds a[8][0] as element (0,8) of A"), "{sentence}");
}

/// Stores B by rows to shared memory and loads it with `ldmatrix`.
fn by_rows(trans: &str) -> String {
    format!(
        "mul.wide.u32 %a5, %l, 8; add.u64 %a5, %a2, %a5; ld.global.v2.u32 {{%r10, %r11}}, [%a5];
mov.u32 %r12, tile; mad.lo.u32 %r13, %l, 8, %r12; st.shared.v2.u32 [%r13], {{%r10, %r11}};
bar.warp.sync 0xffffffff;
and.b32 %r14, %l, 15; mad.lo.u32 %r15, %r14, 16, %r12;
ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r4, %r5}}, [%r15];
"
    )
}

#[test]
fn ldmatrix_with_and_without_trans() {
    let product = mma([0, 1, 2, 3], [4, 5]);
    let found = findings(&[LOAD_A, &by_rows(".trans"), &product, STORE], [16, 8]);
    assert_eq!(found, []);
    let (at, sentence) = one(&[LOAD_A, &by_rows(""), &product, STORE], [16, 8]);
    assert!(at.starts_with("mma"), "{at}");
    assert!(sentence.contains("holds b[0][1] as element (1,0) of B, expected b[1][0]"), "{sentence}");
}

#[test]
fn accumulators_in_the_columns_of_a() {
    let store = "
mad.lo.u32 %r22, %g, 8, %t; mul.wide.u32 %a6, %r22, 4; add.u64 %a6, %a3, %a6;
st.global.f32 [%a6], %f1; st.global.f32 [%a6+16], %f2; st.global.f32 [%a6+256], %f3; st.global.f32 [%a6+272], %f4;
";
    let (at, sentence) = one(&[LOAD_A, LOAD_B, &mma([0, 1, 2, 3], [4, 5]), store], BY_COLUMNS);
    assert!(at.starts_with("st.global"), "{at}");
    assert!(
        sentence.contains("stores the accumulator of row 0 of a and row 1 of b to d[0][4]"),
        "{sentence}"
    );
}

#[test]
fn a_data_dependent_address_is_ignored() {
    let gather = "
mul.wide.u32 %a9, %l, 4; add.u64 %a9, %a8, %a9; ld.global.u32 %r23, [%a9];
mul.wide.u32 %a10, %r23, 4; add.u64 %a1, %a1, %a10;
";
    let found = findings(&[gather, LOAD_A, LOAD_B, &mma([0, 2, 1, 3], [4, 5]), STORE], BY_COLUMNS);
    assert_eq!(found, []);
}

#[test]
fn the_other_operand_of_a_constant_is_not_reported() {
    let ones = "mov.b32 %r4, 0x3c003c00; mov.b32 %r5, 0x3c003c00;\n";
    let found = findings(&[LOAD_A, ones, &mma([0, 2, 1, 3], [4, 5])], BY_COLUMNS);
    assert_eq!(found, []);
}
