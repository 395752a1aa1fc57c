//! Modules from PTX, fat binaries and machine code; variables; the linker.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cudarc::driver::sys::{CUjitInputType, CUresult};
use cudarc::driver::{CudaContext, CudaSlice, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;

use crate::{Done, KERNELS, opened, refused};

const ONE: LaunchConfig = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

pub fn from_ptx() -> Done {
    let (context, module) = opened()?;
    refused(module.load_function("subtract"), CUresult::CUDA_ERROR_NOT_FOUND);
    let function = module.load_function("store")?;
    let again = module.load_function("store")?;
    assert_eq!(function.cu_function(), again.cu_function());
    let nonsense = ".version 8.0\n.target sm_75\n.address_size 64\nnonsense;\n";
    refused(context.load_module(Ptx::from_src(nonsense)), CUresult::CUDA_ERROR_INVALID_PTX);
    refused(context.load_module(Ptx::from_src("no PTX at all")), CUresult::CUDA_ERROR_INVALID_IMAGE);
    refused(context.load_module(Ptx::from_file("no-such-file.ptx")), CUresult::CUDA_ERROR_FILE_NOT_FOUND);
    // Loading the same text a second time gives another module, with its own variables.
    let other = context.load_module(Ptx::from_src(KERNELS))?;
    assert_ne!(other.load_function("store")?.cu_function(), function.cu_function());
    let file = std::env::temp_dir().join(format!("warpproof-cudarc-{}.ptx", std::process::id()));
    std::fs::write(&file, KERNELS)?;
    let from_file = context.load_module(Ptx::from_file(&file));
    std::fs::remove_file(&file)?;
    from_file?.load_function("store")?;
    Ok(())
}

pub fn from_images() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let images: [&[u8]; 2] =
        [include_bytes!("../kernels/image.fatbin"), include_bytes!("../kernels/debug.cubin")];
    for (image, value) in images.into_iter().zip([17, 23]) {
        let module = context.load_module(Ptx::from_binary(image.to_vec()))?;
        let store = module.load_function("store")?;
        let mut place: CudaSlice<i32> = stream.alloc_zeros(1)?;
        // SAFETY: the arguments are those of the kernel.
        unsafe { stream.launch_builder(&store).arg(&mut place).arg(&value).launch(ONE) }?;
        assert_eq!(stream.clone_dtoh(&place)?, [value]);
    }
    // Machine code cannot run without a GPU: loading it must fail with an error, not give a wrong result.
    let sass = include_bytes!("../kernels/sass.cubin");
    refused(context.load_module(Ptx::from_binary(sass.to_vec())), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    Ok(())
}

pub fn variables() -> Done {
    let (context, module) = opened()?;
    let stream = context.default_stream();
    let function = module.load_function("from_table")?;
    let mut out: CudaSlice<i32> = stream.alloc_zeros(128)?;
    let config = LaunchConfig { block_dim: (128, 1, 1), ..ONE };
    let mut launch = |table: [i32; 4], count: i32| -> Done {
        // SAFETY: the arguments are those of the kernel.
        unsafe { stream.launch_builder(&function).arg(&mut out).launch(config) }?;
        let want: Vec<i32> = (0..128).map(|i| table[(127 - i) % 4]).collect();
        assert_eq!(stream.clone_dtoh(&out)?, want);
        let counter = module.get_global("counter", &stream)?;
        // SAFETY: it is an int.
        let counter = unsafe { counter.transmute::<i32>(1) }.ok_or("the variable has an unexpected size")?;
        assert_eq!(stream.clone_dtoh(&counter)?, [count]);
        Ok(())
    };
    launch([2, 3, 5, 7], 42)?;
    {
        let mut table = module.get_global("table", &stream)?;
        assert_eq!(table.len(), 16);
        // SAFETY: it is four ints.
        let mut table =
            unsafe { table.transmute_mut::<i32>(4) }.ok_or("the variable has an unexpected size")?;
        stream.memcpy_htod(&[11, 13, 17, 19], &mut table)?;
    }
    launch([11, 13, 17, 19], 44)?;
    refused(module.get_global("nothing", &stream), CUresult::CUDA_ERROR_NOT_FOUND);
    Ok(())
}

pub fn linker() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let parts = [include_str!("../kernels/outer.ptx"), include_str!("../kernels/inner.ptx")];
    let link = |parts: &[&str]| -> Result<Vec<u8>, cudarc::driver::DriverError> {
        let mut state = null_mut();
        let (mut image, mut size) = (null_mut::<c_void>(), 0);
        // SAFETY: terminated texts with their lengths; the image is copied before the linker is destroyed.
        unsafe {
            sys::cuLinkCreate_v2(0, null_mut(), null_mut(), &raw mut state).result()?;
            let made = parts
                .iter()
                .try_for_each(|part| {
                    let text = format!("{part}\0");
                    let kind = CUjitInputType::CU_JIT_INPUT_PTX;
                    let data = text.as_ptr().cast_mut().cast();
                    sys::cuLinkAddData_v2(state, kind, data, text.len(), null(), 0, null_mut(), null_mut())
                        .result()
                })
                .and_then(|()| sys::cuLinkComplete(state, &raw mut image, &raw mut size).result())
                .map(|()| std::slice::from_raw_parts(image.cast::<u8>(), size).to_vec());
            sys::cuLinkDestroy(state).result()?;
            made
        }
    };
    let module = context.load_module(Ptx::from_binary(link(&parts)?))?;
    let outer = module.load_function("outer")?;
    let numbers: Vec<i32> = (0..32).collect();
    let input = stream.clone_htod(&numbers)?;
    let mut out: CudaSlice<i32> = stream.alloc_zeros(32)?;
    let config = LaunchConfig { block_dim: (32, 1, 1), ..ONE };
    // SAFETY: the arguments are those of the kernel.
    unsafe { stream.launch_builder(&outer).arg(&input).arg(&mut out).arg(&32).launch(config) }?;
    assert_eq!(stream.clone_dtoh(&out)?, numbers.iter().map(|x| x * x + 1).collect::<Vec<_>>());
    // One of the two files is not enough: the linker reports it, or loading its output does.
    let half = link(&parts[..1]).and_then(|image| context.load_module(Ptx::from_binary(image)));
    assert!(half.is_err());
    Ok(())
}
