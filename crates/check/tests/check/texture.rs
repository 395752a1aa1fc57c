//! Textures and surfaces: their texels are memory to every check.

use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Role, Settings};
use warpproof_sim::Device;
use warpproof_sim::memory::{Channel, Image, Layout, Sampler, Texel, Texture};

use super::found;

const F32: Texel = Texel { channel: Channel::F32, channels: 1 };

/// Checks a body of 64 threads with a texture `%tex` and a surface `%surf` over one array of 64 x 4 floats.
fn check(body: &str, checks: &[Check], initialized: bool) -> Checked {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 tex, .param .u64 surf, .param .u64 out) {{\n\
         .reg .b64 %tex, %surf, %out, %to; .reg .b32 %t, %x; .reg .f32 %f<8>; .reg .b32 %r<8>; .reg .pred %p<4>;\n\
         ld.param.u64 %tex, [tex]; ld.param.u64 %surf, [surf]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;\n\
         mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to; mul.lo.u32 %x, %t, 4;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let out = device.alloc::<u32>(64).unwrap();
    let (_, bytes) = Image::array(F32, Layout::Array, [64, 4, 0], 1, 0).unwrap();
    let base = device.memory().allocate_array("array", bytes).unwrap();
    let (image, _) = Image::array(F32, Layout::Array, [64, 4, 0], 1, base).unwrap();
    let images = device.memory().images_mut();
    let surface = images.add_surface(image.clone()).unwrap();
    let texture = images
        .add_texture(Texture { image, sampler: Sampler { linear: true, ..Sampler::default() } })
        .unwrap();
    let buffers = vec![BufferRole {
        name: "array".to_owned(),
        address: base,
        element: 1,
        extents: vec![bytes],
        role: Role::InOut,
        initialized,
    }];
    let settings = Settings { checks: checks.to_vec(), buffers, ..Settings::default() };
    let launch = module.kernel("k").unwrap().launch().block(64).arg(texture).arg(surface).arg(out);
    let checked = device.check(&launch, &settings);
    assert!(checked.outcome.stop.is_none(), "{:?}", checked.outcome.stop);
    checked
}

const STORE: &str = "sust.b.2d.b32.trap [%surf, {%x, 0}], %t";

#[test]
fn two_threads_that_store_one_texel_race() {
    let racy = check("sust.b.2d.b32.trap [%surf, {0, 0}], %t;", &[Check::Race], true);
    let store = "sust.b.2d.b32.trap [%surf, {0, 0}], %t";
    assert_eq!(found(&racy), [("global-race", vec![store, store])]);
    assert!(found(&check(&format!("{STORE};"), &[Check::Race], true)).is_empty());
    let reduced = check("sured.b.add.2d.u32.trap [%surf, {0, 0}], %t;", &[Check::Race], true);
    assert!(found(&reduced).is_empty(), "{:?}", found(&reduced));
}

#[test]
fn texels_of_the_same_launch_are_not_read_reliably() {
    // A barrier does not help: the caches of textures are not coherent.
    let fetch = "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%tex, {0f3F000000, 0f3F000000}]";
    let body = format!("{STORE};\nbar.sync 0;\n{fetch};\nst.global.f32 [%to], %f0;");
    let checked = check(&body, &[Check::Race], true);
    assert_eq!(found(&checked), [("global-race", vec![fetch, STORE])]);
    assert!(checked.findings[0].notes.iter().any(|note| note.contains("textures and surfaces")));
    let load = "suld.b.2d.b32.trap %r0, [%surf, {%x, 0}]";
    let body = format!("{STORE};\n{load};\nst.global.u32 [%to], %r0;");
    assert_eq!(found(&check(&body, &[Check::Race], true)), [("global-race", vec![load, STORE])]);
    // Another row is another matter.
    let body = format!("{STORE};\nsuld.b.2d.b32.trap %r0, [%surf, {{%x, 1}}];\nst.global.u32 [%to], %r0;");
    assert!(found(&check(&body, &[Check::Race], true)).is_empty());
}

#[test]
fn a_texel_that_was_never_written_is_uninitialized() {
    let fetch = "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%tex, {0f3F800000, 0f3F800000}]";
    let body = format!("{fetch};\nst.global.f32 [%to], %f0;");
    let names = |checked: &Checked| found(checked).iter().map(|(class, _)| *class).collect::<Vec<_>>();
    let checked = check(&body, &[Check::Init, Check::Output], false);
    assert_eq!(names(&checked), ["uninitialized"]);
    assert_eq!(found(&checked)[0].1, ["st.global.f32 [%to], %f0", fetch]);
    assert!(names(&check(&body, &[Check::Init, Check::Output], true)).is_empty());
    let body = "suld.b.2d.b32.trap %r0, [%surf, {%x, 0}];\nst.global.u32 [%to], %r0;";
    assert_eq!(names(&check(body, &[Check::Init, Check::Output], false)), ["uninitialized"]);
    // Registers: the data and the coordinate of a store.
    let data = check("sust.b.2d.b32.trap [%surf, {%x, 0}], %r5;", &[Check::Init], true);
    assert_eq!(names(&data), ["uninitialized"]);
    let coordinate =
        check("and.b32 %r5, %r5, 12;\nsust.b.2d.b32.trap [%surf, {%r5, 0}], 1;", &[Check::Init], true);
    assert_eq!(names(&coordinate), ["uninitialized"]);
}

#[test]
fn texels_are_counted_as_memory_of_their_own_pipe() {
    use warpproof_count::{CountLaunch, CountSettings, MemoryOp};
    use warpproof_sim::isa::Unit;
    use warpproof_sim::memory::Space;
    let ptx = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 tex) {\n\
        .reg .b64 %tex; .reg .b32 %t; .reg .f32 %f<8>; ld.param.u64 %tex, [tex]; mov.u32 %t, %tid.x;\n\
        tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%tex, {%t}];\nret;\n}\n";
    let mut device = Device::new().with_threads(1);
    let module = device.load(ptx).unwrap();
    let data = device.alloc::<f32>(64).unwrap();
    let image = Image::linear(F32, data.address(), 64);
    let texture =
        device.memory().images_mut().add_texture(Texture { image, sampler: Sampler::default() }).unwrap();
    let launch = module.kernel("k").unwrap().launch().block(64).arg(texture);
    let counted = device.count(&launch, &CountSettings::default());
    let totals = &counted.counters.totals;
    assert_eq!(totals.pipe(Unit::Tex).executions, 2);
    // Two warps of 128 bytes.
    let traffic = totals.traffic(Space::Global, &[MemoryOp::Texture]);
    assert_eq!((traffic.requests, traffic.sectors, traffic.bytes), (2, 8, 256));
}
