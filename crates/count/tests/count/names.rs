//! Counters under the names of Nsight Compute.

use crate::{Case, HEAD, TAIL};
use warpproof_count::names::{Exactness, METRICS, Value, find, metric};

const KERNEL: &str = "ld.global.u32 %r1, [%g];\nst.shared.u32 [%s], %r1;\nbar.sync 0;\n\
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%base];\nld.shared.u32 %r2, [%s];\n\
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n\
    fma.rn.f32 %f5, %f0, %f1, %f5;\nadd.f32 %f6, %f5, %f5;\nex2.approx.ftz.f32 %f7, %f6;\nsetp.lt.u32 %p1, %lane, 8;\n\
    @%p1 st.global.f32 [%g], %f7;\n@%p1 bra END;\nadd.u32 %r9, %r2, 1;\nEND:";

#[test]
fn every_number_of_a_kernel() {
    // Four warps in two blocks; offsets of 8 bytes, so that 32 words are in 8 sectors, and lanes share banks in pairs.
    let counters = Case { grid: 2, ..Case::new(KERNEL, 64, |t| 8 * t) }.count();
    let warps = 4;
    let expected: &[(&str, u64)] = &[
        ("launch__grid_size", 2),
        ("launch__block_size", 64),
        ("launch__thread_count", 128),
        ("launch__shared_mem_per_block_static", 49152),
        ("launch__shared_mem_per_block_dynamic", 0),
        ("smsp__warps_launched.sum", warps),
        ("smsp__threads_launched.sum", 128),
        ("sm__ctas_launched.sum", 2),
        // Thirteen instructions between head and tail.
        ("smsp__inst_executed.sum", warps * (HEAD + 13 + TAIL)),
        // Eight lanes leave before the add.
        ("smsp__thread_inst_executed.sum", warps * (32 * (HEAD + 12 + TAIL) + 24)),
        // The store and the branch are executed by eight lanes.
        ("smsp__thread_inst_executed_pred_on.sum", warps * (32 * (HEAD + 10 + TAIL) + 24 + 8 + 8)),
        ("smsp__inst_executed_pipe_tensor.sum", warps),
        ("sm__inst_executed_pipe_tensor_op_hmma.sum", warps),
        ("sm__inst_executed_pipe_tensor_op_imma.sum", 0),
        ("smsp__inst_executed_pipe_xu.sum", warps),
        ("smsp__inst_executed_pipe_adu.sum", warps),
        // A branch and the return.
        ("smsp__inst_executed_pipe_cbu.sum", 2 * warps),
        // mul.wide in the head, fma, add.
        ("smsp__inst_executed_pipe_fma.sum", 3 * warps),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 32 * warps),
        ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 32 * warps),
        ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 0),
        ("smsp__sass_branch_targets_threads_divergent.sum", warps),
        ("smsp__sass_branch_targets_threads_uniform.sum", 0),
        // Including the head's load of offsets, also eight sectors.
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 2 * warps),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 16 * warps),
        ("l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum", 512 * warps),
        // Eight lanes eight bytes apart: two sectors.
        ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", warps),
        ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 2 * warps),
        ("smsp__inst_executed_op_shared_ld.sum", warps),
        ("smsp__inst_executed_op_shared_st.sum", warps),
        ("smsp__inst_executed_op_ldsm.sum", warps),
        // Words eight bytes apart: two passes instead of one. All matrices at one row: four passes.
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", (2 + 4) * warps),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", 2 * warps),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", warps),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", warps),
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 2 * warps),
        ("sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum", 0),
        ("memory_l1_wavefronts_shared_ideal", 6 * warps),
        // A block loads 512 bytes of data and 512 of offsets; both blocks the same.
        ("lts__t_sectors_op_read.sum", 2 * 32),
        // Two sectors per warp for each of the stores.
        ("lts__t_sectors_op_write.sum", 2 * warps),
        ("lts__t_sectors.sum", 2 * 32 + 2 * warps),
        ("dram__sectors_read.sum", 32),
        ("dram__bytes_read.sum", 32 * 32),
    ];
    for (name, value) in expected {
        assert_eq!(metric(&counters, name), Some(Value::Count(*value)), "{name}");
    }
    let ratio = |name| metric(&counters, name).unwrap().number();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(ratio("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"), 8.0));
    assert!(near(ratio("smsp__sass_average_branch_targets_threads_uniform.pct"), 0.0));
    // Lanes request 128 bytes of data and 256 of offsets in 16 sectors.
    assert!(near(ratio("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"), 24.0));
    assert!(near(ratio("smsp__average_inst_executed_per_warp.ratio"), 26.0));
}

#[test]
fn each_says_how_exact_it_is() {
    assert_eq!(find("launch__grid_size").unwrap().exactness, Exactness::Launch);
    assert_eq!(find("smsp__inst_executed.sum").unwrap().exactness, Exactness::Instruction);
    assert_eq!(find("dram__bytes_read.sum").unwrap().exactness, Exactness::Estimate);
    assert!(find("gpu__time_duration.sum").is_none(), "time is not counted");
    assert!(METRICS.len() >= 90);
}
