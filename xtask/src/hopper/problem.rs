//! A launch of one of the kernels: its arrays, its arguments and the exact result.

use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Role, Settings};
use warpproof_sim::tensor_map::{DataType, Swizzle, TensorMap};
use warpproof_sim::{Buffer, Device, E4m3, F16, Launch, Outcome, Stop};

/// Warp instructions after which a mutant counts as one that never ends: several times what these launches need.
const LIMIT: u64 = 1_000_000;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    F32,
    I32,
    F16,
    E4m3,
}

impl Type {
    fn bytes(self) -> usize {
        match self {
            Type::F32 | Type::I32 => 4,
            Type::F16 => 2,
            Type::E4m3 => 1,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Type::F32 => DataType::Float32,
            Type::I32 => DataType::Int32,
            Type::F16 => DataType::Float16,
            Type::E4m3 => DataType::Uint8,
        }
    }

    /// The value that is stored.
    pub(super) fn round(self, value: f32) -> f64 {
        self.decode(&self.encode(value))
    }

    fn encode(self, value: f32) -> Vec<u8> {
        match self {
            Type::F32 | Type::I32 => value.to_le_bytes().to_vec(),
            Type::F16 => F16::from_f32(value).to_bits().to_le_bytes().to_vec(),
            Type::E4m3 => vec![E4m3::from_f32(value).to_bits()],
        }
    }

    fn decode(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Type::F32, [a, b, c, d]) => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
            (Type::I32, [a, b, c, d]) => f64::from(i32::from_le_bytes([*a, *b, *c, *d])),
            (Type::F16, [a, b]) => f64::from(F16::from_bits(u16::from_le_bytes([*a, *b])).to_f32()),
            (Type::E4m3, [a]) => f64::from(E4m3::from_bits(*a).to_f32()),
            _ => f64::NAN,
        }
    }
}

/// An array, as rows of equal length.
pub(super) struct Array {
    pub(super) name: &'static str,
    pub(super) ty: Type,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) contents: Contents,
}

pub(super) enum Contents {
    /// The values before the launch.
    Input(Vec<f32>),
    /// The exact values after it, and how far each element may be from them.
    Output { exact: Vec<f64>, limits: Vec<f64> },
}

/// An argument of the kernel.
pub(super) enum Arg {
    /// The address of the array with this number.
    Pointer(usize),
    /// A tensor map of the array with this number.
    Map {
        array: usize,
        rows: u32,
        columns: u32,
        swizzle: bool,
    },
    Int(i32),
    Float(f32),
}

pub(super) struct Problem {
    pub(super) kernel: &'static str,
    pub(super) grid: [u32; 3],
    pub(super) cluster: Option<u32>,
    pub(super) block: u32,
    pub(super) shared: u32,
    pub(super) arrays: Vec<Array>,
    pub(super) arguments: Vec<Arg>,
}

/// What a launch did.
pub(super) struct Ran {
    pub(super) stop: Option<Box<Stop>>,
    pub(super) instructions: u64,
    /// The bits of its outputs.
    pub(super) bits: Vec<Vec<u8>>,
    /// The largest error of an element in units of its limit; more than 1 is wrong.
    pub(super) worst: f64,
}

/// A device with the arrays of a problem, the launch, and what the checks know of the arrays.
type Prepared = (Device, Vec<Buffer<u8>>, Launch, Settings);

fn error(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Problem {
    /// Allocates and fills the arrays on a device, and prepares the launch.
    fn prepare(&self, ptx: &str) -> Result<Prepared, String> {
        let mut device = Device::new().with_threads(1);
        device.limits.instructions = LIMIT;
        let module = device.load(ptx).map_err(error)?;
        let mut launch = module.kernel(self.kernel).map_err(error)?.launch();
        launch = launch.grid(self.grid).block(self.block).shared(self.shared);
        if let Some(blocks) = self.cluster {
            launch = launch.cluster(blocks);
        }
        let (mut buffers, mut settings) = (Vec::new(), Settings::default());
        settings.checks.push(Check::Fences);
        for array in &self.arrays {
            let size = array.rows * array.columns * array.ty.bytes();
            let buffer = device.alloc_named::<u8>(array.name, size).map_err(error)?;
            let is_input = match &array.contents {
                Contents::Input(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| array.ty.encode(*value)).collect();
                    device.write(&buffer, &bytes).map_err(error)?;
                    true
                }
                Contents::Output { .. } => false,
            };
            settings.buffers.push(BufferRole {
                name: array.name.to_owned(),
                address: buffer.address(),
                element: u32::try_from(array.ty.bytes()).map_err(error)?,
                extents: [array.rows, array.columns]
                    .iter()
                    .map(|side| u64::try_from(*side).unwrap_or(0))
                    .collect(),
                role: if is_input { Role::In } else { Role::Out },
                initialized: is_input,
            });
            buffers.push(buffer);
        }
        for argument in &self.arguments {
            launch = match argument {
                Arg::Pointer(array) => launch.arg(buffers[*array].address()),
                Arg::Map { array, rows, columns, swizzle } => {
                    let map =
                        map(&self.arrays[*array], buffers[*array].address(), (*rows, *columns), *swizzle)?;
                    launch.arg(map.to_vec())
                }
                Arg::Int(value) => launch.arg(*value),
                Arg::Float(value) => launch.arg(*value),
            };
        }
        Ok((device, buffers, launch, settings))
    }

    /// Runs the kernel of a module without checks.
    pub(super) fn run(&self, ptx: &str) -> Result<Ran, String> {
        let (mut device, buffers, launch, _) = self.prepare(ptx)?;
        let outcome = device.run(&launch);
        self.ran(&device, &buffers, outcome)
    }

    /// Runs the kernel of a module with checks, under this number of schedules. The result is that of the first.
    pub(super) fn check(&self, ptx: &str, schedules: u32) -> Result<(Checked, Ran), String> {
        let (mut device, buffers, launch, settings) = self.prepare(ptx)?;
        let mut checked = device.check_schedules(&launch, &settings, Some(schedules), 0).checked;
        let outcome = std::mem::take(&mut checked.outcome);
        let ran = self.ran(&device, &buffers, outcome)?;
        Ok((checked, ran))
    }

    fn ran(&self, device: &Device, buffers: &[Buffer<u8>], outcome: Outcome) -> Result<Ran, String> {
        let (mut bits, mut worst) = (Vec::new(), 0f64);
        for (array, buffer) in self.arrays.iter().zip(buffers) {
            let Contents::Output { exact, limits } = &array.contents else { continue };
            let bytes = device.read(buffer).map_err(error)?;
            let values = bytes.chunks(array.ty.bytes()).map(|bytes| array.ty.decode(bytes));
            for ((value, exact), limit) in values.zip(exact).zip(limits) {
                let difference = (value - exact).abs();
                // NaN is wrong.
                let error = if difference <= *limit {
                    difference / limit.max(f64::MIN_POSITIVE)
                } else {
                    f64::INFINITY
                };
                let error =
                    if error.is_finite() || !difference.is_finite() { error } else { difference / limit };
                worst = worst.max(error);
            }
            bits.push(bytes);
        }
        Ok(Ran { stop: outcome.stop, instructions: outcome.instructions, bits, worst })
    }
}

fn map(array: &Array, address: u64, (rows, columns): (u32, u32), swizzle: bool) -> Result<[u8; 128], String> {
    let side = |count: usize| u64::try_from(count).map_err(error);
    let dims = [side(array.columns)?, side(array.rows)?];
    let mut map = TensorMap::tiled(array.ty.data_type(), address, &dims, &[columns, rows]);
    map.swizzle = if swizzle { Swizzle::Bytes128 } else { Swizzle::None };
    map.encode().map_err(error)
}
