//! Memory: of the device, in the order of streams, pinned and managed; copies and fills.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cudarc::driver::sys::{
    CUmemPool_attribute as PoolAttribute, CUmemorytype, CUpointer_attribute, CUresult,
};
use cudarc::driver::{CudaContext, CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, result, sys};

use crate::{Done, kernel, opened, refused};

pub fn buffers() -> Done {
    let (context, scale) = kernel("scale")?;
    let stream = context.default_stream();
    let before = context.mem_get_info()?.0;
    let numbers: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let mut x = stream.clone_htod(&numbers)?;
    assert!(context.mem_get_info()?.0 <= before - 4000);
    // A part of a buffer, modified in place.
    let by = 3.0f32;
    {
        let mut middle = x.slice_mut(100..200);
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream
                .launch_builder(&scale)
                .arg(&mut middle)
                .arg(&by)
                .arg(&100)
                .launch(LaunchConfig::for_num_elems(100))
        }?;
    }
    let want: Vec<f32> =
        numbers.iter().enumerate().map(|(i, x)| if (100..200).contains(&i) { x * by } else { *x }).collect();
    assert_eq!(stream.clone_dtoh(&x)?, want);
    let copy = x.try_clone()?;
    let (left, right) = copy.split_at(600);
    let mut joined: CudaSlice<f32> = stream.alloc_zeros(1000)?;
    stream.memcpy_dtod(&right, &mut joined.slice_mut(..400))?;
    stream.memcpy_dtod(&left, &mut joined.slice_mut(400..))?;
    let mut back = vec![0.0; 1000];
    stream.memcpy_dtoh(&joined, &mut back)?;
    assert_eq!(back[..400], want[600..]);
    assert_eq!(back[400..], want[..600]);
    stream.memset_zeros(&mut x.slice_mut(..10))?;
    assert_eq!(stream.clone_dtoh(&x)?[..12], [[0.0; 10].as_slice(), &[10.0, 11.0]].concat());
    drop((x, copy, joined));
    stream.synchronize()?;
    assert_eq!(context.mem_get_info()?.0, before);
    // SAFETY: memory of our own, freed once, and not used afterward.
    unsafe {
        refused(result::malloc_sync(0), CUresult::CUDA_ERROR_INVALID_VALUE);
        let place = result::malloc_sync(64)?;
        refused(result::memcpy_htod_sync(place, &[0u8; 65]), CUresult::CUDA_ERROR_INVALID_VALUE);
        result::free_sync(place)?;
        refused(result::free_sync(place), CUresult::CUDA_ERROR_INVALID_VALUE);
        refused(result::memcpy_htod_sync(place, &[0u8; 8]), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

pub fn fills() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let mut back = [0u8; 64];
    // SAFETY: everything stays within the memory that was allocated.
    unsafe {
        let place = result::malloc_sync(64)?;
        result::memset_d8_sync(place, 0xab, 64)?;
        sys::cuMemsetD16_v2(place + 8, 0x1234, 4).result()?;
        sys::cuMemsetD32_v2(place + 32, 0xdead_beef, 2).result()?;
        // The stream does not wait for the default stream, nor the default stream for it.
        context.synchronize()?;
        result::memset_d8_async(place + 63, 1, 1, stream.cu_stream())?;
        context.synchronize()?;
        // A rectangle of two rows of one word, 16 bytes apart.
        sys::cuMemsetD2D32_v2(place + 44, 16, 7, 1, 2).result()?;
        refused(sys::cuMemsetD32_v2(place + 2, 0, 1).result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        result::memcpy_dtoh_sync(&mut back, place)?;
        result::free_sync(place)?;
    }
    let mut want = [0xab; 64];
    want[8..16].copy_from_slice(&[0x34, 0x12].repeat(4));
    want[32..40].copy_from_slice(&0xdead_beef_u32.to_le_bytes().repeat(2));
    want[44..48].copy_from_slice(&7u32.to_le_bytes());
    want[60..64].copy_from_slice(&7u32.to_le_bytes());
    assert_eq!(back[..63], want[..63]);
    Ok(())
}

/// A copy of rows between the host and the device.
fn rectangle(width: usize, height: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: null(),
        srcDevice: 0,
        srcArray: null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: 0,
        dstArray: null_mut(),
        dstPitch: 0,
        WidthInBytes: width,
        Height: height,
    }
}

pub fn rectangles() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (width, height) = (20, 7);
    let numbers: Vec<u8> = (0..140).collect();
    let (mut place, mut pitch) = (0, 0);
    // SAFETY: a place for each answer.
    unsafe { sys::cuMemAllocPitch_v2(&raw mut place, &raw mut pitch, width, height, 4) }.result()?;
    assert!(pitch >= width && pitch % 4 == 0);
    let to = sys::CUDA_MEMCPY2D {
        srcHost: numbers.as_ptr().cast(),
        srcPitch: width,
        dstDevice: place,
        dstPitch: pitch,
        ..rectangle(width, height)
    };
    // Out again, a part of it: 5 rows from the second, 8 bytes from the sixth, in the other order of the host's pitch.
    let mut part = [0u8; 5 * 10];
    let from = sys::CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: place,
        srcPitch: pitch,
        srcXInBytes: 6,
        srcY: 2,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: part.as_mut_ptr().cast(),
        dstPitch: 10,
        ..rectangle(8, 5)
    };
    // SAFETY: the rectangles are those of the memory on both sides.
    unsafe {
        sys::cuMemcpy2D_v2(&raw const to).result()?;
        sys::cuMemcpy2DAsync_v2(&raw const from, stream.cu_stream()).result()?;
    }
    stream.synchronize()?;
    for (row, bytes) in part.chunks(10).enumerate() {
        let at = (row + 2) * width + 6;
        assert_eq!(bytes[..8], numbers[at..at + 8]);
        assert_eq!(bytes[8..], [0, 0]);
    }
    let narrow = sys::CUDA_MEMCPY2D { srcPitch: width - 1, ..to };
    // SAFETY: it is rejected: its rows would overlap.
    refused(unsafe { sys::cuMemcpy2D_v2(&raw const narrow) }.result(), CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: memory of our own.
    unsafe { result::free_sync(place) }?;
    Ok(())
}

/// An attribute of 8 bytes.
fn bytes(pool: sys::CUmemoryPool, attribute: PoolAttribute) -> Result<u64, cudarc::driver::DriverError> {
    let mut value = 0u64;
    // SAFETY: the pool exists, and the attribute is of this size.
    unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) }.result()?;
    Ok(value)
}

pub fn pools() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    assert!(context.has_async_alloc());
    // SAFETY: the device exists; the properties are plain numbers, of which zero means none.
    let (default, own) = unsafe {
        let mut properties: sys::CUmemPoolProps = std::mem::zeroed();
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let mut pool = null_mut();
        sys::cuMemPoolCreate(&raw mut pool, &raw const properties).result()?;
        (result::device::get_default_mem_pool(context.cu_device())?, pool)
    };
    assert_ne!(default, own);
    let used = |pool| bytes(pool, PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    let most = |pool| bytes(pool, PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    let mut keep = 1u64 << 30;
    let threshold = PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pools and the stream exist; every allocation is freed once.
    unsafe {
        sys::cuMemPoolSetAttribute(own, threshold, (&raw mut keep).cast()).result()?;
        assert_eq!(bytes(own, threshold)?, keep);
        let mut place = 0;
        sys::cuMemAllocFromPoolAsync(&raw mut place, 1 << 16, own, stream.cu_stream()).result()?;
        assert_eq!((used(own)?, used(default)?), (1 << 16, 0));
        let other = result::malloc_async(stream.cu_stream(), 1 << 12)?;
        assert_eq!((used(own)?, used(default)?), (1 << 16, 1 << 12));
        result::memset_d8_async(place, 5, 1 << 16, stream.cu_stream())?;
        let mut back = [0u8; 16];
        result::memcpy_dtoh_async(&mut back, place, stream.cu_stream())?;
        stream.synchronize()?;
        assert_eq!(back, [5; 16]);
        result::free_async(place, stream.cu_stream())?;
        result::free_async(other, stream.cu_stream())?;
        // The high-water mark stays until it is reset to 0.
        assert_eq!((used(own)?, most(own)?), (0, 1 << 16));
        let mut nothing = 0u64;
        let high = PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        sys::cuMemPoolSetAttribute(own, high, (&raw mut nothing).cast()).result()?;
        assert_eq!(most(own)?, 0);
        sys::cuMemPoolTrimTo(own, 0).result()?;
        assert_eq!(bytes(own, PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?, 0);
        // Memory of a device's current pool.
        sys::cuDeviceSetMemPool(context.cu_device(), own).result()?;
        let place = result::malloc_async(stream.cu_stream(), 256)?;
        assert_eq!(used(own)?, 256);
        result::free_async(place, stream.cu_stream())?;
        refused(sys::cuMemPoolDestroy(default).result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuMemPoolDestroy(own).result()?;
    }
    Ok(())
}

pub fn pinned() -> Done {
    let (context, scale) = kernel("scale")?;
    let stream = context.new_stream()?;
    // SAFETY: floats of any bits are floats.
    let mut host = unsafe { context.alloc_pinned::<f32>(500) }?;
    for (i, x) in host.as_mut_slice()?.iter_mut().enumerate() {
        *x = f32::from(u16::try_from(i)?);
    }
    let mut x = stream.clone_htod(&host)?;
    let by = 0.5f32;
    let config = LaunchConfig::for_num_elems(500);
    // SAFETY: the arguments are those of the kernel.
    unsafe { stream.launch_builder(&scale).arg(&mut x).arg(&by).arg(&500).launch(config) }?;
    stream.memcpy_dtoh(&x, &mut host)?;
    stream.synchronize()?;
    for (i, x) in host.as_slice()?.iter().enumerate() {
        assert_eq!(*x, f32::from(u16::try_from(i)?) * by);
    }
    // Registered memory of the program: kernels access it directly.
    let mut own = vec![2.0f32; 4096];
    let pointer: *mut c_void = own.as_mut_ptr().cast();
    let mut place = 0;
    // SAFETY: the memory is our own, and stays until it is unregistered.
    unsafe {
        sys::cuMemHostRegister_v2(pointer, 4 * 4096, 0).result()?;
        refused(
            sys::cuMemHostRegister_v2(pointer, 4 * 4096, 0).result(),
            CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        );
        sys::cuMemHostGetDevicePointer_v2(&raw mut place, pointer, 0).result()?;
        stream
            .launch_builder(&scale)
            .arg(&place)
            .arg(&by)
            .arg(&4096)
            .launch(LaunchConfig::for_num_elems(4096))?;
        stream.synchronize()?;
        sys::cuMemHostUnregister(pointer).result()?;
        refused(sys::cuMemHostUnregister(pointer).result(), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    }
    assert_eq!(own, [1.0; 4096]);
    Ok(())
}

pub fn managed() -> Done {
    let (context, scale) = kernel("scale")?;
    let stream = context.default_stream();
    // SAFETY: floats of any bits are floats.
    let mut x = unsafe { context.alloc_unified::<f32>(300, true) }?;
    x.as_mut_slice()?.iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 0 { 1.0 } else { -2.0 });
    for _ in 0..3 {
        x.prefetch()?;
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream
                .launch_builder(&scale)
                .arg(&mut x)
                .arg(&2.0f32)
                .arg(&300)
                .launch(LaunchConfig::for_num_elems(300))
        }?;
        stream.synchronize()?;
        // The host adds to what the kernel wrote, through the same pointer.
        x.as_mut_slice()?.iter_mut().for_each(|x| *x += 1.0);
    }
    let want = |x: f32| (0..3).fold(x, |x, _| x * 2.0 + 1.0);
    assert!(x.as_slice()?.iter().enumerate().all(|(i, x)| *x == want(if i % 2 == 0 { 1.0 } else { -2.0 })));
    Ok(())
}

/// An attribute of a pointer.
fn attribute<T: Default>(
    pointer: u64,
    attribute: CUpointer_attribute,
) -> Result<T, cudarc::driver::DriverError> {
    let mut value = T::default();
    // SAFETY: the attribute is of this type.
    unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, pointer) }.result()?;
    Ok(value)
}

pub fn pointers() -> Done {
    use CUpointer_attribute as Attribute;
    let (context, module) = opened()?;
    let stream = context.default_stream();
    let x: CudaSlice<u32> = stream.alloc_zeros(100)?;
    let place = x.device_ptr(&stream).0;
    let kind = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(attribute::<u32>(place + 8, kind)?, 2);
    assert_eq!(attribute::<u64>(place + 8, Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)?, place);
    assert_eq!(attribute::<usize>(place, Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE)?, 400);
    assert_eq!(attribute::<u32>(place, Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED)?, 0);
    assert_eq!(attribute::<i32>(place, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?, context.cu_device());
    let (mut base, mut size) = (0, 0);
    // SAFETY: places for the answers.
    unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, place + 399) }.result()?;
    assert_eq!((base, size), (place, 400));
    // Variables of a module are memory of the device too.
    let counter = module.get_global("counter", &stream)?;
    let variable = counter.device_ptr(&stream).0;
    assert_eq!(attribute::<u32>(variable, kind)?, 2);
    assert_eq!(
        attribute::<i32>(variable, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?,
        context.cu_device()
    );
    assert_eq!(attribute::<u64>(variable, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER)?, variable);
    // Pinned memory belongs to the host; managed memory to host and devices.
    // SAFETY: memory of our own, freed once.
    unsafe {
        let host = result::malloc_host(64, 0)?;
        let address = u64::try_from(host.addr())?;
        assert_eq!(attribute::<u32>(address, kind)?, 1);
        assert_eq!(attribute::<usize>(address, Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER)?, host.addr());
        result::free_host(host)?;
        refused(attribute::<u32>(address, kind), CUresult::CUDA_ERROR_INVALID_VALUE);
        let managed = result::malloc_managed(64, sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL)?;
        assert_eq!(attribute::<u32>(managed, Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED)?, 1);
        result::free_sync(managed)?;
    }
    Ok(())
}
