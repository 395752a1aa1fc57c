//! Tensor maps for `cp.async.bulk.tensor`. The rules and the encoding are those of the simulator.

use std::ffi::{c_int, c_void};

use warpproof_diagnostic::host::HostClass;
use warpproof_sim::tensor_map::{
    BYTES, Columns, DataType, Fill, Interleave, Invalid, Mode, RANK, Swizzle, TensorMap,
};

use super::{In, Out, address, driver};
use crate::abi::{Answer, Error};
use crate::report::HostFinding;
use crate::site::Site;

/// The 128 bytes of a map.
type Bytes = [u8; BYTES];

/// The arguments that all functions have.
struct Common {
    data_type: c_int,
    rank: u32,
    address: *mut c_void,
    dims: In<u64>,
    strides: In<u64>,
    element_strides: In<u32>,
    interleave: c_int,
    swizzle: c_int,
    promotion: c_int,
    fill: c_int,
}

fn invalid(argument: &str, reason: impl Into<String>) -> Invalid {
    Invalid { argument: argument.to_owned(), reason: reason.into() }
}

/// The first values of an array, the rest like `rest`.
fn list<T: Copy, const N: usize>(
    name: &str,
    values: In<T>,
    count: usize,
    rest: T,
) -> Result<[T; N], Invalid> {
    if values.is_null() && count > 0 {
        return Err(invalid(name, "is a null pointer"));
    }
    let given = values.list(count.min(N)).map_err(|_| invalid(name, "is a null pointer"))?;
    Ok(std::array::from_fn(|i| given.get(i).copied().unwrap_or(rest)))
}

/// The value of an enumeration.
fn chosen<T>(name: &str, number: c_int, of: impl Fn(u32) -> Option<T>) -> Result<T, Invalid> {
    let found = u32::try_from(number).ok().and_then(of);
    found.ok_or_else(|| invalid(name, format!("is {number}, which the enumeration does not have")))
}

impl Common {
    /// The map, with what a copy visits.
    fn map(&self, mode: impl FnOnce(usize) -> Result<Mode, Invalid>) -> Result<TensorMap, Invalid> {
        let Some(rank) = usize::try_from(self.rank).ok().filter(|rank| (1..=RANK).contains(rank)) else {
            return Err(invalid("tensorRank", format!("must be from 1 to 5, found {}", self.rank)));
        };
        let promotion = u8::try_from(self.promotion).unwrap_or(u8::MAX);
        Ok(TensorMap {
            data_type: chosen("tensorDataType", self.data_type, DataType::from_number)?,
            rank: self.rank,
            address: address(self.address),
            dims: list("globalDim", self.dims, rank, 1)?,
            strides: list("globalStrides", self.strides, rank - 1, 0)?,
            element_strides: list("elementStrides", self.element_strides, rank, 1)?,
            interleave: chosen("interleave", self.interleave, Interleave::from_number)?,
            swizzle: chosen("swizzle", self.swizzle, Swizzle::from_number)?,
            promotion,
            fill: chosen("oobFill", self.fill, Fill::from_number)?,
            mode: mode(rank)?,
        })
    }
}

/// Writes the map, or reports the argument that is wrong. `since` is the first compute capability with the function.
fn encode(
    name: &str,
    since: u32,
    place: Out<Bytes>,
    map: impl FnOnce() -> Result<TensorMap, Invalid>,
) -> Answer {
    let mut driver = driver();
    let (device, _) = driver.current()?;
    let sm = driver.devices[device].sm();
    let encoded = if sm < since {
        let wanted = format!("{}.{}", since / 10, since % 10);
        Err(invalid(
            name,
            format!("needs a device of compute capability {wanted}, found {}.{}", sm / 10, sm % 10),
        ))
    } else if place.is_null() {
        Err(invalid("tensorMap", "is a null pointer"))
    } else if !place.number().is_multiple_of(64) {
        Err(invalid("tensorMap", format!("must be at a multiple of 64, found {:#x}", place.number())))
    } else {
        map().and_then(|map| {
            let packed =
                sm < 100 && (map.data_type.is_packed() || map.swizzle.number() > Swizzle::Bytes128.number());
            if packed {
                let argument = if map.data_type.is_packed() { "tensorDataType" } else { "swizzle" };
                return Err(invalid(argument, "needs a device of compute capability 10.0"));
            }
            map.encode()
        })
    };
    match encoded {
        Ok(bytes) => place.put(bytes),
        Err(error) => {
            let finding = HostFinding::new(HostClass::InvalidTensorMap, format!("{name}: {error}"))
                .at("the call", Site::here())
                .note("the call returns CUDA_ERROR_INVALID_VALUE and does not write the tensor map");
            driver.report_host(&finding);
            Err(Error::INVALID_VALUE)
        }
    }
}

api! {
    /// Makes a tensor map for boxes.
    fn cuTensorMapEncodeTiled => (
        place: Out<Bytes>, data_type: c_int, rank: u32, address: *mut c_void, dims: In<u64>, strides: In<u64>,
        sizes: In<u32>, element_strides: In<u32>, interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int,
    ) {
        let common = Common { data_type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill };
        encode("cuTensorMapEncodeTiled", 90, place, || {
            common.map(|rank| Ok(Mode::Tiled { sizes: list("boxDim", sizes, rank, 1)? }))
        })
    }
}

api! {
    /// Makes a tensor map for im2col copies.
    fn cuTensorMapEncodeIm2col => (
        place: Out<Bytes>, data_type: c_int, rank: u32, address: *mut c_void, dims: In<u64>, strides: In<u64>,
        lower: In<c_int>, upper: In<c_int>, channels: u32, pixels: u32, element_strides: In<u32>, interleave: c_int,
        swizzle: c_int, promotion: c_int, fill: c_int,
    ) {
        let common = Common { data_type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill };
        encode("cuTensorMapEncodeIm2col", 90, place, || {
            common.map(|rank| {
                let count = rank.saturating_sub(2);
                let lower = list("pixelBoxLowerCorner", lower, count, 0)?;
                let upper = list("pixelBoxUpperCorner", upper, count, 0)?;
                Ok(Mode::Im2col(Columns { lower, upper, channels, pixels }))
            })
        })
    }
}

api! {
    /// Makes a tensor map for im2col copies along W.
    fn cuTensorMapEncodeIm2colWide => (
        place: Out<Bytes>, data_type: c_int, rank: u32, address: *mut c_void, dims: In<u64>, strides: In<u64>,
        lower: c_int, upper: c_int, channels: u32, pixels: u32, element_strides: In<u32>, interleave: c_int, mode: c_int,
        swizzle: c_int, promotion: c_int, fill: c_int,
    ) {
        let common = Common { data_type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill };
        encode("cuTensorMapEncodeIm2colWide", 100, place, || {
            common.map(|_| {
                let w128 = chosen("mode", mode, |mode| (mode <= 1).then_some(mode == 1))?;
                let columns = Columns { lower: [lower, 0, 0], upper: [upper, 0, 0], channels, pixels };
                Ok(Mode::Im2colWide { columns, w128 })
            })
        })
    }
}

api! {
    /// Changes the address in a tensor map.
    fn cuTensorMapReplaceAddress => (place: Out<Bytes>, base: *mut c_void) {
        encode("cuTensorMapReplaceAddress", 90, place, || {
            let bytes = place.read().get().map_err(|_| invalid("tensorMap", "is a null pointer"))?;
            let map = TensorMap::decode(&bytes).map_err(|error| invalid("tensorMap", format!("is not valid: {error}")))?;
            Ok(TensorMap { address: address(base), ..map })
        })
    }
}
