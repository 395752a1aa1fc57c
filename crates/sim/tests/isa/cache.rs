//! Cache hints.

use crate::harness::Column;
use crate::sync::Grid;
use warpproof_sim::StopKind;

/// 64 threads over 128 bytes each: the first source is 1024 values long.
fn lines() -> [(&'static str, Column); 1] {
    [("b64", (0..1024).collect())]
}

#[test]
fn hints_change_no_value() {
    let body = ".reg .b64 %a; .shared .b32 cell; ld.param.u64 %a, [in0]; shl.b64 %p, %o, 4; add.u64 %a, %a, %p;
        prefetch.global.L1 [%a]; prefetch.L2 [%a+8]; prefetch.local.L2 [%x]; prefetch.global.L2::evict_last [%a];
        prefetch.global.L2::evict_normal [%a]; prefetchu.L1 [%a];
        applypriority.global.L2::evict_normal [%a], 128; applypriority.L2::evict_normal [%a], 128;
        discard.global.L2 [%a], 128; discard.L2 [%a], 128;
        ld.global.b64 %d0, [%a];";
    let got = Grid::block(64).run(body, &["b64"], &lines()).unwrap();
    assert_eq!(got[0], (0..64).map(|t| 16 * t).collect::<Column>());
    // An unmapped address can be prefetched; so can shared memory, without effect.
    let body = ".reg .b64 %a; .shared .b32 cell; mov.u64 %a, 16; prefetch.global.L1 [%a]; prefetchu.L1 [%a];
        mov.u64 %a, cell; cvta.shared.u64 %a, %a; prefetch.L1 [%a]; mov.u32 %d0, 3;";
    assert_eq!(Grid::block(32).column(body), vec![3; 32]);
    let body = "prefetch.tensormap [%o]; prefetch.param.tensormap [out0]; mov.u32 %d0, 4;";
    assert_eq!(Grid::hopper(32).column(body), vec![4; 32]);
}

#[test]
fn lines_must_be_whole_and_in_global_memory() {
    let kind = |body: &str| Grid::block(1).run(body, &["b64"], &lines()).unwrap_err().kind;
    assert_eq!(kind("ld.param.u64 %p, [in0]; discard.global.L2 [%p+8], 128;"), StopKind::Alignment);
    assert_eq!(
        kind("ld.param.u64 %p, [in0]; applypriority.global.L2::evict_normal [%p+8192], 128;"),
        StopKind::Bounds
    );
    let shared = ".shared .align 128 .b8 line[128]; mov.u64 %p, line; cvta.shared.u64 %p, %p;";
    assert_eq!(kind(&format!("{shared} discard.L2 [%p], 128;")), StopKind::Bounds);
    assert_eq!(kind("ld.param.u64 %p, [in0]; discard.global.L2 [%p], 64;"), StopKind::Malformed);
}

#[test]
fn policies_are_opaque_and_accepted_where_hints_are() {
    let body = ".reg .b64 %a, %q; ld.param.u64 %a, [in0]; shl.b64 %p, %o, 4; add.u64 %a, %a, %p;
        createpolicy.fractional.L2::evict_last.b64 %q; ld.global.L2::cache_hint.b64 %d0, [%a], %q; mov.u64 %d1, %q;
        createpolicy.fractional.L2::evict_normal.L2::evict_unchanged.b64 %q, 0.5; st.global.L2::cache_hint.b64 [%a], %o, %q;
        createpolicy.range.global.L2::evict_first.L2::evict_first.b64 %q, [%a], 64, 128;
        createpolicy.range.L2::evict_unchanged.b64 %q, [%a], 64, 64; ld.global.L2::cache_hint.b64 %d2, [%a], %q;
        createpolicy.cvt.L2.b64 %d3, %o;";
    let got = Grid::block(64).run(body, &["b64"; 4], &lines()).unwrap();
    assert_eq!(got[0], (0..64).map(|t| 16 * t).collect::<Column>());
    assert!(got[1].iter().all(|policy| *policy != 0 && *policy == got[1][0]));
    assert_eq!(got[2], (0..64).map(|t| 8 * t).collect::<Column>());
    assert_eq!(got[3], got[2]);
    let kind = |body: &str| Grid::block(1).run(body, &["b64"], &lines()).unwrap_err().kind;
    assert_eq!(kind("createpolicy.fractional.L2::evict_last.b64 %d0, 1.5;"), StopKind::Malformed);
    assert_eq!(kind("createpolicy.range.L2::evict_last.b64 %d0, [%o], 64, 32;"), StopKind::Malformed);
}
