//! Virtual memory management: reserved addresses, physical memory, mappings and access.

use warpproof_driver::abi::AllocationProp;
use warpproof_driver::api::{self, AccessDescription};

use crate::program::{PTX, download, from, kernel, launch, null, out, start};
use crate::{answer, ok};

/// Physical memory of the first device.
const PROPERTIES: AllocationProp =
    AllocationProp { kind: 1, handles: 0, location: 1, id: 0, attributes: 0, flags: 0 };

fn properties() -> api::In<AllocationProp> {
    from(std::slice::from_ref(&PROPERTIES))
}

fn granularity() -> usize {
    let mut size = 0;
    ok!(api::cuMemGetAllocationGranularity(out(&mut size), properties(), 0));
    size
}

/// Reserves a range of two units.
fn reserve() -> u64 {
    let mut base = 0;
    ok!(api::cuMemAddressReserve(out(&mut base), 2 * granularity(), 0, 0, 0));
    base
}

/// Maps one new unit of physical memory and returns its handle.
fn map(address: u64) -> u64 {
    let mut handle = 0;
    ok!(api::cuMemCreate(out(&mut handle), granularity(), properties(), 0));
    ok!(api::cuMemMap(address, granularity(), 0, handle, 0));
    handle
}

fn allow(address: u64, size: usize, flags: u32) -> u32 {
    let description = AccessDescription { location: 1, id: 0, flags };
    answer!(api::cuMemSetAccess(address, size, from(std::slice::from_ref(&description)), 1))
}

#[test]
fn mapped_memory_is_used_across_its_parts_and_keeps_its_contents() {
    start();
    let mut supported = 0;
    ok!(api::cuDeviceGetAttribute(out(&mut supported), 102, 0));
    assert_eq!(supported, 1);
    let (unit, base) = (granularity(), reserve());
    let middle = base + u64::try_from(unit).unwrap();
    let handles = [map(base), map(middle)];
    assert_eq!(allow(base, 2 * unit, 3), 0);
    // A memset, a copy and a kernel across the border of the two.
    let start = middle - 16;
    ok!(api::cuMemsetD32_v2(start, 1.0f32.to_bits(), 8));
    let add = kernel(PTX, "add");
    assert_eq!(launch(add, 8, start, 2, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(start, 8), [3.0; 8]);

    let (mut flags, mut again, mut found) = (9u64, 0u64, AllocationProp::default());
    ok!(api::cuMemGetAccess(out(&mut flags), from(&[[1, 0]]), middle + 4));
    assert_eq!(flags, 3);
    ok!(api::cuMemRetainAllocationHandle(
        out(&mut again),
        std::ptr::without_provenance(usize::try_from(middle).unwrap() + 8)
    ));
    assert_eq!(again, handles[1]);
    ok!(api::cuMemGetAllocationPropertiesFromHandle(out(&mut found), again));
    assert_eq!(found, PROPERTIES);
    // Only whole mappings end; addresses with mappings stay reserved, and memory that is mapped cannot be freed.
    assert_eq!(answer!(api::cuMemUnmap(base, unit / 2)), 1);
    assert_eq!(answer!(api::cuMemAddressFree(base, 2 * unit)), 1);
    assert_eq!(answer!(api::cuMemFree_v2(base)), 1);

    // The second part moves to another address with its contents.
    ok!(api::cuMemUnmap(middle, unit));
    let other = reserve();
    ok!(api::cuMemMap(other, unit, 0, handles[1], 0));
    assert_eq!(answer!(api::cuMemMap(other + u64::try_from(unit).unwrap(), unit, 0, handles[1], 0)), 801);
    assert_eq!(allow(other, unit, 3), 0);
    assert_eq!(download(other, 4), [3.0; 4]);

    // Memory is returned when neither a mapping nor a handle is left.
    let (mut free, mut total) = (0, 0);
    ok!(api::cuMemGetInfo_v2(out(&mut free), out(&mut total)));
    assert_eq!(total - free, 2 * unit);
    for handle in [handles[0], handles[1], handles[1]] {
        ok!(api::cuMemRelease(handle));
    }
    ok!(api::cuMemUnmap(base, unit));
    ok!(api::cuMemUnmap(other, unit));
    ok!(api::cuMemGetInfo_v2(out(&mut free), out(&mut total)));
    assert_eq!(total - free, 0);
    assert_eq!(answer!(api::cuMemRelease(handles[0])), 1);
    ok!(api::cuMemAddressFree(base, 2 * unit));
    ok!(api::cuMemAddressFree(other, 2 * unit));
}

#[test]
fn reserved_addresses_without_memory_are_out_of_reach() {
    start();
    let base = reserve();
    let mut pointer = [0f32];
    assert_eq!(answer!(api::cuMemcpyDtoH_v2(pointer.as_mut_ptr().cast(), base, 4)), 1);
    let add = kernel(PTX, "add");
    assert_eq!(launch(add, 1, base, 1, null()), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 700);
}

#[test]
fn mapped_memory_without_access_is_out_of_reach() {
    start();
    let base = reserve();
    map(base);
    // Access is granted to whole mappings.
    assert_eq!(allow(base, 2 * granularity(), 3), 1);
    assert_eq!(allow(base, granularity(), 1), 801);
    assert_eq!(answer!(api::cuMemsetD32_v2(base, 0, 4)), 1);
    let add = kernel(PTX, "add");
    assert_eq!(launch(add, 1, base, 1, null()), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 700);
}

#[test]
fn memory_that_was_mapped_and_never_written_is_uninitialized() {
    // SAFETY: this process has one thread yet.
    unsafe { std::env::set_var("WARPPROOF_FAIL", "1") };
    start();
    let base = reserve();
    map(base);
    assert_eq!(allow(base, granularity(), 3), 0);
    let add = kernel(PTX, "add");
    assert_eq!(launch(add, 1, base, 1, null()), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 719);
}
