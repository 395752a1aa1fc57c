//! How tags move between registers.
//!
//! Moves, packing, selection and conversion keep them; arithmetic keeps the tag of its one tagged operand, and loses
//! two different ones. Adding a value to an accumulator or scaling it (a bias, a row's maximum) keeps the accumulator's
//! tag, and so does a mask that replaces it by a constant.

use super::origin::{LOST, Tag, is_element, is_sum};
use super::plan::{Action, Blend, Step};
use super::tags::{Lanes, NONE, Rows};
use warpproof_sim::machine::{LANES, at};

/// The tag of a value computed from two tagged values.
fn blend(a: Tag, b: Tag, kind: Blend) -> Tag {
    match (a, b) {
        _ if a == b => a,
        (0, other) | (other, 0) => other,
        // Adding an element to an accumulator, or scaling it by one, keeps the accumulator's tag.
        (sum, other) | (other, sum) if is_sum(sum) && is_element(other) => sum,
        (sum, LOST) | (LOST, sum) if is_sum(sum) && kind == Blend::Keep => sum,
        _ => LOST,
    }
}

/// Moves tags for an instruction between registers in some lanes; `values` are those of `event::values_of`.
pub(super) fn step(rows: &mut Rows, step: &Step, exec: u32, values_of: &[u32], grain: u32) {
    let live = step.from.iter().any(|row| rows.live(*row));
    let grains = at(4 / grain);
    let lost = step.action == Action::Clear(true);
    if !live && !lost {
        step.to.iter().for_each(|to| rows.put(*to, &[], exec, None));
        return;
    }
    let origin = step.from.iter().find_map(|row| rows.origin(*row));
    let mut values = [NONE; 8];
    let from = |i: usize| step.from.get(i).copied().flatten();
    let word = |i: usize| values_of.get(i).copied().unwrap_or(0);
    // One word, if it is the same in all lanes.
    let in_lane = |lane: usize| word(if values_of.len() > 1 { lane } else { 0 });
    match step.action {
        Action::Combine(kind) => {
            for (i, value) in values.iter_mut().enumerate() {
                *value = *rows.grain(from(0), i);
                for other in step.from.iter().skip(1) {
                    let other = rows.grain(*other, i);
                    value.iter_mut().zip(other).for_each(|(a, b)| *a = blend(*a, *b, kind));
                }
            }
        }
        Action::Select => {
            let (bits, nonzero) = (word(0), [word(1), word(2)]);
            for (i, value) in values.iter_mut().enumerate() {
                let (a, b) = (rows.grain(from(0), i), rows.grain(from(1), i));
                for (lane, out) in value.iter_mut().enumerate() {
                    let first = bits >> lane & 1 != 0;
                    let (chosen, other) = if first { (a[lane], b[lane]) } else { (b[lane], a[lane]) };
                    // A score that is masked by a nonzero constant keeps its tag.
                    let constant = nonzero[usize::from(!first)] >> lane & 1 != 0;
                    let masked = chosen == 0 && is_sum(other) && constant;
                    *out = if masked { other } else { chosen };
                }
            }
        }
        Action::And => {
            for (i, value) in values.iter_mut().enumerate().take(grains) {
                let (a, b) = (rows.grain(from(0), i), rows.grain(from(1), i));
                for (lane, out) in value.iter_mut().enumerate() {
                    let zero = (word(i) | word(grains + i)) >> lane & 1 != 0;
                    *out = if zero { 0 } else { blend(a[lane], b[lane], Blend::Mix) };
                }
            }
        }
        Action::Shift(left) => {
            let unit = 8 * grain;
            for (i, value) in values.iter_mut().enumerate() {
                for (lane, out) in value.iter_mut().enumerate() {
                    let bits = in_lane(lane);
                    let by = at(bits / unit);
                    let source = if left { i.checked_sub(by) } else { i.checked_add(by) };
                    let tag = source.filter(|s| *s < 8).map_or(0, |s| rows.grain(from(0), s)[lane]);
                    *out = if bits % unit == 0 { tag } else { LOST };
                }
            }
        }
        Action::Permute => permute(rows, step, grain, &mut values, in_lane),
        Action::Pack(bytes) => {
            let each = at(bytes / grain).max(1);
            for (i, value) in values.iter_mut().enumerate() {
                *value = *rows.grain(from(i / each), i % each);
            }
        }
        Action::Unpack(bytes) => {
            let each = at(bytes / grain).max(1);
            let whole: Vec<Lanes> = (0..8).map(|i| *rows.grain(from(0), i)).collect();
            for (to, part) in step.to.iter().zip(whole.chunks(each)) {
                rows.put(*to, part, exec, origin);
            }
            return;
        }
        Action::Convert { from: before, to: after, count, fill } => {
            let (before, after) = (at(before / grain).max(1), at(after / grain).max(1));
            for element in 0..at(count) {
                let source = if step.from.len() > 1 {
                    rows.grain(from(element), 0)
                } else {
                    rows.grain(from(0), element * before)
                };
                let filled = if fill { after } else { after.min(before) };
                for value in values.iter_mut().skip(element * after).take(filled) {
                    *value = *source;
                }
            }
        }
        Action::MatrixMove => {
            let half = grains / 2;
            for (i, value) in values.iter_mut().enumerate().take(grains) {
                for (lane, out) in value.iter_mut().enumerate() {
                    let (row, column) = (2 * (lane % 4) + i / half, lane / 4);
                    *out = rows.grain(from(0), column % 2 * half + i % half)[4 * row + column / 2];
                }
            }
        }
        _ => values = [[LOST; 32]; 8],
    }
    let wide = values[grains..].iter().flatten().any(|tag| *tag != 0);
    let count = if wide { 2 * grains } else { grains };
    let chain = chain(rows, step, exec, &values[0]);
    for to in &step.to {
        rows.put(*to, &values[..count.min(8)], exec, origin);
        if exec == u32::MAX {
            rows.set_chain(*to, chain);
        }
    }
}

/// The sum that a result belongs to: the sum of the operand whose tags it has.
fn chain(rows: &Rows, step: &Step, exec: u32, result: &Lanes) -> u32 {
    if let ([only], Action::Combine(_)) = (&*step.from, step.action) {
        return rows.chain(*only);
    }
    let lane = at(exec.trailing_zeros()).min(LANES - 1);
    let same = |row: &&Option<u32>| rows.grain(**row, 0)[lane] == result[lane];
    if is_sum(result[lane]) { step.from.iter().find(same).map_or(0, |row| rows.chain(*row)) } else { 0 }
}

/// `prmt`: bytes of two registers by number.
fn permute(rows: &Rows, step: &Step, grain: u32, values: &mut [Lanes; 8], selector: impl Fn(usize) -> u32) {
    let from = |i: usize| step.from.get(i).copied().flatten();
    for (i, value) in values.iter_mut().enumerate().take(at(4 / grain)) {
        for (lane, out) in value.iter_mut().enumerate() {
            let byte = |n: usize| selector(lane) >> (4 * (i * at(grain) + n)) & 15;
            let first = byte(0);
            let next = grain == 1 || (first % 2 == 0 && byte(1) == first + 1);
            let tags = rows.grain(from(at(first / 4 % 2)), at(first % 4 / grain));
            *out = if first < 8 && next { tags[lane] } else { LOST };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::sum;
    use super::*;

    #[test]
    fn one_origin_stays_and_two_are_lost() {
        let (a, b, c) = (2, 3, sum(1, 2));
        assert_eq!(blend(a, 0, Blend::Mix), a, "scaled by a constant");
        assert_eq!(blend(0, a, Blend::Mix), a);
        assert_eq!(blend(a, a, Blend::Mix), a, "squared");
        assert_eq!(blend(a, b, Blend::Mix), LOST);
        assert_eq!(blend(a, LOST, Blend::Keep), LOST);
        assert_eq!(blend(c, a, Blend::Mix), c, "an accumulator and its bias");
        assert_eq!(blend(LOST, c, Blend::Keep), c, "a score minus the maximum of its row");
        assert_eq!(blend(LOST, c, Blend::Mix), LOST, "a running maximum and a score");
        assert_eq!(blend(c, sum(1, 3), Blend::Keep), LOST);
    }
}
