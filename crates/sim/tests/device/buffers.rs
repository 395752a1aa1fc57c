//! The interface of a device: buffers of every type, and what does not fit.

use warpproof_sim::{Bf16, Device, E4m3, E5m2, Element, F16, HeapError};

#[test]
fn values_that_do_not_fit_are_refused() {
    let mut device = Device::new();
    let buffer = device.upload(&[1u32, 2, 3]).unwrap();
    device.write(&buffer, &[7]).unwrap();
    assert_eq!(device.read(&buffer).unwrap(), [7, 2, 3]);
    let error = device.write(&buffer, &[0; 4]).unwrap_err();
    assert_eq!(error, HeapError::TooLong { given: 4, room: 3 });
    assert_eq!(error.to_string(), "4 values do not fit in a buffer of 3");
    assert_eq!(device.read(&buffer).unwrap(), [7, 2, 3]);
    device.free(buffer).unwrap();
    assert_eq!(device.read(&buffer), Err(HeapError::Freed(buffer.address())));
    let error = device.write(&buffer, &[1]).unwrap_err();
    assert_eq!(error.to_string(), format!("the buffer at {:#x} was freed", buffer.address()));
    let other = Device::new();
    assert_eq!(other.read(&buffer), Err(HeapError::NotAllocated(buffer.address())));
    let empty = device.upload::<u8>(&[]).unwrap();
    assert!(device.read(&empty).unwrap().is_empty());
}

#[test]
fn narrow_values_reach_memory_with_their_own_size() {
    fn stored<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) -> Vec<u8> {
        let mut device = Device::new();
        let buffer = device.upload(values).unwrap();
        assert_eq!(device.read(&buffer).unwrap(), values);
        device.memory().read(buffer.address(), values.len() * T::BYTES).unwrap().to_vec()
    }
    assert_eq!(stored(&[1.0, -2.0].map(F16::from_f32)), [0x00, 0x3c, 0x00, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(Bf16::from_f32)), [0x80, 0x3f, 0x00, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(E4m3::from_f32)), [0x38, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(E5m2::from_f32)), [0x3c, 0xc0]);
}
