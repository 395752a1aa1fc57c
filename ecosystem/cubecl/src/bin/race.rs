//! A kernel with a planted race: units read their neighbor's element of shared memory without a barrier.

use cubecl::cuda::{CudaDevice, CudaRuntime};
use cubecl::prelude::*;

#[cube(launch)]
fn shift(input: &Array<u32>, output: &mut Array<u32>) {
    let mut tile = SharedMemory::<u32>::new(64usize);
    let unit = UNIT_POS as usize;
    tile[unit] = input[unit];
    // The mistake: sync_cube() belongs here.
    output[unit] = tile[(unit + 1) % 64];
}

fn main() {
    let client = CudaRuntime::client(&CudaDevice::default());
    let numbers: Vec<u32> = (0..64).map(|i| i * i).collect();
    let input = client.create_from_slice(u32::as_bytes(&numbers));
    let output = client.empty(size_of_val(&numbers[..]));
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        shift::launch::<CudaRuntime>(
            &client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(64),
            ArrayArg::from_raw_parts(input, 64),
            ArrayArg::from_raw_parts(output.clone(), 64),
        );
    }
    let bytes = client.read_one_unchecked(output);
    let right = u32::from_bytes(&bytes).iter().enumerate().filter(|(i, x)| **x == numbers[(i + 1) % 64]).count();
    println!("{right} of 64 are right");
}
