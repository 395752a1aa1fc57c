//! The rules of the driver API, one by one, and the encoding.

use super::{Columns, DataType, Fill, Interleave, Mode, Swizzle, TensorMap, Unreadable, Visit};

/// Makes a map invalid.
type Change = fn(&mut TensorMap);

fn valid() -> TensorMap {
    TensorMap::tiled(DataType::Float16, 0x7f00_0000_0040, &[64, 32, 8], &[32, 8, 2])
}

fn columns() -> Columns {
    Columns { lower: [-1, -1, 0], upper: [-1, -1, 0], channels: 32, pixels: 64 }
}

fn im2col() -> TensorMap {
    let map = TensorMap::tiled(DataType::Float16, 0x7f00_0000_0000, &[64, 9, 9, 2], &[]);
    TensorMap { mode: Mode::Im2col(columns()), ..map }
}

#[test]
fn every_rule_names_its_argument() {
    assert!(valid().encode().is_ok() && im2col().encode().is_ok());
    let sized = |i: usize, size: u32| {
        let mut map = valid();
        if let Mode::Tiled { sizes } = &mut map.mode {
            sizes[i] = size;
        }
        map
    };
    let changed = |change: Change| {
        let mut map = valid();
        change(&mut map);
        map
    };
    let column = |change: fn(&mut Columns)| {
        let mut columns = columns();
        change(&mut columns);
        TensorMap { mode: Mode::Im2col(columns), ..im2col() }
    };
    let wide = |change: Change| {
        let mode = Mode::Im2colWide { columns: columns(), w128: false };
        let mut map = TensorMap { mode, swizzle: Swizzle::Bytes128, ..im2col() };
        change(&mut map);
        map
    };
    assert!(wide(|_| ()).encode().is_ok());
    let cases = [
        (changed(|map| map.rank = 0), "tensorRank"),
        (changed(|map| map.rank = 6), "tensorRank"),
        (TensorMap { rank: 2, ..im2col() }, "tensorRank"),
        (
            changed(|map| {
                map.rank = 2;
                map.interleave = Interleave::Bytes16;
            }),
            "tensorRank",
        ),
        (changed(|map| map.address += 8), "globalAddress"),
        (
            changed(|map| {
                map.address += 16;
                (map.interleave, map.swizzle) = (Interleave::Bytes32, Swizzle::Bytes32);
            }),
            "globalAddress",
        ),
        (changed(|map| map.dims[1] = 0), "globalDim[1]"),
        (changed(|map| map.dims[2] = (1 << 32) + 1), "globalDim[2]"),
        (changed(|map| map.strides[0] = 72), "globalStrides[0]"),
        (changed(|map| map.strides[1] = 1 << 40), "globalStrides[1]"),
        (sized(0, 0), "boxDim[0]"),
        (sized(1, 257), "boxDim[1]"),
        (sized(0, 12), "boxDim[0]"),
        (TensorMap { swizzle: Swizzle::Bytes32, ..valid() }, "boxDim[0]"),
        (changed(|map| map.element_strides[1] = 9), "elementStrides[1]"),
        (changed(|map| map.element_strides[2] = 0), "elementStrides[2]"),
        (changed(|map| map.promotion = 4), "l2Promotion"),
        (TensorMap { data_type: DataType::Uint16, fill: Fill::Nan, ..valid() }, "oobFill"),
        (TensorMap { interleave: Interleave::Bytes32, address: 64, ..valid() }, "swizzle"),
        (
            TensorMap { data_type: DataType::Packed4Align8, dims: [63, 32, 8, 1, 1], ..valid() },
            "globalDim[0]",
        ),
        (TensorMap { data_type: DataType::Packed6Align16, dims: [128, 32, 8, 1, 1], ..valid() }, "boxDim[0]"),
        (column(|columns| columns.channels = 257), "channelsPerPixel"),
        (column(|columns| columns.channels = 4), "channelsPerPixel"),
        (column(|columns| columns.pixels = 1025), "pixelsPerColumn"),
        (column(|columns| columns.pixels = 0), "pixelsPerColumn"),
        (column(|columns| columns.lower[0] = -129), "pixelBoxLowerCorner[0]"),
        (column(|columns| columns.upper[1] = 128), "pixelBoxUpperCorner[1]"),
        (column(|columns| columns.upper[0] = -11), "pixelBoxUpperCorner[0]"),
        (wide(|map| map.swizzle = Swizzle::None), "swizzle"),
    ];
    for (map, argument) in cases {
        let error = map.encode().expect_err(argument);
        assert_eq!(error.argument, argument, "{error}");
    }
    // Without interleave, the first element stride is ignored.
    assert!(changed(|map| map.element_strides[0] = 0).encode().is_ok());
    assert!(changed(|map| map.dims[2] = 1 << 32).encode().is_ok());
}

#[test]
fn a_map_survives_its_encoding_and_nothing_else_is_one() {
    let wide = Mode::Im2colWide { columns: columns(), w128: true };
    for map in [
        valid(),
        im2col(),
        TensorMap { mode: wide, swizzle: Swizzle::Bytes128, ..im2col() },
        TensorMap { swizzle: Swizzle::Bytes64, fill: Fill::Nan, promotion: 3, ..valid() },
    ] {
        let bytes = map.encode().expect("valid");
        assert_eq!(TensorMap::decode(&bytes), Ok(map));
        for i in 0..128 {
            let mut damaged = bytes;
            damaged[i] ^= 0x10;
            let expected = if i < 7 { Unreadable::Foreign } else { Unreadable::Damaged };
            assert_eq!(TensorMap::decode(&damaged), Err(expected), "byte {i}");
        }
    }
    assert_eq!(TensorMap::decode(&[0; 128]), Err(Unreadable::Foreign));
    // Fields that no rule accepts stay what they are: `tensormap.replace` may fix them later.
    let broken = TensorMap { rank: 200, dims: [0; 5], ..valid() };
    assert_eq!(TensorMap::decode(&broken.pack()), Ok(broken));
}

/// Sixteen elements of 4 or 6 bits are at the start of 16 bytes of shared memory, which the swizzle moves together.
#[test]
fn types_with_gaps() {
    for (data_type, bytes) in [(DataType::Packed4Align16, 8), (DataType::Packed6Align16, 12)] {
        let mut map = TensorMap::tiled(data_type, 0x7f00_0000_0000, &[256, 8], &[128, 2]);
        map.strides[0] = 256;
        map.swizzle = Swizzle::Bytes128;
        let plan = map.plan(&[128, 1], Visit::Tile, false, 4096).unwrap();
        assert_eq!((plan.bytes(), plan.extent()), (16 * bytes, 256), "{data_type:?}");
        let first = 0x7f00_0000_0000 + 256 + u64::from(8 * bytes);
        assert_eq!(plan.rows.iter().map(|row| row.global).collect::<Vec<_>>(), [first, first + 256]);
        let pieces: Vec<(usize, u32, u32)> = plan.pieces(0).collect();
        assert_eq!(pieces[1], (usize::try_from(bytes).unwrap(), 16, bytes), "{data_type:?}");
        // The second row: pieces 0 and 1 change places.
        assert_eq!((pieces[8].1, pieces[9].1, pieces[15].1), (128 + 16, 128, 128 + 96), "{data_type:?}");
        assert!(
            map.plan(&[64, 0], Visit::Tile, false, 4096).is_err()
                && map.plan(&[0, 0], Visit::Tile, true, 4096).is_err()
        );
    }
}
