//! Arguments as they are laid out in parameter memory: values, addresses of arrays, and structs by the layout rules
//! of C. The command line and the gate share this module.

use std::fmt;
use warpproof_sim::tensor_map::{self, TensorMap};

/// The bytes of an argument, with the places that hold addresses of arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    align: usize,
    addresses: Vec<Address>,
    maps: Vec<(Address, TensorMap)>,
    fields: Vec<Placed>,
}

/// A place that holds the address of an array, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its offset in the argument.
    pub at: usize,
    /// The array, by its number among the launch's arrays.
    pub array: usize,
    /// Bytes from the array's beginning.
    pub offset: u64,
}

/// A member of a struct, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    name: String,
    at: usize,
    size: usize,
}

/// A member of a struct before it has a place.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in messages.
    pub name: String,
    /// Its offset; `None`: the next multiple of its alignment, as in C.
    pub at: Option<usize>,
    /// What it holds.
    pub value: Packed,
}

/// Bytes of an address.
const POINTER: usize = 8;
/// Bytes of the largest argument: the parameter memory of a kernel (CUDA 12.1 and later).
const MOST: usize = 32_764;

impl Packed {
    /// A value, or several of one type in a row; `align` is the size of one.
    pub fn value(bytes: Vec<u8>, align: usize) -> Packed {
        Packed { bytes, align: align.max(1), ..Packed::default() }
    }

    /// The address of a byte of an array.
    pub fn address(array: usize, offset: u64) -> Packed {
        let addresses = vec![Address { at: 0, array, offset }];
        Packed { bytes: vec![0; POINTER], align: POINTER, addresses, ..Packed::default() }
    }

    /// A tensor map of an array, from this byte on. The map's own address does not matter.
    pub fn tensor_map(array: usize, offset: u64, map: TensorMap) -> Packed {
        let maps = vec![(Address { at: 0, array, offset }, map)];
        Packed { bytes: vec![0; tensor_map::BYTES], align: 64, maps, ..Packed::default() }
    }

    /// A struct. The error names the member that does not fit.
    pub fn structure(members: Vec<Member>) -> Result<Packed, String> {
        let mut all = Packed { align: 1, ..Packed::default() };
        for Member { name, at, value } in members {
            let size = value.bytes.len();
            let next = all.bytes.len().next_multiple_of(value.align);
            let place = at.unwrap_or(next);
            if place < all.bytes.len() {
                let end = all.bytes.len();
                return Err(format!("`{name}` is at offset {place}, but the members before it end at {end}"));
            }
            if place.saturating_add(size) > MOST {
                return Err(format!("`{name}` ends beyond the {MOST} bytes of a kernel's parameter memory"));
            }
            all.bytes.resize(place, 0);
            all.bytes.extend(&value.bytes);
            all.align = all.align.max(value.align);
            all.addresses.extend(value.addresses.iter().map(|one| Address { at: one.at + place, ..*one }));
            let moved = value.maps.iter().map(|(one, map)| (Address { at: one.at + place, ..*one }, *map));
            all.maps.extend(moved);
            if value.fields.is_empty() {
                all.fields.push(Placed { name, at: place, size });
            } else {
                let inner = value.fields.into_iter();
                all.fields.extend(inner.map(|one| Placed {
                    name: format!("{name}.{}", one.name),
                    at: one.at + place,
                    size: one.size,
                }));
            }
        }
        all.bytes.resize(all.bytes.len().next_multiple_of(all.align), 0);
        Ok(all)
    }

    /// Bytes it takes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Pads it with zeros up to the size of a parameter whose alignment is larger than that of its members
    /// in C: a `float4` is described as four f32. Arguments that are longer, or that lack more than
    /// padding, stay unchanged.
    #[must_use]
    pub fn padded(mut self, size: usize, align: usize) -> Packed {
        if self.is_structure() && self.bytes.len() < size && self.bytes.len().next_multiple_of(align) == size
        {
            self.bytes.resize(size, 0);
        }
        self
    }

    /// Whether it is a struct with members.
    pub fn is_structure(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The places that hold addresses.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The bytes, with the arrays at these addresses.
    pub fn bytes(&self, address_of: impl Fn(usize) -> u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for one in &self.addresses {
            let address = address_of(one.array).wrapping_add(one.offset);
            if let Some(place) = bytes.get_mut(one.at..one.at + POINTER) {
                place.copy_from_slice(&address.to_le_bytes());
            }
        }
        for (one, map) in &self.maps {
            let map = TensorMap { address: address_of(one.array).wrapping_add(one.offset), ..*map };
            if let Some(place) = bytes.get_mut(one.at..one.at + tensor_map::BYTES) {
                place.copy_from_slice(&map.pack());
            }
        }
        bytes
    }
}

/// `x at 0 (8 bytes), n at 8 (4 bytes)`.
impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} at {} ({} bytes)", field.name, field.at, field.size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, at: Option<usize>, value: Packed) -> Member {
        Member { name: name.to_owned(), at, value }
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        // struct { char a; const float *x; struct { short s; double d; } in; int n; }
        let inner = Packed::structure(vec![
            member("s", None, Packed::value(vec![1, 2], 2)),
            member("d", None, Packed::value(vec![3; 8], 8)),
        ]);
        let all = Packed::structure(vec![
            member("a", None, Packed::value(vec![9], 1)),
            member("x", None, Packed::address(1, 16)),
            member("in", None, inner.unwrap()),
            member("n", None, Packed::value(vec![7; 4], 4)),
        ])
        .unwrap();
        assert_eq!(all.size(), 40);
        assert_eq!(
            all.to_string(),
            "a at 0 (1 bytes), x at 8 (8 bytes), in.s at 16 (2 bytes), in.d at 24 (8 bytes), n at 32 (4 bytes)"
        );
        let bytes = all.bytes(|array| if array == 1 { 0x1000 } else { 0 });
        assert_eq!(bytes[8..16], 0x1010u64.to_le_bytes());
        assert_eq!((bytes[0], bytes[24], bytes[35], bytes[36]), (9, 3, 7, 0));
    }

    #[test]
    fn members_may_have_places_of_their_own() {
        let four = || Packed::value(vec![1; 4], 4);
        let all = Packed::structure(vec![member("a", None, four()), member("v", Some(16), four())]).unwrap();
        assert_eq!((all.size(), all.clone().padded(32, 16).size()), (20, 32));
        assert_eq!(all.clone().padded(48, 16).size(), 20);
        let overlap = Packed::structure(vec![member("a", None, four()), member("b", Some(2), four())]);
        assert_eq!(overlap, Err("`b` is at offset 2, but the members before it end at 4".to_owned()));
        assert!(Packed::structure(vec![member("a", Some(usize::MAX), four())]).is_err());
    }
}
