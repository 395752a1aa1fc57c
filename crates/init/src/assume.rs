//! Assumptions about a kernel's launch if trial runs could not find it: every integer is an extent, every array has
//! all extents, and blocks follow the PTX's use of `blockIdx`.

use super::Seen;
use super::explore::{Array, Axis, Found};
use super::names::safe;
use super::parameter::What;
use super::traffic::Share;

pub(super) fn assume(seen: &Seen) -> Found {
    let count = seen.parameters.len();
    let mut found = Found { arrays: vec![None; count], values: vec![None; count], ..Found::default() };
    let arrays: Vec<&str> = seen
        .parameters
        .iter()
        .filter(|one| !matches!(one.what, What::Scalar(_)))
        .map(|one| one.name.as_str())
        .collect();
    let lanes = seen.parameters.iter().map(|one| match one.what {
        What::Array { lanes, .. } => u64::from(lanes),
        _ => 1,
    });
    let lanes = lanes.max().unwrap_or(1);
    let threads = u64::from(seen.block.threads());
    for (at, parameter) in seen.parameters.iter().enumerate() {
        if !matches!(parameter.what, What::Scalar(dtype) if dtype.is_integer()) {
            continue;
        }
        let taken = found.axes.iter().map(|axis| axis.name.as_str()).chain(arrays.iter().copied());
        let name = safe(&parameter.name.to_lowercase(), taken);
        found.values[at] = Some(name.clone());
        let multiple = lanes.max(parameter.multiple);
        found.axes.push(Axis { name, multiple, at_most: None, inner: false, outer: true, tile: None });
    }
    if found.axes.is_empty() {
        let name = safe("n", arrays.iter().copied());
        let multiple = threads.max(1) * lanes;
        found.axes.push(Axis { name, multiple, at_most: None, inner: true, outer: false, tile: None });
    }
    if let Some(last) = found.axes.last_mut() {
        (last.inner, last.outer) = (true, false);
    }
    let dims: Vec<String> = found.axes.iter().map(|axis| axis.name.clone()).collect();
    for (slot, parameter) in found.arrays.iter_mut().zip(&seen.parameters) {
        if let What::Array { access, .. } = parameter.what {
            *slot = Some(Array { dims: dims.clone(), access });
        }
    }
    let per = |share: Share, threads: u64| match share {
        Share::Tile(tile) => u64::from(tile.max(1)),
        _ => threads * lanes,
    };
    let total = dims.join(" * ");
    let side = |at: usize| seen.block.extents.get(at).copied().map_or(1, u64::from);
    let [x, y] = seen.geometry.shares;
    found.grid = match (x, y, dims.as_slice()) {
        (Share::Whole, Share::Whole, _) => vec!["1".into()],
        (Share::Block, Share::Whole, [rows, _, ..]) => vec![rows.clone()],
        (x, y, [rows, columns, ..]) if y != Share::Whole => vec![
            format!("ceil_div({columns}, {})", per(x, side(0))),
            format!("ceil_div({rows}, {})", per(y, side(1))),
        ],
        (x, ..) => vec![format!("ceil_div({total}, {})", per(x, threads))],
    };
    found
}
