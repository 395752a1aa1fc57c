//! Many threads, and many processes.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cudarc::driver::{CudaSlice, LaunchConfig, PushKernelArg};

use crate::{Done, opened};

/// A number from the environment.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Launches steps on a stream of this thread until the time is up, and compares every result with the CPU's.
fn steps(thread: u32, until: Instant) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let (context, module) = opened()?;
    let (step, sum) = (module.load_function("step")?, module.load_function("sum")?);
    let stream = context.new_stream()?;
    let length = 64 + 32 * usize::try_from(thread)?;
    let count = i32::try_from(length)?;
    let config = LaunchConfig::for_num_elems(u32::try_from(length)?);
    let mut x: CudaSlice<u32> = stream.alloc_zeros(length)?;
    let ones = stream.clone_htod(&vec![1i32; length])?;
    let (mut want, mut launches) = (0u32, 0u64);
    while launches == 0 || Instant::now() < until {
        for _ in 0..16 {
            let by = thread.wrapping_mul(2_654_435_761).wrapping_add(u32::try_from(launches % 1000)?);
            // SAFETY: the arguments are those of the kernel.
            unsafe { stream.launch_builder(&step).arg(&mut x).arg(&by).arg(&count).launch(config) }?;
            want = want.wrapping_mul(3).wrapping_add(by);
            launches += 1;
        }
        // Memory is allocated and freed meanwhile.
        let mut total: CudaSlice<i32> = stream.alloc_zeros(1)?;
        let sums = LaunchConfig { grid_dim: (8, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 256 };
        // SAFETY: likewise.
        unsafe { stream.launch_builder(&sum).arg(&ones).arg(&mut total).arg(&count).launch(sums) }?;
        launches += 1;
        if stream.clone_dtoh(&x)? != vec![want; length] || stream.clone_dtoh(&total)? != [count] {
            return Err(format!("thread {thread} lost a result after {launches} launches").into());
        }
    }
    Ok(launches)
}

/// Ten threads on ten streams, for a minute or for `THREAD_SECONDS`.
pub fn threads() -> Done {
    let seconds = asked("THREAD_SECONDS", 60);
    let until = Instant::now() + Duration::from_secs(seconds);
    let all: Vec<_> = (0..10).map(|thread| std::thread::spawn(move || steps(thread, until))).collect();
    let mut launches = Vec::new();
    for thread in all {
        launches.push(thread.join().map_err(|_| "a thread failed")?.map_err(|error| error.to_string())?);
    }
    println!("threads: 10 for {seconds} s, {} launches, none lost", launches.iter().sum::<u64>());
    // No thread starved.
    assert!(launches.iter().all(|count| *count > 0));
    Ok(())
}

/// A hundred processes at once, or `PROCESSES`; each runs this program.
pub fn processes() -> Done {
    if std::env::var_os("WARPPROOF_CUDARC_CHILD").is_some() {
        // All start together: each waits for the end of its input.
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new())?;
        steps(std::process::id() % 7, Instant::now()).map_err(|error| error.to_string())?;
        return Ok(());
    }
    let count = asked("PROCESSES", 100);
    let this = std::env::current_exe()?;
    let mut children = Vec::new();
    for _ in 0..count {
        let mut command = Command::new(&this);
        command.arg("processes").env("WARPPROOF_CUDARC_CHILD", "1").stdin(Stdio::piped());
        children.push(command.spawn()?);
    }
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    let mut failed = 0;
    for mut child in children {
        failed += u32::from(!child.wait()?.success());
    }
    println!("processes: {count} at once, {failed} failed");
    assert_eq!(failed, 0);
    Ok(())
}
