//! Arrays, texture objects and surface objects.

use warpproof_driver::abi::{Copy2d, Copy3d, Handle};
use warpproof_driver::api::{self, In};
use warpproof_driver::array::{
    Array3dDescriptor, ArrayDescriptor, ResourceDescriptor, TextureDescriptor, ViewDescriptor,
};

use crate::answer;
use crate::ok;
use crate::program::{download, from, kernel, named, null, out, start, upload};

/// `out[i] = tex2D(texture, x[i], x[i])`; `tex1Dfetch`; a surface whose texels are doubled; and a level of a texture.
const PTX: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .entry sample(.param .u64 object, .param .u64 data)
{
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [data];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {%f1, %f1}];
    st.global.f32 [%rd4], %f2;
    ret;
}
.visible .entry fetch(.param .u64 object, .param .u64 data)
{
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [data];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
    tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%rd1, {%r1}];
    st.global.f32 [%rd4], %f2;
    ret;
}
.visible .entry level(.param .u64 object, .param .u64 data)
{
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [data];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; cvt.rn.f32.u32 %f1, %r1;
    tex.level.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {0f3F000000, 0f3F000000}], %f1;
    st.global.f32 [%rd4], %f2;
    ret;
}
.visible .entry twice(.param .u64 object, .param .u64 data)
{
    .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [object];
    mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 4;
    suld.b.2d.b32.trap {%r3}, [%rd1, {%r2, 1}];
    mov.b32 %f1, %r3; add.rn.f32 %f2, %f1, %f1; mov.b32 %r3, %f2;
    sust.b.2d.b32.trap [%rd1, {%r2, 1}], {%r3};
    ret;
}
";

const FLOAT: u32 = 0x20;
const SURFACE: u32 = 2;

fn array(descriptor: Array3dDescriptor) -> Handle {
    let mut array = null();
    ok!(api::cuArray3DCreate_v2(out(&mut array), from(&[descriptor])));
    array
}

fn floats(width: usize, height: usize, flags: u32) -> Array3dDescriptor {
    Array3dDescriptor { width, height, depth: 0, format: FLOAT, channels: 1, flags }
}

fn number(handle: Handle) -> u64 {
    u64::try_from(handle.addr()).unwrap()
}

fn over(kind: u32, handle: Handle) -> ResourceDescriptor {
    let mut descriptor = ResourceDescriptor { kind, ..ResourceDescriptor::default() };
    descriptor.resource[0] = number(handle);
    descriptor
}

fn host(values: &[f32]) -> u64 {
    u64::try_from(values.as_ptr().expose_provenance()).unwrap()
}

const NOTHING: Copy2d = Copy2d {
    source_x: 0,
    source_y: 0,
    source_type: 1,
    source_host: 0,
    source_device: 0,
    source_array: 0,
    source_pitch: 0,
    target_x: 0,
    target_y: 0,
    target_type: 3,
    target_host: 0,
    target_device: 0,
    target_array: 0,
    target_pitch: 0,
    width: 0,
    height: 0,
};

/// Copies rows of the host to an array.
fn fill(array: Handle, values: &[f32], width: usize, height: usize) {
    let copy = Copy2d {
        source_host: host(values),
        target_array: number(array),
        width: 4 * width,
        height,
        ..NOTHING
    };
    ok!(api::cuMemcpy2D_v2(from(&[copy])));
}

fn run(name: &str, object: u64, data: u64, threads: u32) -> u32 {
    let function = kernel(PTX, name);
    let arguments =
        [from(std::slice::from_ref(&object)).cast::<u8>(), from(std::slice::from_ref(&data)).cast::<u8>()];
    answer!(api::cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, null(), from(&arguments), In::none()))
}

fn texture(resource: ResourceDescriptor, texture: TextureDescriptor) -> u64 {
    let mut object = 0;
    ok!(api::cuTexObjectCreate(out(&mut object), from(&[resource]), from(&[texture]), In::none()));
    object
}

/// Clamped, by texels, linear.
const LINEAR: TextureDescriptor = TextureDescriptor {
    address: [1; 3],
    filter: 1,
    flags: 0,
    anisotropy: 0,
    level_filter: 0,
    level_bias: 0.0,
    level_low: 0.0,
    level_high: 10.0,
    border: [0.0; 4],
    reserved: [0; 12],
};

#[test]
fn a_texture_object_reads_an_array() {
    start();
    let grid = array(floats(4, 4, 0));
    let values: Vec<f32> = (0..16).map(|i| (i * i) as f32).collect();
    fill(grid, &values, 4, 4);
    let object = texture(over(0, grid), LINEAR);
    let data = upload(&[0.5, 1.0, 1.5, 3.25]);
    assert_eq!(run("sample", object, data, 4), 0);
    ok!(api::cuCtxSynchronize());
    // Between the first four texels: (0 + 1 + 16 + 25) / 4.
    let last = 0.25 * (0.25 * 100.0 + 0.75 * 121.0) + 0.75 * (0.25 * 196.0 + 0.75 * 225.0);
    assert_eq!(download(data, 4), [0.0, 10.5, 25.0, last]);
    let mut descriptor = ArrayDescriptor::default();
    ok!(api::cuArrayGetDescriptor_v2(out(&mut descriptor), grid));
    assert_eq!(
        (descriptor.width, descriptor.height, descriptor.format, descriptor.channels),
        (4, 4, FLOAT, 1)
    );
    let (mut resource, mut how) = (ResourceDescriptor::default(), TextureDescriptor::default());
    ok!(api::cuTexObjectGetResourceDesc(out(&mut resource), object));
    ok!(api::cuTexObjectGetTextureDesc(out(&mut how), object));
    assert_eq!((resource, how), (over(0, grid), LINEAR));
    assert_eq!(answer!(api::cuTexObjectGetResourceViewDesc(out(&mut ViewDescriptor::default()), object)), 1);
    ok!(api::cuTexObjectDestroy(object));
    assert_eq!(answer!(api::cuTexObjectDestroy(object)), 1);
    ok!(api::cuArrayDestroy(grid));
    assert_eq!(answer!(api::cuArrayDestroy(grid)), 400);
}

#[test]
fn copies_to_and_from_arrays() {
    start();
    let line = {
        let mut line = null();
        let descriptor = ArrayDescriptor { width: 8, height: 0, format: FLOAT, channels: 1 };
        ok!(api::cuArrayCreate_v2(out(&mut line), from(&[descriptor])));
        line
    };
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    ok!(api::cuMemcpyHtoA_v2(line, 0, values.as_ptr().cast(), 32));
    assert_eq!(answer!(api::cuMemcpyHtoA_v2(line, 4, values.as_ptr().cast(), 32)), 1);
    let device = upload(&[9.0, 8.0]);
    ok!(api::cuMemcpyDtoA_v2(line, 8, device, 8));
    ok!(api::cuMemcpyAtoA_v2(line, 24, line, 4, 8));
    ok!(api::cuMemcpyAtoD_v2(device, line, 12, 8));
    assert_eq!(download(device, 2), [8.0, 4.0]);
    let mut back = [0f32; 8];
    ok!(api::cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), line, 0, 32));
    assert_eq!(back, [0.0, 1.0, 9.0, 8.0, 4.0, 5.0, 1.0, 9.0]);
    // A box of a 3D array.
    let volume =
        array(Array3dDescriptor { width: 4, height: 3, depth: 2, format: FLOAT, channels: 1, flags: 0 });
    let mut copy = Copy3d {
        source_x: 0,
        source_y: 0,
        source_z: 0,
        source_lod: 0,
        source_type: 1,
        source_host: host(&values),
        source_device: 0,
        source_array: 0,
        source_context: 0,
        source_pitch: 16,
        source_height: 3,
        target_x: 0,
        target_y: 0,
        target_z: 0,
        target_lod: 0,
        target_type: 3,
        target_host: 0,
        target_device: 0,
        target_array: number(volume),
        target_context: 0,
        target_pitch: 0,
        target_height: 0,
        width: 16,
        height: 3,
        depth: 2,
    };
    ok!(api::cuMemcpy3D_v2(from(&[copy])));
    let mut inner = [0f32; 4];
    copy = Copy3d {
        source_x: 4,
        source_y: 1,
        source_z: 1,
        source_type: 3,
        source_array: number(volume),
        target_type: 1,
        target_host: host(&inner),
        target_array: 0,
        width: 8,
        height: 2,
        depth: 1,
        ..copy
    };
    // The copy writes what the compiler does not see.
    inner = std::hint::black_box(inner);
    copy.target_host = u64::try_from(inner.as_mut_ptr().expose_provenance()).unwrap();
    ok!(api::cuMemcpy3D_v2(from(&[copy])));
    assert_eq!(std::hint::black_box(inner), [17.0, 18.0, 21.0, 22.0]);
    copy.depth = 2;
    assert_eq!(answer!(api::cuMemcpy3D_v2(from(&[copy]))), 1);
    copy = Copy3d { depth: 1, source_array: 1234, ..copy };
    assert_eq!(answer!(api::cuMemcpy3D_v2(from(&[copy]))), 400);
}

#[test]
fn a_surface_is_read_and_written() {
    start();
    let grid = array(floats(4, 2, SURFACE));
    fill(grid, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 4, 2);
    let mut surface = 0;
    ok!(api::cuSurfObjectCreate(out(&mut surface), from(&[over(0, grid)])));
    assert_eq!(run("twice", surface, 0, 4), 0);
    ok!(api::cuCtxSynchronize());
    let object = texture(over(0, grid), TextureDescriptor { filter: 0, ..LINEAR });
    let data = upload(&[0.5, 1.5]);
    assert_eq!(run("sample", object, data, 2), 0);
    assert_eq!(download(data, 2), [1.0, 12.0]);
    let mut resource = ResourceDescriptor::default();
    ok!(api::cuSurfObjectGetResourceDesc(out(&mut resource), surface));
    assert_eq!(resource, over(0, grid));
    ok!(api::cuSurfObjectDestroy(surface));
    assert_eq!(answer!(api::cuSurfObjectDestroy(surface)), 1);
    // Only arrays with the flag have surfaces.
    let plain = array(floats(4, 2, 0));
    assert_eq!(answer!(api::cuSurfObjectCreate(out(&mut surface), from(&[over(0, plain)]))), 1);
    // Beyond the end of a row: the launch fails.
    let other = array(floats(2, 2, SURFACE));
    ok!(api::cuSurfObjectCreate(out(&mut surface), from(&[over(0, other)])));
    assert_eq!(run("twice", surface, 0, 4), 0);
    assert_eq!(named(answer!(api::cuCtxSynchronize())), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn memory_and_mipmaps_are_textures() {
    start();
    let data = upload(&[3.0, 1.0, 4.0, 1.0, 5.0, 9.0]);
    let mut linear = ResourceDescriptor { kind: 2, ..ResourceDescriptor::default() };
    linear.resource[..3].copy_from_slice(&[data, u64::from(FLOAT) | 1 << 32, 16]);
    let object = texture(linear, TextureDescriptor { filter: 0, ..LINEAR });
    let results = upload(&[7.0; 6]);
    assert_eq!(run("fetch", object, results, 6), 0);
    assert_eq!(download(results, 6), [3.0, 1.0, 4.0, 1.0, 0.0, 0.0]);
    linear.resource[0] += 4;
    let mut none = 0;
    assert_eq!(
        answer!(api::cuTexObjectCreate(out(&mut none), from(&[linear]), from(&[LINEAR]), In::none())),
        1,
        "it is not aligned"
    );

    let mut levels = null();
    ok!(api::cuMipmappedArrayCreate(out(&mut levels), from(&[floats(8, 8, 0)]), 9));
    for level in 0..4u16 {
        let mut one = null();
        ok!(api::cuMipmappedArrayGetLevel(out(&mut one), levels, u32::from(level)));
        let size = 8usize >> level;
        let mut descriptor = Array3dDescriptor::default();
        ok!(api::cuArray3DGetDescriptor_v2(out(&mut descriptor), one));
        assert_eq!((descriptor.width, descriptor.height, descriptor.depth), (size, size, 0));
        fill(one, &vec![f32::from(level) + 1.0; size * size], size, size);
        assert_eq!(answer!(api::cuArrayDestroy(one)), 400, "it is part of another array");
    }
    let mut one = null();
    assert_eq!(answer!(api::cuMipmappedArrayGetLevel(out(&mut one), levels, 4)), 1);
    let object = texture(over(1, levels), TextureDescriptor { flags: 2, level_filter: 1, ..LINEAR });
    let results = upload(&[0.0; 5]);
    assert_eq!(run("level", object, results, 5), 0);
    assert_eq!(download(results, 5), [1.0, 2.0, 3.0, 4.0, 4.0]);
    // A view of some levels.
    let view = ViewDescriptor { first_level: 1, last_level: 2, ..ViewDescriptor::default() };
    let mut viewed = 0;
    let how = TextureDescriptor { flags: 2, ..LINEAR };
    ok!(api::cuTexObjectCreate(out(&mut viewed), from(&[over(1, levels)]), from(&[how]), from(&[view])));
    assert_eq!(run("level", viewed, results, 5), 0);
    assert_eq!(download(results, 5), [2.0, 3.0, 3.0, 3.0, 3.0]);
    ok!(api::cuMipmappedArrayDestroy(levels));
    assert_eq!(answer!(api::cuMipmappedArrayDestroy(levels)), 400);
    // The texels are gone.
    assert_eq!(run("level", object, results, 5), 0);
    assert_eq!(named(answer!(api::cuCtxSynchronize())), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn a_stale_texture_object_is_an_error_of_the_launch() {
    start();
    let grid = array(floats(4, 4, 0));
    fill(grid, &[1.0; 16], 4, 4);
    let object = texture(over(0, grid), LINEAR);
    ok!(api::cuTexObjectDestroy(object));
    let data = upload(&[0.5]);
    assert_eq!(run("sample", object, data, 1), 0);
    assert_eq!(named(answer!(api::cuCtxSynchronize())), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn what_is_not_valid_is_refused() {
    start();
    let mut made = null();
    let mut create =
        |descriptor: Array3dDescriptor| answer!(api::cuArray3DCreate_v2(out(&mut made), from(&[descriptor])));
    assert_eq!(create(floats(0, 4, 0)), 1);
    assert_eq!(create(Array3dDescriptor { channels: 3, ..floats(4, 4, 0) }), 1);
    assert_eq!(create(Array3dDescriptor { format: 0xb0, ..floats(4, 4, 0) }), 801, "planar formats");
    assert_eq!(create(Array3dDescriptor { depth: 4, ..floats(4, 0, 0) }), 1);
    assert_eq!(create(Array3dDescriptor { depth: 5, ..floats(4, 4, 4) }), 1, "a cubemap of five faces");
    assert_eq!(create(Array3dDescriptor { depth: 6, ..floats(4, 4, 4) }), 0);
    assert_eq!(create(floats(4, 4, 0x40)), 801, "sparse");
    assert_eq!(create(floats(1 << 20, 1 << 20, 0)), 2, "out of memory");
    let whole = array(Array3dDescriptor { format: 3, ..floats(4, 4, 0) });
    let mut object = 0;
    let mut texture = |how: TextureDescriptor| {
        answer!(api::cuTexObjectCreate(out(&mut object), from(&[over(0, whole)]), from(&[how]), In::none()))
    };
    assert_eq!(texture(LINEAR), 1, "integers are not filtered");
    assert_eq!(texture(TextureDescriptor { filter: 0, ..LINEAR }), 0);
    assert_eq!(texture(TextureDescriptor { filter: 2, ..LINEAR }), 1);
    assert_eq!(texture(TextureDescriptor { filter: 0, flags: 0x40, ..LINEAR }), 801, "seamless cubemaps");
}
