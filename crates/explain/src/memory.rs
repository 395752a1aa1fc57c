//! Requests that use more memory passes or sectors than their bytes need, and their address patterns.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts become averages; they are far below 2^53"
)]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use warpproof_count::{Counters, Instruction, MemoryOp, Sample, Traffic};
use warpproof_sim::memory::Space;

use super::{Atomics, Conflict, Pattern, Place, Uncoalesced};

/// Sectors if the distinct bytes of each request were contiguous, as counted request by request.
pub(super) fn ideal_sectors(traffic: &Traffic) -> u64 {
    traffic.ideal_sectors
}

/// The place that an instruction belongs to.
pub(super) fn place(instruction: &Instruction) -> Place {
    let line = instruction.line();
    Place { file: line.file, line: line.line }
}

/// The text of a place, if available.
pub(super) type Texts<'a> = &'a dyn Fn(&Place) -> Option<String>;

/// The accesses of one kind on one line, combined.
struct Accesses<'a> {
    ptx_line: u32,
    copies: u32,
    traffic: Traffic,
    worst: Option<&'a Sample>,
}

/// Accesses to some spaces by line and opcode; those of unrolled loops and of inlined calls are combined.
fn by_line(counters: &Counters, wanted: impl Fn(Space) -> bool) -> BTreeMap<(Place, &str), Accesses<'_>> {
    let mut found: BTreeMap<(Place, &str), Accesses<'_>> = BTreeMap::new();
    for instruction in &counters.instructions {
        let traffic = summed(instruction, &wanted);
        if traffic.requests == 0 {
            continue;
        }
        let worst = instruction.worst.iter().find(|sample| wanted(sample.space));
        let one = found.entry((place(instruction), instruction.opcode.as_str())).or_insert_with(|| {
            Accesses { ptx_line: instruction.ptx_line, copies: 0, traffic: Traffic::default(), worst: None }
        });
        one.copies = one.copies.saturating_add(1);
        one.traffic.add(&traffic);
        let beyond = |sample: &Sample| sample.taken.saturating_sub(sample.ideal);
        if worst.map(beyond) > one.worst.map(beyond) {
            one.worst = worst;
        }
    }
    found
}

/// Accesses with bank conflicts, the most lost passes first.
pub(super) fn conflicts(counters: &Counters, text: Texts<'_>) -> Vec<Conflict> {
    let mut found = Vec::new();
    for ((place, opcode), one) in by_line(counters, |space| space == Space::Shared) {
        let traffic = one.traffic;
        if traffic.conflicts() == 0 {
            continue;
        }
        found.push(Conflict {
            text: text(&place),
            place,
            ptx_line: one.ptx_line,
            copies: one.copies,
            opcode: opcode.to_owned(),
            requests: traffic.requests,
            wavefronts: traffic.wavefronts,
            ideal: traffic.ideal_wavefronts,
            degree: traffic.wavefronts as f64 / traffic.ideal_wavefronts.max(1) as f64,
            pattern: one.worst.map(pattern),
        });
    }
    found.sort_by_key(|one| (Reverse(one.wavefronts - one.ideal), one.ptx_line));
    found
}

/// Accesses that touch more sectors of global memory than their bytes fill, the largest excess first.
pub(super) fn uncoalesced(counters: &Counters, text: Texts<'_>) -> Vec<Uncoalesced> {
    let mut found = Vec::new();
    let global = |space| matches!(space, Space::Global | Space::Generic);
    for ((place, opcode), one) in by_line(counters, global) {
        let traffic = one.traffic;
        let ideal = ideal_sectors(&traffic);
        if traffic.sectors <= ideal {
            continue;
        }
        let requests = traffic.requests.max(1) as f64;
        found.push(Uncoalesced {
            text: text(&place),
            place,
            ptx_line: one.ptx_line,
            copies: one.copies,
            opcode: opcode.to_owned(),
            requests: traffic.requests,
            sectors: traffic.sectors,
            ideal,
            per_request: traffic.sectors as f64 / requests,
            ideal_per_request: ideal as f64 / requests,
            pattern: one.worst.map(pattern),
        });
    }
    found.sort_by_key(|one| (Reverse(one.sectors - one.ideal), one.ptx_line));
    found
}

/// Atomics by line, opcode and space, the most serialized first.
pub(super) fn atomics(counters: &Counters, text: Texts<'_>) -> Vec<Atomics> {
    type Key<'a> = (Place, &'a str, Space, MemoryOp);
    let mut found: BTreeMap<Key<'_>, (u32, u32, Traffic)> = BTreeMap::new();
    for instruction in &counters.instructions {
        for ((space, op), traffic) in &instruction.memory {
            if matches!(op, MemoryOp::Atomic | MemoryOp::Reduction) && traffic.requests > 0 {
                let key = (place(instruction), instruction.opcode.as_str(), *space, *op);
                let one = found.entry(key).or_insert((instruction.ptx_line, 0, Traffic::default()));
                one.1 = one.1.saturating_add(1);
                one.2.add(traffic);
            }
        }
    }
    let mut all: Vec<Atomics> = found
        .into_iter()
        .map(|((place, opcode, space, op), (ptx_line, copies, traffic))| Atomics {
            text: text(&place),
            place,
            ptx_line,
            copies,
            opcode: opcode.to_owned(),
            kind: op.name(),
            space: space.name(),
            requests: traffic.requests,
            lanes: traffic.lanes,
            addresses: traffic.addresses,
            per_address: traffic.lanes as f64 / traffic.addresses.max(1) as f64,
            most: traffic.max_depth,
            serial: traffic.serial,
        })
        .collect();
    all.sort_by_key(|one| (Reverse(one.serial), one.ptx_line));
    all
}

fn summed(instruction: &Instruction, wanted: &impl Fn(Space) -> bool) -> Traffic {
    let mut sum = Traffic::default();
    for ((_, _), traffic) in instruction.memory.iter().filter(|((space, _), _)| wanted(*space)) {
        sum.add(traffic);
    }
    sum
}

/// Describes a request.
fn pattern(sample: &Sample) -> Pattern {
    let stride = stride(&sample.lanes);
    let way = match stride {
        Some(0) => "all lanes at one address".to_owned(),
        Some(stride) => format!("lanes {stride} bytes apart"),
        None => rows(&sample.lanes).unwrap_or_else(|| "lanes without a constant stride".to_owned()),
    };
    let bytes = if sample.bytes == 1 { "1 byte".to_owned() } else { format!("{} bytes", sample.bytes) };
    let takes = if sample.space == Space::Shared {
        format!("{} passes through the banks instead of {}", sample.taken, sample.ideal)
    } else {
        format!("{} sectors instead of {}", sample.taken, sample.ideal)
    };
    Pattern {
        bytes: sample.bytes,
        lanes: sample.lanes.clone(),
        stride,
        taken: sample.taken,
        ideal: sample.ideal,
        says: format!("{bytes} per lane, {way}: {takes}"),
    }
}

/// Bytes from each lane to the next, if constant.
fn stride(lanes: &[(u32, i64)]) -> Option<i64> {
    let mut found = None;
    for pair in lanes.windows(2) {
        let (lanes_apart, bytes_apart) = (i64::from(pair[1].0) - i64::from(pair[0].0), pair[1].1 - pair[0].1);
        if lanes_apart == 0 || bytes_apart % lanes_apart != 0 {
            return None;
        }
        let each = bytes_apart / lanes_apart;
        if *found.get_or_insert(each) != each {
            return None;
        }
    }
    found
}

/// Groups of adjacent lanes at a constant distance: a tile with rows.
fn rows(lanes: &[(u32, i64)]) -> Option<String> {
    if lanes.len() != 32 {
        return None;
    }
    for width in [16usize, 8, 4, 2] {
        let groups: Vec<&[(u32, i64)]> = lanes.chunks(width).collect();
        let inside = stride(groups[0]);
        let firsts: Vec<(u32, i64)> = (0u32..).zip(groups.iter().map(|group| group[0].1)).collect();
        let (Some(inside), Some(between)) = (inside, stride(&firsts)) else { continue };
        if groups.iter().all(|group| stride(group) == Some(inside)) {
            let inside =
                if inside == 0 { "at one address".to_owned() } else { format!("{inside} bytes apart") };
            return Some(format!("groups of {width} lanes {inside}, the groups {between} bytes apart"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(f: impl Fn(i64) -> i64) -> Vec<(u32, i64)> {
        (0..32).map(|lane| (lane, f(i64::from(lane)))).collect()
    }

    fn says(lanes: Vec<(u32, i64)>) -> String {
        pattern(&Sample { space: Space::Shared, bytes: 4, lanes, taken: 8, ideal: 1 }).says
    }

    #[test]
    fn patterns_are_told_in_words() {
        let tail = ": 8 passes through the banks instead of 1";
        assert_eq!(says(lanes(|lane| lane * 128)), format!("4 bytes per lane, lanes 128 bytes apart{tail}"));
        assert_eq!(says(lanes(|_| 0)), format!("4 bytes per lane, all lanes at one address{tail}"));
        assert_eq!(
            says(lanes(|lane| lane / 4 * 256 + lane % 4 * 4)),
            format!("4 bytes per lane, groups of 4 lanes 4 bytes apart, the groups 256 bytes apart{tail}")
        );
        assert_eq!(
            says(lanes(|lane| lane / 8 * 512)),
            format!("4 bytes per lane, groups of 8 lanes at one address, the groups 512 bytes apart{tail}")
        );
        assert_eq!(
            says(lanes(|lane| lane * lane)),
            format!("4 bytes per lane, lanes without a constant stride{tail}")
        );
        // Inactive lanes leave gaps, but the distance stays.
        assert_eq!(stride(&[(0, 0), (2, 16), (5, 40)]), Some(8));
        assert_eq!(stride(&[(3, 0)]), None);
    }

    fn instruction(line: u32, opcode: &str, op: MemoryOp, traffic: Traffic) -> Instruction {
        Instruction {
            pc: line,
            function: "k".to_owned(),
            ptx_line: line,
            source: Vec::new(),
            op: warpproof_sim::isa::Op::Refused,
            opcode: opcode.to_owned(),
            pipe: warpproof_sim::isa::Unit::Lsu,
            tensor: None,
            flow: warpproof_count::Flow::Next,
            issued: warpproof_count::Issued::default(),
            branches: warpproof_count::Branches::default(),
            memory: BTreeMap::from([((Space::Global, op), traffic)]),
            barriers: warpproof_count::Barriers::default(),
            mbarriers: warpproof_count::Mbarriers::default(),
            worst: Vec::new(),
        }
    }

    #[test]
    fn requests_of_different_sizes_are_no_reason_to_be_called_uncoalesced() {
        // Nine requests of one word and one of 32: 13 sectors, and none could use fewer. All their bytes would fill
        // six.
        let good = Traffic { requests: 10, bytes: 164, sectors: 13, ideal_sectors: 13, ..Traffic::default() };
        // A broadcast that touches a sector for each lane: lanes request 128 bytes, of which four are distinct.
        let bad = Traffic { requests: 1, bytes: 128, sectors: 8, ideal_sectors: 1, ..Traffic::default() };
        let counters = Counters {
            instructions: vec![
                instruction(3, "ld.global.u32", MemoryOp::Load, good),
                instruction(4, "ld.global.u32", MemoryOp::Load, bad),
            ],
            ..Counters::default()
        };
        let found = uncoalesced(&counters, &|_| None);
        assert_eq!(found.iter().map(|one| (one.place.line, one.ideal)).collect::<Vec<_>>(), [(4, 1)]);
    }

    #[test]
    fn atomics_are_told_by_line_with_a_mean_and_a_most() {
        let one = Traffic { requests: 2, lanes: 64, addresses: 2, ..Traffic::default() };
        let hot = Traffic { max_depth: 32, serial: 64, depth: 64, ..one };
        let spread = Traffic { addresses: 64, max_depth: 1, serial: 2, depth: 2, ..one };
        let counters = Counters {
            instructions: vec![
                instruction(3, "red.global.add.f32", MemoryOp::Reduction, spread),
                instruction(4, "atom.global.add.f32", MemoryOp::Atomic, hot),
                instruction(5, "ld.global.f32", MemoryOp::Load, one),
            ],
            ..Counters::default()
        };
        let found = atomics(&counters, &|_| None);
        let reported: Vec<_> =
            found.iter().map(|one| (one.place.line, one.kind, one.per_address, one.most)).collect();
        assert_eq!(reported, [(4, "atom", 32.0, 32), (3, "red", 1.0, 1)]);
    }
}
