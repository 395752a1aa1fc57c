//! Compares the model with the results of NVIDIA's own occupancy calculator.

use warpproof_model::{Capability, Usage, occupancy};

#[test]
fn agrees_with_nvidias_calculator() {
    let mut cases = 0;
    for line in include_str!("occupancy.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (arch, numbers) = line.split_once('\t').unwrap();
        let numbers: Vec<u32> = numbers.split('\t').map(|n| n.parse().unwrap()).collect();
        let [registers, static_shared, dynamic_shared, barriers, block, blocks] = numbers[..] else {
            panic!("expected six numbers, found {line}")
        };
        let usage = Usage { registers, static_shared, dynamic_shared, barriers };
        let ours = occupancy(Capability::of_arch(arch).unwrap(), &usage, block);
        assert_eq!(ours.blocks_per_sm, blocks, "{line}\n{ours:#?}");
        cases += 1;
    }
    assert!(cases >= 400, "{cases} cases");
}
