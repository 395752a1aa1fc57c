//! Texture fetches of a warp: from a handle and coordinates to texels, and from texels to results.
//!
//! Arithmetic is in [`num::texture`](warpproof_num::texture), which lists what the manual leaves open. Besides that:
//! - A result is f32 if the texture yields floating-point numbers, and an integer otherwise, whatever type the instruction names.
//! - Integer coordinates select a texel without filtering; `Wrap` and `Mirror` clamp, as they do for all coordinates that are not
//!   normalized. A fetch outside linear memory reads 0. Layers are clamped.
//! - Anisotropic filtering, which only `tex.grad` can ask for, and seamless cubemaps are not supported.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "coordinates are bounded before they are counted, and lanes are below 32"
)]

use super::{Flow, LANES, Row, Warp, lanes_of};
use crate::memory::{AddressMode, Image, ImageLevel, Layout, Space, Texture};
use crate::stop::{Blame, StopKind};
use smallvec::SmallVec;
use std::sync::Arc;
use warpproof_num::texture::{around, cube_face, fixed, in_texels, log2, nearest, texel_index};

/// The dimensions that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum Geometry {
    D1,
    D2,
    D3,
    A1d,
    A2d,
    Cube,
    ACube,
}

impl Geometry {
    /// The one that a name of PTX means.
    pub fn parse(name: &str) -> Option<Geometry> {
        Some(match name {
            "1d" => Geometry::D1,
            "2d" => Geometry::D2,
            "3d" => Geometry::D3,
            "a1d" => Geometry::A1d,
            "a2d" => Geometry::A2d,
            "cube" => Geometry::Cube,
            "acube" => Geometry::ACube,
            _ => return None,
        })
    }

    /// The name in PTX.
    pub fn name(self) -> &'static str {
        match self {
            Geometry::D1 => "1d",
            Geometry::D2 => "2d",
            Geometry::D3 => "3d",
            Geometry::A1d => "a1d",
            Geometry::A2d => "a2d",
            Geometry::Cube => "cube",
            Geometry::ACube => "acube",
        }
    }

    /// Whether the first coordinate is the index of a layer.
    pub fn layered(self) -> bool {
        matches!(self, Geometry::A1d | Geometry::A2d | Geometry::ACube)
    }

    /// Whether the coordinates are a direction.
    pub fn is_cube(self) -> bool {
        matches!(self, Geometry::Cube | Geometry::ACube)
    }

    /// Coordinates besides the layer.
    pub fn coordinates(self) -> usize {
        match self {
            Geometry::D1 | Geometry::A1d => 1,
            Geometry::D2 | Geometry::A2d => 2,
            Geometry::D3 | Geometry::Cube | Geometry::ACube => 3,
        }
    }

    /// Dimensions in which texels are filtered.
    fn dimensions(self) -> usize {
        if self.is_cube() { 2 } else { self.coordinates() }
    }

    /// Whether an image has these dimensions.
    pub fn fits(self, image: &Image) -> bool {
        let ImageLevel { height, slices, .. } = image.base();
        match (image.layout, self) {
            (Layout::Linear, Geometry::D1)
            | (Layout::Pitched, Geometry::D2)
            | (Layout::Array, Geometry::D3)
            | (Layout::Layered | Layout::Cube, Geometry::A2d)
            | (Layout::Cube, Geometry::Cube | Geometry::ACube) => true,
            (Layout::Array, Geometry::D2) => slices == 1,
            (Layout::Array, Geometry::D1) => slices == 1 && height == 1,
            (Layout::Layered, Geometry::A1d) => height == 1,
            _ => false,
        }
    }
}

/// Which mipmap level a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detail {
    /// The base level.
    Base,
    /// This one, or between two.
    Level(f32),
    /// By how far the coordinates of neighbors are, in both directions of a screen.
    Gradient([[f32; 3]; 2]),
}

/// A fetch of one lane.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// The texture object.
    pub handle: u64,
    /// The layer.
    pub layer: u32,
    /// The coordinates, as bits.
    pub at: [u32; 3],
    /// The level.
    pub detail: Detail,
    /// Added to the coordinates, in texels.
    pub offset: [i32; 3],
}

/// What all lanes of a fetch have in common.
#[derive(Clone, Copy, Debug)]
pub struct FetchKind {
    /// The dimensions.
    pub geometry: Geometry,
    /// Coordinates are integers.
    pub integer: bool,
    /// One channel of the four texels of the footprint, without filtering.
    pub gather: Option<usize>,
}

/// A texel of the footprint: its address, `None` for the border, and its weight.
#[derive(Clone, Copy)]
struct Tap {
    address: Option<u64>,
    weight: f64,
}

/// The texels that a lane reads.
struct Footprint {
    texture: Arc<Texture>,
    taps: SmallVec<[Tap; 8]>,
}

impl Warp<'_, '_> {
    /// Fetches for the active lanes. Each result is four channels.
    pub fn fetch_texels(
        &mut self,
        kind: FetchKind,
        lanes: impl Fn(&Self, usize) -> Fetch,
    ) -> Result<[[u32; 4]; LANES], Flow> {
        let mut plans: [Option<Footprint>; LANES] = [const { None }; LANES];
        for lane in lanes_of(self.exec) {
            let fetch = lanes(self, lane);
            plans[lane] = Some(self.footprint(kind, &fetch, lane)?);
        }
        let mut results = [[0u32; 4]; LANES];
        let mut sums = [[0f64; 4]; LANES];
        let exec = self.exec;
        let most = plans.iter().flatten().map(|plan| plan.taps.len()).max().unwrap_or(0);
        for position in 0..most {
            let texels = self.read_texels(&plans, position, exec);
            self.exec = exec;
            let texels = texels?;
            for lane in lanes_of(exec) {
                let Some(plan) = &plans[lane] else { continue };
                let Some(tap) = plan.taps.get(position) else { continue };
                let Texture { image, sampler } = &*plan.texture;
                let float = image.texel.reads_float(sampler.reading);
                let value = match tap.address {
                    Some(_) => image.texel.decode(&texels[lane], sampler.reading),
                    None if float => sampler.border.map(f32::to_bits),
                    // The border color of integers is given as floating-point numbers too.
                    None => sampler.border.map(|value| value as i64 as u32),
                };
                if let Some(channel) = kind.gather {
                    results[lane][position & 3] = value[channel & 3];
                } else if plan.taps.len() == 1 {
                    results[lane] = value;
                } else {
                    for (sum, bits) in sums[lane].iter_mut().zip(value) {
                        *sum += tap.weight * f64::from(f32::from_bits(bits));
                    }
                    results[lane] = sums[lane].map(rounded);
                }
            }
        }
        Ok(results)
    }

    /// Reads one texel of each lane's footprint, in one access for each size of texels.
    fn read_texels(
        &mut self,
        plans: &[Option<Footprint>; LANES],
        position: usize,
        exec: u32,
    ) -> Result<[[u32; 4]; LANES], Flow> {
        let mut texels = [[0u32; 4]; LANES];
        for bytes in [1, 2, 4, 8, 16] {
            let (mut addresses, mut lanes) = (Row([0u64; LANES]), 0u32);
            for lane in lanes_of(exec) {
                let Some(plan) =
                    plans[lane].as_ref().filter(|plan| plan.texture.image.texel.bytes() == bytes)
                else {
                    continue;
                };
                if let Some(address) = plan.taps.get(position).and_then(|tap| tap.address) {
                    addresses.0[lane] = address;
                    lanes |= 1 << lane;
                }
            }
            if lanes == 0 {
                continue;
            }
            self.exec = lanes;
            let mut put = |rows: &[Row<u32>]| {
                for lane in lanes_of(lanes) {
                    for (word, row) in texels[lane].iter_mut().zip(rows) {
                        *word = row.0[lane];
                    }
                }
            };
            match bytes {
                16 => put(&self.load_at::<4>(Space::Global, &addresses, bytes)?),
                8 => put(&self.load_at::<2>(Space::Global, &addresses, bytes)?),
                _ => put(&self.load_at::<1>(Space::Global, &addresses, bytes)?),
            }
        }
        Ok(texels)
    }

    /// Stops the launch because a handle is not that of a texture object, or of a surface object.
    #[cold]
    pub fn no_image(&mut self, lane: usize, handle: u64, texture: bool) -> Flow {
        let images = self.global.heap().images();
        let sentence = images.explain(handle, texture);
        if images.is_closed() {
            let sentence =
                format!("{sentence}; only a program creates such objects, and this is a launch without one");
            return self.halt_lane(Blame::Gap, StopKind::Unsupported, lane as u32, sentence);
        }
        self.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence)
    }

    /// The texels that a lane reads.
    fn footprint(&mut self, kind: FetchKind, fetch: &Fetch, lane: usize) -> Result<Footprint, Flow> {
        let Some(texture) = self.global.heap().images().texture(fetch.handle).cloned() else {
            return Err(self.no_image(lane, fetch.handle, true));
        };
        let Texture { image, sampler } = &*texture;
        let name = kind.geometry.name();
        if !kind.geometry.fits(image) || (image.layout == Layout::Linear && !kind.integer) {
            let of = if kind.integer { "integer coordinates" } else { "coordinates" };
            let sentence = format!(
                "a fetch with {of} of geometry .{name} from texture object {:#x}, which is {}",
                fetch.handle,
                image.describe()
            );
            return Err(self.halt_lane(Blame::Kernel, StopKind::Malformed, lane as u32, sentence));
        }
        if sampler.anisotropy > 1 && matches!(fetch.detail, Detail::Gradient(_)) {
            return Err(self.unsupported("anisotropic filtering".to_owned()));
        }
        let mut taps = SmallVec::new();
        for (level, weight) in levels(&texture, kind.geometry, &fetch.detail).into_iter().flatten() {
            if let Some(level) = image.levels.get(level) {
                level_taps(&texture, kind, fetch, level, weight, &mut taps);
            }
        }
        Ok(Footprint { texture, taps })
    }
}

/// A sum as the bits of an f32; a NaN is the one of all arithmetic here.
fn rounded(sum: f64) -> u32 {
    if sum.is_nan() { 0x7fff_ffff } else { (sum as f32).to_bits() }
}

/// One or two levels with their weights.
fn levels(texture: &Texture, geometry: Geometry, detail: &Detail) -> [Option<(usize, f64)>; 2] {
    let Texture { image, sampler } = texture;
    let last = image.levels.len().saturating_sub(1);
    let asked = match detail {
        Detail::Base => return [Some((0, 1.0)), None],
        _ if last == 0 => return [Some((0, 1.0)), None],
        Detail::Level(level) => f64::from(*level),
        Detail::Gradient(gradients) => {
            let base = image.base();
            let sizes = [base.width, base.height, base.slices].map(f64::from);
            let count = if geometry.is_cube() { 3 } else { geometry.coordinates() };
            let length = |gradient: &[f32; 3]| {
                let squares = (0..count).map(|i| {
                    // A step of 1 along a face of a cube is half of its size.
                    let scale = if geometry.is_cube() { sizes[0] / 2.0 } else { sizes[i] };
                    let step = f64::from(gradient[i]) * if sampler.normalized { scale } else { 1.0 };
                    step * step
                });
                squares.sum::<f64>().sqrt()
            };
            log2(gradients.iter().map(length).fold(0.0, f64::max))
        }
    };
    let [low, high] = sampler.level_clamp.map(f64::from);
    let asked = if asked.is_nan() { 0.0 } else { asked + f64::from(sampler.level_bias) };
    let level = asked.min(high).max(low).clamp(0.0, last as f64);
    if !sampler.linear_levels || !image.texel.reads_float(sampler.reading) {
        return [Some((nearest(level + 0.5).clamp(0, last as i64) as usize, 1.0)), None];
    }
    let first = nearest(level);
    let second = fixed(level - first as f64);
    let first = first.clamp(0, last as i64) as usize;
    let weighted =
        |level: usize, weight: u32| (weight > 0).then(|| (level.min(last), f64::from(weight) / 256.0));
    [weighted(first, 256 - second), weighted(first + 1, second)]
}

/// The texels of one dimension, `None` for the border, and their weights in 1/256.
type Axis = SmallVec<[(Option<u32>, u32); 2]>;

/// Adds the texels that a fetch reads of one level.
fn level_taps(
    texture: &Texture,
    kind: FetchKind,
    fetch: &Fetch,
    level: &ImageLevel,
    weight: f64,
    taps: &mut SmallVec<[Tap; 8]>,
) {
    let Texture { image, sampler } = texture;
    let geometry = kind.geometry;
    let dimensions = geometry.dimensions();
    let sizes = [level.width, level.height, level.slices];
    let mut places = fetch.at.map(f32::from_bits);
    // The slice that a layer or a face selects.
    let mut slice = geometry.layered().then(|| fetch.layer.min(level.slices.saturating_sub(1)));
    if geometry.is_cube() {
        let (face, [u, v]) = cube_face(places);
        let cubes = level.slices / 6;
        let cube = if geometry.layered() { fetch.layer.min(cubes.saturating_sub(1)) } else { 0 };
        slice = Some(6 * cube + face);
        places = [u, v, 0.0];
    }
    let normalized = (sampler.normalized || geometry.is_cube()) && !kind.integer;
    let mode = |dimension: usize| match sampler.address[dimension] {
        _ if image.layout == Layout::Linear => AddressMode::Border,
        _ if geometry.is_cube() => AddressMode::Clamp,
        AddressMode::Wrap | AddressMode::Mirror if !normalized => AddressMode::Clamp,
        mode => mode,
    };
    let filtered = sampler.linear && !kind.integer && image.texel.reads_float(sampler.reading);
    let mut axes: [Axis; 3] = Default::default();
    for (dimension, axis) in axes.iter_mut().enumerate().take(dimensions) {
        let size = sizes[dimension];
        let index = |at: i64| {
            texel_index(mode(dimension), at.saturating_add(i64::from(fetch.offset[dimension])), size)
        };
        let scale = if normalized { f64::from(size) } else { 1.0 };
        let place = in_texels(places[dimension], scale);
        if kind.integer {
            axis.push((index(i64::from(fetch.at[dimension].cast_signed())), 256));
        } else if kind.gather.is_some() {
            let (first, _) = around(place);
            axis.extend([(index(first), 256), (index(first + 1), 256)]);
        } else if filtered {
            let (first, second) = around(place);
            let both = [(index(first), 256 - second), (index(first + 1), second)];
            axis.extend(both.into_iter().filter(|(_, weight)| *weight > 0));
        } else {
            axis.push((index(nearest(place)), 256));
        }
    }
    for axis in axes.iter_mut().skip(dimensions) {
        axis.push((Some(0), 256));
    }
    if let Some(slice) = slice {
        axes[2] = SmallVec::from_slice(&[(Some(slice), 256)]);
    }
    let mut add = |x: (Option<u32>, u32), y: (Option<u32>, u32), z: (Option<u32>, u32)| {
        let address = match (x.0, y.0, z.0) {
            (Some(x), Some(y), Some(z)) => Some(level.texel(image.texel, [x, y, z])),
            _ => None,
        };
        let shares = [x, y, z].map(|(_, share)| f64::from(share) / 256.0);
        taps.push(Tap { address, weight: weight * shares[0] * shares[1] * shares[2] });
    };
    if kind.gather.is_some() {
        // Counterclockwise from the lower left; rows go down.
        if let ([x0, x1], [y0, y1], [z]) = (&axes[0][..], &axes[1][..], &axes[2][..]) {
            for (x, y) in [(x0, y1), (x1, y1), (x1, y0), (x0, y0)] {
                add(*x, *y, *z);
            }
        }
        return;
    }
    for z in &axes[2] {
        for y in &axes[1] {
            for x in &axes[0] {
                add(*x, *y, *z);
            }
        }
    }
}
