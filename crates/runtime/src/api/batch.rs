//! Copies in batches.

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::{In, Out};

use super::copy::{Direction, copy_async, copy_slices, slices};
use super::{context, stream};
use crate::abi::{BatchCopy3d, Copy3dParms, CopyOperand, PitchedPointer, Position};

/// Several copies in stream order. Their attributes are hints.
fn batch(
    to: In<u64>,
    from: In<u64>,
    sizes: In<usize>,
    count: usize,
    failed: Out<usize>,
    on: Handle,
) -> Answer {
    context()?;
    let (to, from, sizes) = (to.list(count)?, from.list(count)?, sizes.list(count)?);
    for (index, ((to, from), size)) in to.into_iter().zip(from).zip(sizes).enumerate() {
        if let Err(error) = copy_async(to, from, size, Direction::Default, on) {
            failed.offer(index);
            return Err(error);
        }
    }
    Ok(())
}

api! {
    /// Several copies in stream order.
    fn cudaMemcpyBatchAsync_in12 | cudaMemcpyBatchAsync_ptsz_in12 => (to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, _attributes: In<u8>, _indices: In<usize>, _number: usize, failed: Out<usize>, on: Handle) {
        batch(to, from, sizes, count, failed, stream(on))
    }
}

api! {
    /// Several copies in stream order.
    fn cudaMemcpyBatchAsync_in13 | cudaMemcpyBatchAsync_ptsz_in13 => (to: In<u64>, from: In<u64>, sizes: In<usize>, count: usize, _attributes: In<u8>, _indices: In<usize>, _number: usize, on: Handle) {
        batch(to, from, sizes, count, Out::none(), stream(on))
    }
}

api! {
    /// A copy in stream order, whose attributes are hints.
    fn cudaMemcpyWithAttributesAsync | cudaMemcpyWithAttributesAsync_ptsz => (to: u64, from: u64, size: usize, _attributes: In<u8>, on: Handle) {
        let on = stream(on);
        copy_async(to, from, size, Direction::Default, on)
    }
}

/// An operand that is memory, and one that is an array.
const POINTER: u32 = 1;
const ARRAY: u32 = 2;
/// `cudaMemcpySrcAccessOrder`: in stream order, during the call, any.
const ORDERS: std::ops::RangeInclusive<u32> = 1..=3;

/// Memory, array and position of an operand of a copy with this extent. Row lengths count elements.
fn side(
    operand: &CopyOperand,
    copy: &BatchCopy3d,
    element: usize,
) -> Answer<(PitchedPointer, u64, Position)> {
    let none = PitchedPointer { address: 0, pitch: 0, width: 0, height: 0 };
    let zero = Position { x: 0, y: 0, z: 0 };
    let size = |number: u64| usize::try_from(number).map_err(|_| Error::INVALID_VALUE);
    let [first, second, third, fourth] = operand.values;
    match operand.kind {
        POINTER => {
            let (width, height) = (copy.extent.width, copy.extent.height);
            // 0 means without gaps.
            let or = |given: usize, least: usize| match given {
                0 => Ok(least),
                given if given >= least => Ok(given),
                _ => Err(Error::INVALID_VALUE),
            };
            let row = or(size(second)?, width)?.checked_mul(element).ok_or(Error::INVALID_VALUE)?;
            let pointer =
                PitchedPointer { address: first, pitch: row, width: row, height: or(size(third)?, height)? };
            Ok((pointer, 0, zero))
        }
        ARRAY => Ok((none, first, Position { x: size(second)?, y: size(third)?, z: size(fourth)? })),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// The size of an array's elements; 1 without an array.
fn element(copy: &BatchCopy3d) -> Answer<usize> {
    let array = [copy.source, copy.target].into_iter().find(|operand| operand.kind == ARRAY);
    array.map_or(Ok(1), |operand| super::array::element_of(operand.values[0]))
}

/// A copy of a batch, in stream order.
fn copy(copy: &BatchCopy3d, on: Handle) -> Answer {
    let extent = copy.extent;
    if extent.width == 0 || extent.height == 0 || extent.depth == 0 || !ORDERS.contains(&copy.order) {
        return Err(Error::INVALID_VALUE);
    }
    let element = element(copy)?;
    let (source, source_array, source_position) = side(&copy.source, copy, element)?;
    let (target, target_array, target_position) = side(&copy.target, copy, element)?;
    let parms = Copy3dParms {
        source_array,
        source_position,
        source,
        target_array,
        target_position,
        target,
        extent,
        kind: 4,
    };
    copy_slices(slices(&parms)?, Some(on))
}

fn batch_3d(count: usize, list: In<BatchCopy3d>, failed: Out<usize>, flags: u64, on: Handle) -> Answer {
    context()?;
    if flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    for (index, each) in list.list(count)?.iter().enumerate() {
        if let Err(error) = copy(each, on) {
            failed.offer(index);
            return Err(error);
        }
    }
    Ok(())
}

api! {
    /// Several copies of slices, in stream order.
    fn cudaMemcpy3DBatchAsync_in12 | cudaMemcpy3DBatchAsync_ptsz_in12 => (count: usize, list: In<BatchCopy3d>, failed: Out<usize>, flags: u64, on: Handle) {
        batch_3d(count, list, failed, flags, stream(on))
    }
}

api! {
    /// Several copies of slices, in stream order.
    fn cudaMemcpy3DBatchAsync_in13 | cudaMemcpy3DBatchAsync_ptsz_in13 => (count: usize, list: In<BatchCopy3d>, flags: u64, on: Handle) {
        batch_3d(count, list, Out::none(), flags, stream(on))
    }
}

api! {
    /// A copy of slices, in stream order, whose attributes are hints.
    fn cudaMemcpy3DWithAttributesAsync | cudaMemcpy3DWithAttributesAsync_ptsz => (each: In<BatchCopy3d>, flags: u64, on: Handle) {
        batch_3d(1, each, Out::none(), flags, stream(on))
    }
}
