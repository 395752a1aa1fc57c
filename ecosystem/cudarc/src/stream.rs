//! Streams, events, and host functions.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{CUevent_flags, CUresult};
use cudarc::driver::{CudaSlice, CudaStream, LaunchConfig, PushKernelArg, result, sys};

use crate::{Done, kernel, refused};

/// The number of a stream.
fn id(stream: &CudaStream) -> Result<u64, cudarc::driver::DriverError> {
    let mut id = 0;
    // SAFETY: the stream is there, and so is a place for the answer.
    unsafe { sys::cuStreamGetId(stream.cu_stream(), &raw mut id) }.result()?;
    Ok(id)
}

pub fn streams() -> Done {
    let (context, step) = kernel("step")?;
    let (low, high) = result::stream::get_priority_range()?;
    assert!(high <= low, "{high} is before {low}");
    let urgent = context.new_stream_with_priority(high)?;
    let mut priority = 1;
    // SAFETY: the stream is there, and so is a place for the answer.
    unsafe { sys::cuStreamGetPriority(urgent.cu_stream(), &raw mut priority) }.result()?;
    assert_eq!(priority, high);
    let one = context.new_stream()?;
    let other = one.fork()?;
    assert_ne!(id(&one)?, id(&other)?);
    assert_ne!(id(&one)?, id(&context.default_stream())?);
    // One stream reads what the other wrote, after waiting for it.
    let numbers: Vec<u32> = (0..300).collect();
    let mut x = one.clone_htod(&numbers)?;
    let config = LaunchConfig::for_num_elems(300);
    for (round, stream) in [&one, &other, &one, &other].into_iter().enumerate() {
        let by = u32::try_from(round)?;
        // SAFETY: the arguments are those of the kernel.
        unsafe { stream.launch_builder(&step).arg(&mut x).arg(&by).arg(&300).launch(config) }?;
    }
    one.join(&other)?;
    let want: Vec<u32> = numbers.iter().map(|x| (0..4).fold(*x, |x, by| x * 3 + by)).collect();
    assert_eq!(one.clone_dtoh(&x)?, want);
    // SAFETY: the stream is there.
    unsafe { sys::cuStreamQuery(one.cu_stream()) }.result()?;
    // SAFETY: a stream of our own, which is destroyed once and then tested as an invalid handle.
    unsafe {
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        result::stream::destroy(raw)?;
        refused(result::stream::synchronize(raw), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    Ok(())
}

pub fn per_thread() -> Done {
    let (context, step) = kernel("step")?;
    let mine = id(&context.per_thread_stream())?;
    assert_ne!(mine, id(&context.default_stream())?);
    assert_eq!(mine, id(&context.per_thread_stream())?);
    let threads: Vec<_> = (0..4u32)
        .map(|by| {
            let (context, step) = (context.clone(), step.clone());
            std::thread::spawn(move || {
                context.bind_to_thread().unwrap();
                let stream = context.per_thread_stream();
                let mut x: CudaSlice<u32> = stream.alloc_zeros(64).unwrap();
                let config = LaunchConfig::for_num_elems(64);
                // SAFETY: the arguments are those of the kernel.
                unsafe { stream.launch_builder(&step).arg(&mut x).arg(&by).arg(&64).launch(config) }.unwrap();
                assert_eq!(stream.clone_dtoh(&x).unwrap(), [by; 64]);
                id(&stream).unwrap()
            })
        })
        .collect();
    let mut ids = vec![mine];
    for thread in threads {
        ids.push(thread.join().map_err(|_| "a thread failed")?);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5, "every thread has a stream of its own");
    Ok(())
}

pub fn events() -> Done {
    let (context, step) = kernel("step")?;
    let stream = context.new_stream()?;
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let (start, end) = (context.new_event(timed)?, context.new_event(timed)?);
    // An event that was never recorded is complete, and has no time.
    assert!(start.is_complete());
    refused(start.elapsed_ms(&end), CUresult::CUDA_ERROR_INVALID_HANDLE);
    let mut x: CudaSlice<u32> = stream.alloc_zeros(4096)?;
    start.record(&stream)?;
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream.launch_builder(&step).arg(&mut x).arg(&1).arg(&4096).launch(LaunchConfig::for_num_elems(4096))
    }?;
    end.record(&stream)?;
    end.synchronize()?;
    let time = start.elapsed_ms(&end)?;
    assert!(time > 0.0, "a launch takes some time, not {time} ms");
    assert!((start.elapsed_ms(&start)?).abs() < 1e-9);
    let untimed = context.new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
    untimed.record(&stream)?;
    refused(start.elapsed_ms(&untimed), CUresult::CUDA_ERROR_INVALID_HANDLE);
    let other = context.new_stream()?;
    other.wait(&end)?;
    assert_eq!(other.clone_dtoh(&x)?, [1; 4096]);
    Ok(())
}

/// Increments a number of the program.
unsafe extern "C" fn count(number: *mut c_void) {
    // SAFETY: the program passed a pointer to its number.
    unsafe { &*number.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

pub fn host_functions() -> Done {
    let (context, step) = kernel("step")?;
    let stream = context.new_stream()?;
    let called = Arc::new(AtomicU32::new(0));
    let mut x: CudaSlice<u32> = stream.alloc_zeros(32)?;
    for by in 0..5u32 {
        // SAFETY: the arguments are those of the kernel; the number outlives the stream's work.
        unsafe {
            stream
                .launch_builder(&step)
                .arg(&mut x)
                .arg(&by)
                .arg(&32)
                .launch(LaunchConfig::for_num_elems(32))?;
            result::stream::launch_host_function(
                stream.cu_stream(),
                count,
                Arc::as_ptr(&called).cast_mut().cast(),
            )?;
        }
    }
    stream.synchronize()?;
    assert_eq!(called.load(Ordering::SeqCst), 5);
    assert_eq!(stream.clone_dtoh(&x)?, [(0..5).fold(0, |x: u32, by| x * 3 + by); 32]);
    Ok(())
}
