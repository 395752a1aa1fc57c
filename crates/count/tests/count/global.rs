//! Global, local and constant memory: requests, sectors, lines, asynchronous copies.

use crate::{Case, HEAD, TAIL, on_line, passes, sectors, traffic};
use warpproof_count::CountLaunch;
use warpproof_count::MemoryOp::{AsyncCopy, Load, Store};
use warpproof_sim::memory::Space::{Const, Global, Local, Param, Shared};

#[test]
fn coalesced_words() {
    // Four warps of 32 words: 128 bytes each, four sectors of one line.
    let counters = Case::new("ld.global.u32 %r1, [%g];", 128, |t| 4 * t).count();
    let load = traffic(&counters, 1, Global, Load);
    assert_eq!(sectors(&load), (4, 16, 4));
    assert_eq!((load.lanes, load.bytes), (128, 512));
    // All of it is accessed for the first time.
    assert_eq!(load.first_sectors, 16);
    // Head, load, tail, by each of four warps.
    assert_eq!(counters.totals.issued.executions, 4 * (HEAD + 1 + TAIL));
    assert_eq!(counters.totals.issued.lanes_on, 128 * (HEAD + 1 + TAIL));
}

#[test]
fn coalesced_of_every_width() {
    // 32 lanes of n bytes are n sectors, since a sector is 32 bytes, and ceil(n / 4) lines.
    for (ty, register, bytes) in [
        ("u8", "%h1", 1),
        ("u16", "%h1", 2),
        ("u32", "%r1", 4),
        ("u64", "%d1", 8),
        ("v2.u64", "{%d1, %d2}", 16),
        ("v4.f32", "{%f1, %f2, %f3, %f4}", 16),
    ] {
        let counters = Case::new(&format!("ld.global.{ty} {register}, [%g];"), 32, |t| bytes * t).count();
        let load = traffic(&counters, 1, Global, Load);
        assert_eq!(sectors(&load), (1, bytes, bytes.div_ceil(4)), "{ty}");
        assert_eq!(load.bytes, 32 * bytes, "{ty}");
    }
}

#[test]
fn strides_of_2_to_32_words() {
    // Lane t reads word s t. Up to eight words apart, every sector of the 128 s bytes is touched: 4 s of them. Farther
    // apart, each lane has its own sector. The lanes span s lines, and at most 32 words apart they touch all.
    for stride in 2..=32u64 {
        let counters = Case::new("ld.global.u32 %r1, [%g];", 32, |t| 4 * stride * t).count();
        let load = traffic(&counters, 1, Global, Load);
        assert_eq!(sectors(&load), (1, (4 * stride).min(32), stride), "stride {stride}");
        assert_eq!(load.bytes, 128);
    }
}

#[test]
fn misaligned_words() {
    // 128 bytes from byte 4: bytes 4 to 131 are in sectors 0 to 4 and in lines 0 and 1. From byte 32 or 64: four sectors,
    // but of two lines. From 128: one line again.
    for (start, expected) in
        [(4, (1, 5, 2)), (32, (1, 4, 2)), (64, (1, 4, 2)), (124, (1, 5, 2)), (128, (1, 4, 1))]
    {
        let counters = Case::new("ld.global.u32 %r1, [%g];", 32, |t| start + 4 * t).count();
        assert_eq!(sectors(&traffic(&counters, 1, Global, Load)), expected, "from {start}");
    }
}

#[test]
fn broadcast_and_any_order() {
    // One word for all lanes: one sector, although lanes request 128 bytes.
    let counters = Case::new("ld.global.u32 %r1, [%g];", 32, |_| 40).count();
    let load = traffic(&counters, 1, Global, Load);
    assert_eq!((sectors(&load), load.bytes), ((1, 1, 1), 128));
    // The 32 words of a line in another order: the same as in order.
    let counters = Case::new("ld.global.u32 %r1, [%g];", 32, |t| 4 * (t * 13 % 32)).count();
    assert_eq!(sectors(&traffic(&counters, 1, Global, Load)), (1, 4, 1));
    // Half-warps in distant lines: two sectors of each.
    let counters = Case::new("ld.global.u32 %r1, [%g];", 32, |t| 4 * (t % 16) + 4096 * (t / 16)).count();
    assert_eq!(sectors(&traffic(&counters, 1, Global, Load)), (1, 4, 2));
}

#[test]
fn a_warp_that_is_not_full() {
    // 40 threads are a full warp and one of eight lanes, whose 32 bytes are one sector.
    let counters = Case::new("ld.global.u32 %r1, [%g];", 40, |t| 4 * t).count();
    let load = traffic(&counters, 1, Global, Load);
    assert_eq!((sectors(&load), load.lanes, load.bytes), ((2, 5, 2), 40, 160));
    assert_eq!(counters.warps(), 2);
}

#[test]
fn the_least_sectors_are_those_of_each_request() {
    let ideal = |body: &str, line, offset: fn(u64) -> u64| {
        let load = traffic(&Case::new(body, 32, offset).count(), line, Global, Load);
        (load.requests, load.sectors, load.ideal_sectors)
    };
    // 128 contiguous bytes, then from byte 4: five sectors instead of the ideal four.
    let load = "ld.global.u32 %r1, [%g];";
    assert_eq!(ideal(load, 1, |t| 4 * t), (1, 4, 4));
    assert_eq!(ideal(load, 1, |t| 4 + 4 * t), (1, 5, 4));
    // One word for all lanes is four bytes, not 128; eight words fill one sector.
    assert_eq!(ideal(load, 1, |_| 40), (1, 1, 1));
    assert_eq!(ideal(load, 1, |t| 32 * (t % 8)), (1, 8, 1));
    // Nine requests of one lane and then one of all lanes: 9 + 4 sectors, and no excess, although the 164 bytes of all
    // ten requests together would fill six.
    let body = "mov.u32 %r1, 0;\nLOOP:\nsetp.eq.u32 %p1, %r1, 9;\nsetp.eq.or.u32 %p1, %lane, 0, %p1;\n\
        @%p1 ld.global.u32 %r2, [%g];\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 10;\n@%p2 bra LOOP;";
    assert_eq!(ideal(body, 5, |t| 4 * t), (10, 13, 13));
}

#[test]
fn stores_and_what_was_touched_before() {
    let body = "st.global.u32 [%g], %t;\nst.global.u32 [%g], %lane;\nld.global.u32 %r1, [%g];\nld.global.u32 %r2, [%g];";
    let counters = Case::new(body, 32, |t| 4 * t).count();
    for line in [1, 2] {
        assert_eq!(sectors(&traffic(&counters, line, Global, Store)), (1, 4, 1));
    }
    // The second store and the second load touch no new sector.
    let first = |line, op| traffic(&counters, line, Global, op).first_sectors;
    assert_eq!([first(1, Store), first(2, Store), first(3, Load), first(4, Load)], [4, 0, 4, 0]);
    // The four sectors, and the table of offsets in the head: 32 × 8 bytes are 8 sectors.
    let compulsory = counters.compulsory;
    assert_eq!((compulsory.grid_loaded, compulsory.grid_stored, compulsory.grid_touched), (12, 4, 12));
    assert!(!compulsory.incomplete);
}

#[test]
fn blocks_that_load_the_same_share_it_behind_their_first_level() {
    // Five blocks load the same 4 sectors and the same table of 8, and store 4 sectors each of their own.
    let body = "ld.global.u32 %r1, [%g];\nmul.wide.u32 %d1, %cta, 128;\nadd.u64 %d1, %g, %d1;\nst.global.u32 [%d1+4096], %r1;";
    let counters = Case { grid: 5, ..Case::new(body, 32, |t| 4 * t) }.count();
    let compulsory = counters.compulsory;
    assert_eq!((compulsory.block_loaded, compulsory.block_stored), (5 * 12, 5 * 4));
    assert_eq!((compulsory.grid_loaded, compulsory.grid_stored, compulsory.grid_touched), (12, 20, 32));
}

#[test]
fn traffic_of_the_second_level() {
    // A block loads the table of offsets (8 sectors) and four sectors twice: 12 through L1. Past L1, it loads the same
    // four sectors three times. Two stores of four sectors each, and one sector each of a reduction and of an atomic.
    let body = "ld.global.u32 %r1, [%g];\nld.global.u32 %r1, [%g];\nld.global.cg.u32 %r2, [%g];\nld.volatile.global.u32 %r2, [%g];\n\
        ld.relaxed.gpu.global.u32 %r3, [%g];\nst.global.u32 [%g], %t;\nst.global.u32 [%g], %t;\nred.global.add.u32 [%data], %t;\n\
        atom.global.add.u32 %r4, [%data], %t;\nst.shared.u32 [%s], %r4;";
    let counters = Case { grid: 3, ..Case::new(body, 32, |t| 4 * t) }.count();
    let second = counters.second_level();
    assert_eq!((second.loads, second.stores), (3 * (12 + 3 * 4), 3 * 8));
    assert_eq!((second.reductions, second.atomics, second.sectors()), (3, 3, 3 * (24 + 8 + 2)));
    assert_eq!(traffic(&counters, 3, Global, Load).uncached_sectors, 3 * 4);
    assert_eq!(traffic(&counters, 1, Global, Load).uncached_sectors, 0);
    assert_eq!(counters.compulsory.grid_loaded, 12);
}

#[test]
fn local_memory() {
    // The same word of all lanes is contiguous: one line. Sixteen bytes are four words at distances of one line.
    let body = "st.local.u32 [frame], %t;\nst.local.v4.u32 [frame+16], {%t, %t, %t, %t};\nld.local.u64 %d1, [frame+16];\n\
        ld.local.u8 %h1, [frame+1];";
    let counters = Case::new(body, 64, |_| 0).count();
    assert_eq!(sectors(&traffic(&counters, 1, Local, Store)), (2, 8, 2));
    assert_eq!(sectors(&traffic(&counters, 2, Local, Store)), (2, 32, 8));
    assert_eq!(sectors(&traffic(&counters, 3, Local, Load)), (2, 16, 4));
    assert_eq!(sectors(&traffic(&counters, 4, Local, Load)), (2, 8, 2));
    assert_eq!(traffic(&counters, 2, Local, Store).bytes, 64 * 16);
}

#[test]
fn local_memory_indexed_by_lane() {
    // Odd lanes use the word after that of even lanes: two lines, of which all four sectors are touched.
    let body = "mov.u64 %d1, frame;\nand.b32 %r1, %lane, 1;\nmul.wide.u32 %d2, %r1, 4;\nadd.u64 %d1, %d1, %d2;\n\
        st.local.u32 [%d1], %t;\nsetp.lt.u32 %p1, %lane, 8;\n@%p1 ld.local.u32 %r2, [frame];";
    let counters = Case::new(body, 32, |_| 0).count();
    assert_eq!(sectors(&traffic(&counters, 5, Local, Store)), (1, 8, 2));
    // Only lanes 0 to 7: one sector.
    assert_eq!(sectors(&traffic(&counters, 7, Local, Load)), (1, 1, 1));
}

#[test]
fn asynchronous_copies() {
    // 16 bytes per lane: 512 bytes are 16 sectors of global memory, and four quarter-warps of 128 bytes for the banks.
    let body = "cp.async.cg.shared.global [%s], [%g], 16;\ncp.async.ca.shared.global [%s], [%g], 8;\n\
        cp.async.ca.shared.global [%s], [%g], 4;\ncp.async.wait_all;";
    let counters = Case::new(body, 32, |t| 16 * t).count();
    let side = |line, space| traffic(&counters, line, space, AsyncCopy);
    assert_eq!(sectors(&side(1, Global)), (1, 16, 4));
    assert_eq!(passes(&side(1, Shared)), (1, 4, 0));
    // Only 8 bytes of the same locations: still 16 sectors. In the banks, lane t of a half-warp has words 4 t and 4 t +
    // 1: the 16 lanes share each bank in pairs, so each half takes 2 passes instead of 1.
    assert_eq!(sectors(&side(2, Global)), (1, 16, 4));
    assert_eq!(passes(&side(2, Shared)), (1, 4, 2));
    // 4 bytes: word 4 t of 32 lanes is in one of 8 banks: four lanes at each.
    assert_eq!(passes(&side(3, Shared)), (1, 4, 3));
    assert_eq!(side(3, Global).bytes, 128);
    // Copies do not count as accesses again when they complete.
    assert!(on_line(&counters, 4).memory.is_empty());
}

#[test]
fn copies_that_read_nothing_write_zeros() {
    // Lanes 16 and above have a source size of 0: half the reads, all the writes.
    let body = "setp.lt.u32 %p1, %lane, 16;\nselp.b32 %r1, 16, 0, %p1;\ncp.async.cg.shared.global [%s], [%g], 16, %r1;\ncp.async.wait_all;";
    let counters = Case::new(body, 32, |t| 16 * t).count();
    assert_eq!(sectors(&traffic(&counters, 3, Global, AsyncCopy)), (1, 8, 2));
    assert_eq!(passes(&traffic(&counters, 3, Shared, AsyncCopy)), (1, 4, 0));
}

#[test]
fn generic_addresses_count_where_they_point() {
    // Even lanes point to global memory (16 words, two bytes of eight apart: 4 sectors), odd ones to shared memory.
    let body = "cvt.u64.u32 %d1, %s;\ncvta.shared.u64 %d1, %d1;\nand.b32 %r1, %lane, 1;\nsetp.eq.u32 %p1, %r1, 1;\n\
        selp.b64 %d2, %d1, %g, %p1;\nld.u32 %r2, [%d2];";
    let counters = Case::new(body, 32, |t| 4 * t).count();
    assert_eq!(sectors(&traffic(&counters, 6, Global, Load)), (1, 4, 1));
    assert_eq!(passes(&traffic(&counters, 6, Shared, Load)), (1, 1, 0));
    assert_eq!(traffic(&counters, 6, Shared, Load).lanes, 16);
}

#[test]
fn parameters_and_constants() {
    let counters = Case::new("ld.param.u32 %r1, [data];", 96, |_| 0).count();
    let parameter = traffic(&counters, 1, Param, Load);
    // All lanes of a warp request one address: one pass.
    assert_eq!((parameter.requests, parameter.wavefronts, parameter.lanes), (3, 3, 96));
    // A constant indexed by lane: as many passes as distinct addresses.
    let text = Case::new("and.b32 %r1, %lane, 7;\nmul.wide.u32 %d1, %r1, 4;\nmov.u64 %d2, c;\nadd.u64 %d1, %d1, %d2;\nld.const.u32 %r2, [%d1];", 32, |_| 0)
        .text()
        .replace(".visible .entry", ".const .align 4 .u32 c[8] = {1, 2, 3, 4, 5, 6, 7, 8}; .visible .entry");
    let mut device = warpproof_sim::Device::new();
    let module = device.load(&text).unwrap();
    let data = device.alloc::<u64>(64).unwrap();
    let launch = module.kernel("k").unwrap().launch().block(32).arg(data).arg(data);
    let counted = device.count(&launch, &warpproof_count::CountSettings::default());
    assert!(counted.outcome.stop.is_none());
    let constant = traffic(&counted.counters, 5, Const, Load);
    assert_eq!((constant.requests, constant.wavefronts, constant.lanes), (1, 8, 32));
}

#[test]
fn a_stream_and_the_same_stream_again() {
    // Two warps each read 16 lines, 4 KiB apart, and then the same again: 64 sectors each time, new only the first time.
    let body = "mov.u32 %r5, 0;\nAGAIN:\nmov.u64 %d1, %g;\nmov.u32 %r1, 0;\nLOOP:\nld.global.u32 %r2, [%d1];\nadd.u64 %d1, %d1, 128;\nadd.u32 %r1, %r1, 1;\n\
        setp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOOP;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 2;\n@%p1 bra AGAIN;";
    let counters = Case::new(body, 64, |t| 4 * (t % 32) + 4096 * (t / 32)).count();
    let load = traffic(&counters, 6, Global, Load);
    assert_eq!((sectors(&load), load.first_sectors), ((64, 256, 64), 128));
}

#[test]
fn a_window_that_moves_by_a_word() {
    // 128 bytes from byte 4 i, for i from 0 to 31: four sectors of one or two lines where 4 i is a multiple of 32, which
    // are four of the 32 offsets, and five sectors elsewhere. Only offset 0 is in one line. Bytes 0 to 251 are touched:
    // eight sectors.
    let body = "mov.u64 %d1, %g;\nmov.u32 %r1, 0;\nLOOP:\nld.global.u32 %r2, [%d1];\nadd.u64 %d1, %d1, 4;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra LOOP;";
    let load = traffic(&Case::new(body, 32, |t| 4 * t).count(), 4, Global, Load);
    assert_eq!((sectors(&load), load.first_sectors), ((32, 4 * 4 + 28 * 5, 1 + 31 * 2), 8));
}
