//! Call sites: where the program called the API.
//!
//! A site is a few return addresses of the program, without frames of this library. It takes about a microsecond to capture, because
//! every launch has one; names and lines are looked up only when something is reported (`debug_info`).
#![expect(unsafe_code, reason = "it walks the stack with the unwinder of the C runtime")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::debug_info::Image;

/// Frames of the program that a site keeps.
const KEPT: usize = 6;
/// Frames that are visited at most.
const DEPTH: usize = 96;

/// Return addresses of the program, innermost first; zero after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site([usize; KEPT]);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        walk: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Walk {
    own: Range<usize>,
    site: Site,
    found: usize,
    depth: usize,
}

/// `_URC_NO_REASON`; any other number ends the walk.
const CONTINUE: c_int = 0;
const END: c_int = 5;

unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its own context.
    let address = unsafe { _Unwind_GetIP(context) };
    // SAFETY: `here` passes its own walk, which no one else uses meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    walk.depth += 1;
    if address == 0 || walk.depth > DEPTH {
        return END;
    }
    if !walk.own.contains(&address) {
        walk.site.0[walk.found] = address;
        walk.found += 1;
        if walk.found == KEPT {
            return END;
        }
    }
    CONTINUE
}

/// An address in this library.
fn inside() -> usize {
    let step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int = step;
    #[expect(clippy::as_conversions, reason = "a function's address has no other conversion")]
    (step as *const ()).addr()
}

/// Where this library is loaded.
static OWN: LazyLock<Range<usize>> = LazyLock::new(|| {
    let inside = inside();
    let maps = maps();
    let Some(own) = maps.iter().find(|map| map.range.contains(&inside)) else { return 0..0 };
    let mine = maps.iter().filter(|map| map.path == own.path);
    let start = mine.clone().map(|map| map.range.start).min().unwrap_or(0);
    start..mine.map(|map| map.range.end).max().unwrap_or(0)
});

impl Site {
    /// The number of frames.
    pub const LENGTH: usize = KEPT;

    /// A site of these return addresses.
    pub fn of(frames: [usize; KEPT]) -> Site {
        Site(frames)
    }

    /// The return addresses.
    pub fn frames(self) -> [usize; KEPT] {
        self.0
    }

    /// Looks up what a signal handler must not: where this library is.
    pub fn prepare() {
        LazyLock::force(&OWN);
    }

    /// The site of an instruction that caused the signal that this thread handles now.
    pub fn of_fault(at: usize) -> Site {
        let mut site = Site::here();
        // Frames before it are those of the C library that call the handler.
        if let Some(first) = site.0.iter().position(|frame| *frame == at) {
            site.0.rotate_left(first);
            site.0[KEPT - first..].fill(0);
        } else {
            site = Site::default();
        }
        // As a return address: one byte after the start of the instruction.
        site.0[0] = at + 1;
        site
    }

    /// The site of the call that this thread makes now.
    pub fn here() -> Site {
        let mut walk = Walk { own: OWN.clone(), site: Site::default(), found: 0, depth: 0 };
        // SAFETY: the walk outlives the call, and `step` is its only user.
        unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
        walk.site
    }
}

/// A mapping of a file.
#[derive(Debug)]
struct Map {
    range: Range<usize>,
    offset: u64,
    path: String,
}

fn maps() -> Vec<Map> {
    let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(map).collect()
}

/// `start-end permissions offset device inode path`.
fn map(line: &str) -> Option<Map> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    let path = words.nth(2)?.trim();
    let number = |text| usize::from_str_radix(text, 16).ok();
    path.starts_with('/').then_some(Map {
        range: number(start)?..number(end)?,
        offset,
        path: path.to_owned(),
    })
}

/// A frame of a site, as reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// The program or library.
    pub module: String,
    /// The return address, relative to the module.
    pub offset: u64,
    /// The function, as the symbol table names it.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
}

/// Libraries between the program and this one, and runtimes whose frames mean nothing to the user.
const SKIPPED: [&str; 8] =
    ["libcuda.", "libcudart.", "libc.so", "libffi.", "libpython", "python3", "_ctypes.", "ld-linux"];

/// Where the sources of Rust's libraries are: crates that cargo downloaded, and the standard library.
const RUST_LIBRARIES: [&str; 3] = ["/.cargo/registry/", "/.cargo/git/", "/rustc/"];

/// Whether a frame of this module is the program's own code.
fn of_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    !SKIPPED.iter().any(|skipped| name.starts_with(skipped))
}

/// Looks up the names and lines of sites.
#[derive(Debug, Default)]
pub struct Symbols {
    images: BTreeMap<String, Option<Image>>,
}

impl Symbols {
    /// The frames of a site, innermost first. Only frames of the program's own code are returned. A frame without a line in an
    /// extension module of Python ends the list: the code that matters is Python's.
    pub fn frames(&mut self, site: Site) -> Vec<FrameRecord> {
        let maps = maps();
        let mut frames = Vec::new();
        for address in site.0.into_iter().take_while(|address| *address != 0) {
            // The call is before the return address.
            let call = address - 1;
            let Some(map) = maps.iter().find(|map| map.range.contains(&call)) else { continue };
            if !of_program(&map.path) {
                continue;
            }
            let image = self.images.entry(map.path.clone()).or_insert_with(|| Image::open(&map.path));
            let wide = |number: usize| u64::try_from(number).unwrap_or(0);
            let in_file = wide(call - map.range.start) + map.offset;
            let Some(image) = image else { continue };
            let Some(offset) = image.address_of(in_file) else { continue };
            let place = image.line(offset);
            let function = image.function(offset);
            if function.as_deref() == Some("_start") {
                break;
            }
            if place.is_none() && (map.path.contains(".cpython-") || map.path.contains(".abi3.")) {
                break;
            }
            // The line of an inlined function belongs to that function, and so on; the last one belongs to the function of the symbol.
            let (mut names, mut places) = (Vec::new(), vec![place]);
            for (name, place) in image.inlined(offset) {
                names.push(name);
                places.push(place);
            }
            names.push(function);
            for (function, place) in names.into_iter().zip(places) {
                let (file, line) = place.map_or((None, 0), |(file, line)| (Some(file), line));
                let module = map.path.clone();
                frames.push(FrameRecord { module, offset: offset + 1, function, file, line });
            }
        }
        let from = first_written(&frames);
        frames.split_off(from)
    }
}

/// The index of the innermost frame that a person wrote: after the code that nvcc generates for a launch (a stub, called by a function
/// with the kernel's name), after inline functions of CUDA's own headers, and after Rust's libraries, such as bindings of CUDA. 0 if there
/// is no other.
fn first_written(frames: &[FrameRecord]) -> usize {
    let stub =
        |frame: &FrameRecord| frame.function.as_deref().is_some_and(|name| name.contains("__device_stub_"));
    let header = |frame: &FrameRecord| {
        let file = frame.file.as_deref().unwrap_or_default();
        file.ends_with(".cudafe1.stub.c")
            || file.ends_with("/cuda_runtime.h")
            || file.contains("/include/crt/")
            || RUST_LIBRARIES.iter().any(|place| file.contains(place))
    };
    let after = match frames.iter().rposition(stub) {
        Some(stub) => stub + 1 + usize::from(calls_stub(frames, stub)),
        None => frames.iter().take_while(|frame| header(frame)).count(),
    };
    if after < frames.len() { after } else { 0 }
}

/// A source file as reports show it: relative to the working directory if it is inside it.
pub fn shown(file: &str) -> String {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| Some(Path::new(file).strip_prefix(here).ok()?.display().to_string()));
    below.unwrap_or_else(|| file.to_owned())
}

/// Whether the frame after a stub is the function with the kernel's name that calls it. An optimizing compiler may leave it out.
fn calls_stub(frames: &[FrameRecord], stub: usize) -> bool {
    let name = |frame: &'_ FrameRecord| frame.function.clone().unwrap_or_default();
    // A stub's name has the kernel's mangled name without its first character.
    let kernel = frames.iter().find_map(|frame| {
        let name = name(frame);
        Some(identifier(name.split_once("__device_stub__")?.1).to_owned())
    });
    let caller = frames.get(stub + 1).map(name).unwrap_or_default();
    kernel.is_some_and(|kernel| kernel == identifier(caller.strip_prefix('_').unwrap_or(&caller)))
}

/// The last identifier of a mangled name without its first underscore, or the whole name if it is not mangled.
fn identifier(name: &str) -> &str {
    let Some(mut rest) = name.strip_prefix('Z') else { return name };
    rest = rest.strip_prefix('N').unwrap_or(rest);
    let mut last = name;
    loop {
        // `L` marks names that only one file sees.
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = rest.get(..digits).and_then(|digits| digits.parse::<usize>().ok());
        let end = length.and_then(|length| digits.checked_add(length));
        let Some((part, end)) = end.and_then(|end| Some((rest.get(digits..end)?, end))) else { return last };
        (last, rest) = (part, rest.get(end..).unwrap_or_default());
    }
}

impl FrameRecord {
    /// The source file, as reports show it.
    pub fn shown_file(&self) -> Option<String> {
        self.file.as_deref().map(shown)
    }

    /// The frame for a sentence: file and line, or else function and module.
    pub fn place(&self) -> String {
        if let Some(file) = self.shown_file() {
            return format!("{file}:{}", self.line);
        }
        let module = self.module.rsplit('/').next().unwrap_or(&self.module);
        match &self.function {
            Some(function) => format!("`{function}` in {module}+{:#x}", self.offset),
            None => format!("{module}+{:#x}", self.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_a_file_is_understood() {
        let line = "7f00-7f80 r-xp 00001000 08:01 42                         /usr/lib/a b.so";
        let map = map(line).unwrap();
        assert_eq!((map.range, map.offset, map.path.as_str()), (0x7f00..0x7f80, 0x1000, "/usr/lib/a b.so"));
        assert!(super::map("7f00-7f80 rw-p 00000000 00:00 0 [heap]").is_none());
    }

    #[test]
    fn code_that_nvcc_generates_is_not_a_site() {
        let frame = |function: &str, file: &str| FrameRecord {
            module: "/opt/program".to_owned(),
            offset: 1,
            function: Some(function.to_owned()),
            file: Some(file.to_owned()),
            line: 1,
        };
        let header = frame("_ZL18__cudaLaunchKernel", "/opt/cuda/include/crt/device_functions.h");
        let launch = [
            header.clone(),
            frame("_ZL23__device_stub__Z3addPiPi", "a.cudafe1.stub.c"),
            frame("_Z3addPi", "add.cu"),
            frame("main", "add.cu"),
        ];
        assert_eq!(first_written(&launch), 3);
        assert_eq!(first_written(&launch[..3]), 0);
        let malloc =
            [frame("_Z10cudaMallocIiE", "/opt/cuda/include/cuda_runtime.h"), frame("main", "add.cu")];
        assert_eq!(first_written(&malloc), 1);
        assert_eq!(first_written(&malloc[1..]), 0);
        let binding = "/opt/me/.cargo/registry/src/x/cudarc-0.16/src/driver/safe/launch.rs";
        let rust = [
            frame("cuLaunchKernel", binding),
            frame("core::ops::function::FnOnce::call_once", "/rustc/0123/library/core/src/ops/function.rs"),
            frame("launch", binding),
            frame("app::main", "src/main.rs"),
        ];
        assert_eq!(first_written(&rust), 3);
        // A program that is all libraries keeps its innermost frame.
        assert_eq!(first_written(&rust[..3]), 0);
        assert_eq!(first_written(&[]), 0);
        // The function that calls the stub is inlined or left out.
        assert_eq!(first_written(&[launch[0].clone(), launch[1].clone(), launch[3].clone()]), 2);
    }

    #[test]
    fn the_caller_of_a_stub_has_the_name_of_the_kernel() {
        for (stub, caller) in [
            ("Z4caddPiiPii", "cadd"),
            ("ZN4in_x3addEPiiPii", "ZN4in_xL3addEPii"),
            ("ZN4in_x4taddILi3EEEvPiiPii", "ZN4in_xL4taddILi3EEEvPii"),
        ] {
            assert_eq!(identifier(stub), identifier(caller));
        }
        assert_ne!(identifier("Z3addPii"), identifier("main"));
        assert_eq!(identifier("Z999999999999999999999a"), "Z999999999999999999999a");
    }

    #[test]
    fn the_library_knows_where_it_is() {
        assert!(OWN.contains(&inside()));
        assert!(!of_program("/usr/lib/libcudart.so.12") && of_program("/opt/program"));
    }
}
