//! Parses an argument: `name:type[extent]=fill` for an array, `name:type=value` for a scalar, `name:{…}`
//! for a struct of such members, `name:=other+count` for an address inside another array, `name:map(other, …)`
//! for a tensor map of another array, `name` for an array of an earlier launch. A role may precede an array's type: `in`, `out`, `inout` or `scratch`.

use std::fmt;
use std::path::PathBuf;

use super::map::MapSpec;
use warpproof_check::Role;
use warpproof_task::dtype::{Dtype, integer};

/// An argument as the user described it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    /// Its name in messages and for `--out` and `--print`; `p.x` for a member of a struct.
    pub(crate) name: String,
    /// The type of the scalar, or of an array's elements; u64 for an address and for a struct, whose types
    /// are unknown.
    pub(crate) element: Dtype,
    /// Its role: as stated; otherwise `inout` for an array with a fill, and `out` for one without.
    pub(crate) role: Role,
    /// The value passed.
    pub(crate) value: ArgumentValue,
}

/// The value passed to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArgumentValue {
    /// The codes themselves: one for a scalar, several for a struct of equal members.
    ByValue(Vec<u64>),
    /// The address of an array.
    Array {
        /// The extents; `None` if the fill determines them.
        shape: Option<Vec<usize>>,
        /// Its initial content.
        fill: Fill,
    },
    /// A struct by value.
    Struct(Vec<Member>),
    /// The address of an element of another array.
    Alias {
        /// The array's name.
        of: String,
        /// Elements from its beginning.
        elements: u64,
    },
    /// A tensor map of another array.
    Map(MapSpec),
    /// The array of this name that an earlier launch of the file had.
    Earlier,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Bytes from the struct's beginning; `None`: where C puts it.
    pub(crate) at: Option<usize>,
    /// What it holds.
    pub(crate) spec: Spec,
}

/// The initial content of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    /// Not set: its bytes are zero, and checks treat them as uninitialized.
    Nothing,
    /// One code everywhere.
    Constant(u64),
    /// Counts from `start` by `step`.
    Iota {
        /// The first number.
        start: i128,
        /// The distance to the next.
        step: i128,
    },
    /// Normally distributed numbers.
    Normal {
        /// Where the generator starts.
        seed: u64,
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// Numbers evenly from `low` up to, and not including, `high`.
    Uniform {
        /// Where the generator starts.
        seed: u64,
        /// The smallest.
        low: f64,
        /// The end.
        high: f64,
    },
    /// Integers from `low` to `high`, both included.
    Integers {
        /// Where the generator starts.
        seed: u64,
        /// The smallest.
        low: i128,
        /// The largest.
        high: i128,
    },
    /// All bits random.
    Bits {
        /// Where the generator starts.
        seed: u64,
    },
    /// The codes themselves.
    List(Vec<u64>),
    /// A file of tensors.
    File {
        /// The file.
        path: PathBuf,
        /// Which of its tensors.
        tensor: Option<String>,
    },
}

/// An error in a description, with a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecError {
    /// The error.
    pub(crate) sentence: String,
    /// The fix.
    pub(crate) help: Option<String>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

pub(super) fn wrong(sentence: impl Into<String>, help: impl Into<String>) -> SpecError {
    SpecError { sentence: sentence.into(), help: Some(help.into()) }
}

const SHAPE_OF_SPEC: &str = "write name:type=value for a scalar, name:type[count]=fill for an array, \
                             name:{member, …} for a struct, name:=array+elements for an address inside an array and \
                             name:map(array, box=8x64) for a tensor map";
const ROLES: &str = "write name:in:type[count]=fill, name:out:type[count], name:inout:type[count]=fill or name:scratch:type[count]";
const FILLS: &str = "fills: zeros, ones, a number, iota(start,step), randn(seed=,mean=,std=), uniform(lo,hi,seed=), \
                     randint(lo,hi,seed=), [1,2,3], @file.npy, @file.safetensors#tensor";
/// Maximum elements of an array; memory limits are much lower.
const MAX_ELEMENTS: usize = 1 << 48;
/// Structs in structs.
const MAX_DEPTH: usize = 16;

impl Spec {
    /// Reads a description.
    pub(crate) fn parse(text: &str) -> Result<Self, SpecError> {
        Self::within(text, "", 0)
    }

    /// Like [`parse`](Self::parse), for a member; `prefix` is the name of its struct with a dot.
    fn within(text: &str, prefix: &str, depth: usize) -> Result<Self, SpecError> {
        let (name, rest) = after_name(text).unwrap_or((text, ""));
        let name = format!("{prefix}{}", name.trim());
        let name = name.as_str();
        if name.ends_with('.') || name.is_empty() || name.contains(['=', '[', ']', ',', '#', '{', '}', '@']) {
            return Err(wrong(format!("argument `{text}` has no name"), SHAPE_OF_SPEC));
        }
        if let Some(spec) = Self::without_type(name, rest, depth)? {
            return Ok(spec);
        }
        let (what, fill) = match rest.split_once('=') {
            Some((what, fill)) => (what.trim(), Some(fill.trim())),
            None => (rest.trim(), None),
        };
        let about = |error: SpecError| SpecError {
            sentence: format!("argument `{name}`: {}", error.sentence),
            help: error.help,
        };
        let (stated, what) = match what.split_once(':') {
            Some((role, what)) => (Some(parse_role(role.trim()).map_err(about)?), what.trim()),
            None => (None, what),
        };
        let (type_name, extent) = match what.split_once('[') {
            Some((type_name, extent)) => (type_name.trim(), Some(extent)),
            None => (what, None),
        };
        let element = dtype_of(type_name).ok_or_else(|| {
            about(wrong(
                format!("expected a type, found `{type_name}`"),
                format!("types: {}", Dtype::names().join(" ")),
            ))
        })?;
        let shape = match extent {
            None => None,
            Some(extent) => Some(parse_shape(extent).map_err(about)?),
        };
        let value = match (shape, fill) {
            (None, None) => {
                let help =
                    format!("write {name}:{type_name}=1 for a scalar, {name}:{type_name}[1] for an array");
                return Err(about(wrong("expected a value or a count", help)));
            }
            (None, Some(fill)) if !fill.starts_with('@') => {
                let codes = match list(element, fill) {
                    Some(codes) => codes.map_err(about)?,
                    None => {
                        vec![element.parse(fill).map_err(|sentence| about(wrong(sentence, SHAPE_OF_SPEC)))?]
                    }
                };
                ArgumentValue::ByValue(codes)
            }
            (shape, fill) => {
                let fill = fill.map_or(Ok(Fill::Nothing), |fill| parse_fill(element, fill)).map_err(about)?;
                let shape = shape.flatten();
                if shape.is_none() && !matches!(fill, Fill::List(_) | Fill::File { .. }) {
                    return Err(about(wrong(
                        "the count is missing",
                        format!("write {name}:{type_name}[16]"),
                    )));
                }
                ArgumentValue::Array { shape, fill }
            }
        };
        let role = match (&value, stated) {
            (ArgumentValue::ByValue(_), None | Some(Role::In)) => Role::In,
            (ArgumentValue::ByValue(_), Some(_)) => {
                return Err(about(wrong("a value is passed by value: the kernel cannot change it", ROLES)));
            }
            (ArgumentValue::Array { fill: Fill::Nothing, .. }, Some(Role::In)) => {
                let help = format!("write {name}:in:{what}=randn(seed=0), or another fill");
                return Err(about(wrong("an input needs a fill", help)));
            }
            (_, Some(role)) => role,
            (ArgumentValue::Array { fill: Fill::Nothing, .. }, None) => Role::Out,
            (_, None) => Role::InOut,
        };
        Ok(Self { name: name.to_owned(), element, role, value })
    }

    /// Arguments without a type of their own: a struct, an address inside an array, an array of an earlier
    /// launch.
    fn without_type(name: &str, rest: &str, depth: usize) -> Result<Option<Self>, SpecError> {
        let about = |error: SpecError| SpecError {
            sentence: format!("argument `{name}`: {}", error.sentence),
            help: error.help,
        };
        let rest = rest.trim();
        let (role, value) = if let Some(members) = rest.strip_prefix('{') {
            (Role::In, ArgumentValue::Struct(members_of(members, name, depth).map_err(about)?))
        } else if let Some(words) = rest.strip_prefix("map(") {
            (Role::In, ArgumentValue::Map(MapSpec::parse(words).map_err(about)?))
        } else if let Some(target) = rest.strip_prefix('=') {
            (Role::InOut, alias(target).map_err(about)?)
        } else if rest.is_empty() {
            (Role::InOut, ArgumentValue::Earlier)
        } else if let Ok(role) = parse_role(rest) {
            (role, ArgumentValue::Earlier)
        } else {
            return Ok(None);
        };
        Ok(Some(Self { name: name.to_owned(), element: Dtype::U64, role, value }))
    }

    /// The spec itself or, for a struct, its members, including those of nested structs.
    pub(crate) fn leaves(&self) -> Vec<&Spec> {
        match &self.value {
            ArgumentValue::Struct(members) => {
                members.iter().flat_map(|member| member.spec.leaves()).collect()
            }
            _ => vec![self],
        }
    }

    /// Whether it needs an array of an earlier launch.
    pub(crate) fn continues(&self) -> bool {
        self.leaves().iter().any(|spec| spec.value == ArgumentValue::Earlier)
    }

    /// The bytes of a value; `None` for an array.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let ArgumentValue::ByValue(codes) = &self.value {
            for code in codes {
                self.element.push(*code, &mut bytes);
            }
        }
        bytes
    }

    /// Whether it has contents before the launch.
    pub(crate) fn is_filled(&self) -> bool {
        !matches!(self.value, ArgumentValue::Array { fill: Fill::Nothing, .. })
    }
}

/// The type a user named; PTX calls signed integers `s32`.
fn dtype_of(name: &str) -> Option<Dtype> {
    let signed = name.strip_prefix('s').map(|bits| format!("i{bits}"));
    Dtype::named(signed.as_deref().unwrap_or(name))
}

/// The name, and what follows its colon. Two colons are part of a name: `filter::coef`.
fn after_name(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(':')?;
        if !text.get(at..)?.starts_with("::") {
            return Some((text.get(..at)?, text.get(at + 1..)?));
        }
        from = at + 2;
    }
}

/// Parses the text after `{`: members separated by commas outside of brackets, and `}`.
fn members_of(text: &str, name: &str, depth: usize) -> Result<Vec<Member>, SpecError> {
    const HELP: &str = "write name:{x:in:f32[64]=ones, n:i32=64}; name@16 places a member at byte 16";
    let inner = text.strip_suffix('}').ok_or_else(|| wrong("the struct has no closing brace", HELP))?;
    if depth >= MAX_DEPTH {
        return Err(wrong(format!("structs are nested more than {MAX_DEPTH} levels deep"), HELP));
    }
    let mut members: Vec<Member> = Vec::new();
    for text in outside_brackets(inner) {
        let text = text.trim();
        let head = text.split([':', '=']).next().unwrap_or_default();
        let (at, text) = match head.split_once('@') {
            Some((name, at)) => {
                let at = at.trim();
                let place =
                    at.parse().map_err(|_| wrong(format!("expected a byte offset, found `{at}`"), HELP))?;
                (Some(place), format!("{name}{}", text.get(head.len()..).unwrap_or_default()))
            }
            None => (None, text.to_owned()),
        };
        let spec = Spec::within(&text, &format!("{name}."), depth + 1)?;
        if members.iter().any(|member| member.spec.name == spec.name) {
            return Err(wrong(format!("duplicate member name `{}`", spec.name), HELP));
        }
        members.push(Member { at, spec });
    }
    if members.is_empty() { Err(wrong("the struct has no members", HELP)) } else { Ok(members) }
}

/// The parts between commas outside of brackets.
pub(super) fn outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|rest| !rest.trim().is_empty()));
    parts
}

/// Parses the text after `:=`: an array, and the number of its elements that are skipped.
pub(super) fn alias(text: &str) -> Result<ArgumentValue, SpecError> {
    const HELP: &str = "write y:=x for the array x, and y:=x+128 for its element 128";
    let (of, elements) = match text.split_once('+') {
        Some((of, elements)) => {
            let elements = elements.trim();
            let count = elements.parse();
            (
                of,
                count
                    .map_err(|_| wrong(format!("expected a count of elements, found `{elements}`"), HELP))?,
            )
        }
        None => (text, 0),
    };
    let of = of.trim();
    if of.is_empty() || of.contains(['=', '[', ']', ',', ':', '{', '}']) {
        return Err(wrong(format!("expected the name of an array, found `{of}`"), HELP));
    }
    Ok(ArgumentValue::Alias { of: of.to_owned(), elements })
}

fn parse_role(text: &str) -> Result<Role, SpecError> {
    match text {
        "in" => Ok(Role::In),
        "out" => Ok(Role::Out),
        "inout" => Ok(Role::InOut),
        "scratch" => Ok(Role::Scratch),
        _ => Err(wrong(format!("expected a role, found `{text}`"), ROLES)),
    }
}

/// Parses the text after `[`: `16]`, `4x8]`, `4,8]`, or `]` if the fill determines the extents.
fn parse_shape(text: &str) -> Result<Option<Vec<usize>>, SpecError> {
    let help = "write the count as [1024], or the extents as [32x32]";
    let inner = text
        .strip_suffix(']')
        .ok_or_else(|| wrong(format!("`[{text}` has no closing bracket"), help))?
        .trim();
    if inner.is_empty() {
        return Ok(None);
    }
    let mut shape = Vec::new();
    let mut elements: usize = 1;
    for part in inner.split(['x', ',']) {
        let extent: usize =
            part.trim().parse().map_err(|_| wrong(format!("expected an extent, found `{part}`"), help))?;
        elements = elements
            .checked_mul(extent)
            .filter(|elements| *elements <= MAX_ELEMENTS)
            .ok_or_else(|| wrong(format!("[{inner}] is too large for any device"), help))?;
        shape.push(extent);
    }
    if shape.len() > 32 {
        return Err(wrong("more than 32 extents", help));
    }
    Ok(Some(shape))
}

/// `[1, 2, 3]`, if it is one.
fn list(element: Dtype, text: &str) -> Option<Result<Vec<u64>, SpecError>> {
    let inner = text.strip_prefix('[')?;
    let Some(inner) = inner.strip_suffix(']') else {
        return Some(Err(wrong("the list has no closing bracket", FILLS)));
    };
    if inner.trim().is_empty() {
        return Some(Ok(Vec::new()));
    }
    let codes = inner.split(',').map(|value| element.parse(value.trim()));
    Some(codes.collect::<Result<_, _>>().map_err(|sentence| wrong(sentence, FILLS)))
}

fn parse_fill(element: Dtype, text: &str) -> Result<Fill, SpecError> {
    if let Some(codes) = list(element, text) {
        return codes.map(Fill::List);
    }
    if let Some(file) = text.strip_prefix('@') {
        let (path, tensor) = match file.split_once('#') {
            Some((path, tensor)) => (path, Some(tensor.to_owned())),
            None => (file, None),
        };
        if path.is_empty() {
            return Err(wrong("no file after `@`", FILLS));
        }
        return Ok(Fill::File { path: path.into(), tensor });
    }
    let (function, given) = match text.split_once('(') {
        Some((function, rest)) => {
            let given = rest
                .strip_suffix(')')
                .ok_or_else(|| wrong(format!("`{text}` has no closing parenthesis"), FILLS))?;
            (function.trim(), given)
        }
        None => (text, ""),
    };
    match function {
        "zeros" if given.is_empty() => Ok(Fill::Constant(0)),
        "ones" if given.is_empty() => Ok(Fill::Constant(element.of_integer(1))),
        "iota" | "arange" => {
            let given = Given::read(function, given, &[&["start"], &["step"]])?;
            Ok(Fill::Iota { start: given.integer(0)?.unwrap_or(0), step: given.integer(1)?.unwrap_or(1) })
        }
        "randn" | "uniform" if element.is_integer() => {
            let sentence =
                format!("{function} yields real numbers, but {} is an integer type", element.name());
            Err(wrong(sentence, "use randint(lo,hi,seed=…)"))
        }
        "randn" => {
            let given = Given::read(function, given, &[&["mean"], &["std"], &["seed"]])?;
            let (mean, std) = (given.real(0)?.unwrap_or(0.0), given.real(1)?.unwrap_or(1.0));
            Ok(Fill::Normal { seed: given.seed(2)?, mean, std })
        }
        "uniform" => {
            let given = Given::read(function, given, &[&["lo", "low"], &["hi", "high"], &["seed"]])?;
            let (low, high) = (given.real(0)?.unwrap_or(0.0), given.real(1)?.unwrap_or(1.0));
            if low > high {
                return Err(wrong(
                    format!("uniform: invalid range {low} to {high}"),
                    "give the smaller number first",
                ));
            }
            Ok(Fill::Uniform { seed: given.seed(2)?, low, high })
        }
        "randint" => {
            let given = Given::read(function, given, &[&["lo", "low"], &["hi", "high"], &["seed"]])?;
            let seed = given.seed(2)?;
            match (given.integer(0)?, given.integer(1)?) {
                (None, None) => Ok(Fill::Bits { seed }),
                (Some(low), Some(high)) => integers(element, seed, low, high),
                _ => Err(wrong("randint needs both ends or none", FILLS)),
            }
        }
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
            || matches!(text, "inf" | "nan") =>
        {
            element.parse(text).map(Fill::Constant).map_err(|sentence| wrong(sentence, FILLS))
        }
        _ => Err(wrong(format!("expected a fill, found `{text}`"), FILLS)),
    }
}

fn integers(element: Dtype, seed: u64, low: i128, high: i128) -> Result<Fill, SpecError> {
    if low > high {
        return Err(wrong(
            format!("randint: invalid range {low} to {high}"),
            "give the smaller number first",
        ));
    }
    // A real type rounds values that it cannot represent; the ends are those of 64-bit integers.
    let (least, most) = if element.is_integer() {
        element.integer_range()
    } else {
        (i128::from(i64::MIN), i128::from(i64::MAX))
    };
    if low < least || high > most {
        let sentence = format!("randint({low},{high}) does not fit {} ({least} to {most})", element.name());
        return Err(wrong(sentence, "both ends are included"));
    }
    Ok(Fill::Integers { seed, low, high })
}

/// The values between the parentheses, by position or by name.
struct Given<'a> {
    function: &'a str,
    values: Vec<Option<&'a str>>,
}

impl<'a> Given<'a> {
    fn read(function: &'a str, text: &'a str, names: &[&[&str]]) -> Result<Self, SpecError> {
        let mut values = vec![None; names.len()];
        let mut place = 0;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (index, value) = match part.split_once('=') {
                Some((name, value)) => {
                    let name = name.trim();
                    let index = names.iter().position(|names| names.contains(&name));
                    let known: Vec<&str> = names.iter().filter_map(|names| names.first().copied()).collect();
                    let help = format!("{function} takes {}", known.join(", "));
                    (
                        index
                            .ok_or_else(|| wrong(format!("{function}: unknown parameter `{name}`"), help))?,
                        value.trim(),
                    )
                }
                None => (place, part),
            };
            place = index + 1;
            let slot = values
                .get_mut(index)
                .ok_or_else(|| wrong(format!("{function} takes at most {} values", names.len()), FILLS))?;
            if slot.replace(value).is_some() {
                return Err(wrong(format!("{function}: duplicate value `{part}`"), FILLS));
            }
        }
        Ok(Self { function, values })
    }

    fn text(&self, index: usize) -> Option<&'a str> {
        self.values.get(index).copied().flatten()
    }

    fn integer(&self, index: usize) -> Result<Option<i128>, SpecError> {
        let Some(text) = self.text(index) else { return Ok(None) };
        let value = integer(text).filter(|value| value.unsigned_abs() <= u128::from(u64::MAX));
        value.map(Some).ok_or_else(|| wrong(format!("{}: `{text}` is not an integer", self.function), FILLS))
    }

    fn real(&self, index: usize) -> Result<Option<f64>, SpecError> {
        let Some(text) = self.text(index) else { return Ok(None) };
        let value: Option<f64> = text.parse().ok().filter(|value: &f64| value.is_finite());
        value.map(Some).ok_or_else(|| wrong(format!("{}: `{text}` is not a number", self.function), FILLS))
    }

    fn seed(&self, index: usize) -> Result<u64, SpecError> {
        let Some(seed) = self.integer(index)? else { return Ok(0) };
        let help = "a seed is a number from 0 to 18446744073709551615";
        u64::try_from(seed)
            .map_err(|_| wrong(format!("{}: expected a seed, found `{seed}`", self.function), help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(text: &str) -> (Option<Vec<usize>>, Fill) {
        match Spec::parse(text).unwrap().value {
            ArgumentValue::Array { shape, fill } => (shape, fill),
            other => panic!("{text} is not an array: {other:?}"),
        }
    }

    #[test]
    fn every_form_is_read() {
        let spec = Spec::parse("n:u32=1024").unwrap();
        assert_eq!((spec.name.as_str(), spec.element), ("n", Dtype::U32));
        assert_eq!(spec.value, ArgumentValue::ByValue(vec![1024]));
        assert_eq!(
            Spec::parse("p:f32=[1, 2]").unwrap().value,
            ArgumentValue::ByValue(vec![0x3f800000, 0x40000000])
        );
        assert_eq!(array("x:f32[4]"), (Some(vec![4]), Fill::Nothing));
        assert_eq!(array("x:f32[2x3,4]=zeros"), (Some(vec![2, 3, 4]), Fill::Constant(0)));
        assert_eq!(array("x:f16[4]=ones").1, Fill::Constant(0x3c00));
        assert_eq!(array("x:i8[4]=-1").1, Fill::Constant(0xff));
        assert_eq!(array("x:i32[4]=iota").1, Fill::Iota { start: 0, step: 1 });
        assert_eq!(array("x:i32[4]=iota(-32)").1, Fill::Iota { start: -32, step: 1 });
        assert_eq!(array("x:i32[4]=arange(start=5,step=-2)").1, Fill::Iota { start: 5, step: -2 });
        assert_eq!(array("x:f32[4]=randn(seed=7)").1, Fill::Normal { seed: 7, mean: 0.0, std: 1.0 });
        assert_eq!(
            array("x:f32[4]=randn(seed=7,mean=1,std=0.5)").1,
            Fill::Normal { seed: 7, mean: 1.0, std: 0.5 }
        );
        assert_eq!(array("x:f32[4]=uniform(-1,1,seed=2)").1, Fill::Uniform { seed: 2, low: -1.0, high: 1.0 });
        assert_eq!(
            array("x:f32[4]=uniform(seed=2,lo=0,hi=8)").1,
            Fill::Uniform { seed: 2, low: 0.0, high: 8.0 }
        );
        assert_eq!(array("x:i32[4]=randint(-9,9,seed=3)").1, Fill::Integers { seed: 3, low: -9, high: 9 });
        assert_eq!(array("x:i32[4]=randint(seed=3)").1, Fill::Bits { seed: 3 });
        assert_eq!(array("x:u8[3]=[1,2,3]").1, Fill::List(vec![1, 2, 3]));
        assert_eq!(array("x:u8[]=[1,2,3]"), (None, Fill::List(vec![1, 2, 3])));
        let file = Fill::File { path: "w.safetensors".into(), tensor: Some("q".into()) };
        assert_eq!(array("x:f32=@w.safetensors#q"), (None, file));
    }

    #[test]
    fn roles_are_read_and_else_follow_from_the_fill() {
        for (text, role, filled) in [
            ("x:f32[4]", Role::Out, false),
            ("x:f32[4]=zeros", Role::InOut, true),
            ("x:in:f32[4]=zeros", Role::In, true),
            ("in:in:f32[4]=zeros", Role::In, true),
            ("in:f32[4]=zeros", Role::InOut, true),
            ("x:out:f32[4]", Role::Out, false),
            ("x:out:f32[4]=ones", Role::Out, true),
            ("x:inout:f32[4]", Role::InOut, false),
            ("x:scratch:f32[4]", Role::Scratch, false),
            ("x:scratch:f32[4]=zeros", Role::Scratch, true),
            ("x: inout : f32[2x2] = [1,2,3,4]", Role::InOut, true),
            ("x:in:f32=@w.npy", Role::In, true),
            ("n:u32=4", Role::In, true),
            ("n:in:u32=4", Role::In, true),
        ] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!((spec.role, spec.is_filled()), (role, filled), "{text}");
        }
        for (text, sentence) in [
            ("x:in:f32[4]", "argument `x`: an input needs a fill"),
            ("n:out:u32=4", "argument `n`: a value is passed by value: the kernel cannot change it"),
            ("x:input:f32[4]", "argument `x`: expected a role, found `input`"),
            ("x:in:", "argument `x`: expected a type, found ``"),
        ] {
            assert_eq!(Spec::parse(text).unwrap_err().sentence, sentence);
        }
    }

    #[test]
    fn structs_aliases_and_earlier_arrays_are_read() {
        let spec =
            Spec::parse("p:{x:in:f32[4]=[1,2,3,4], in:{n:i32=4, y:out:f32[4]}, w@32:f32=[1,2], z:=p.x+2}");
        let spec = spec.unwrap();
        let leaves: Vec<&str> = spec.leaves().iter().map(|leaf| leaf.name.as_str()).collect();
        assert_eq!(leaves, ["p.x", "p.in.n", "p.in.y", "p.w", "p.z"]);
        let ArgumentValue::Struct(members) = &spec.value else { panic!("{spec:?}") };
        assert_eq!(members.iter().map(|member| member.at).collect::<Vec<_>>(), [None, None, Some(32), None]);
        assert_eq!(members[3].spec.value, ArgumentValue::Alias { of: "p.x".into(), elements: 2 });
        assert_eq!(Spec::parse("y:=x").unwrap().value, ArgumentValue::Alias { of: "x".into(), elements: 0 });
        let (bare, input) = (Spec::parse("sums").unwrap(), Spec::parse("sums:in").unwrap());
        assert_eq!((&bare.value, bare.role), (&ArgumentValue::Earlier, Role::InOut));
        assert_eq!((&input.value, input.role), (&ArgumentValue::Earlier, Role::In));
        for (text, sentence) in [
            ("p:{x:f32=1", "argument `p`: the struct has no closing brace"),
            ("p:{}", "argument `p`: the struct has no members"),
            ("p:{x:f32=1, x:f32=2}", "argument `p`: duplicate member name `p.x`"),
            ("p:{x@a:f32=1}", "argument `p`: expected a byte offset, found `a`"),
            ("y:=", "argument `y`: expected the name of an array, found ``"),
            ("y:=x+a", "argument `y`: expected a count of elements, found `a`"),
        ] {
            assert_eq!(Spec::parse(text).unwrap_err().sentence, sentence);
        }
        let deep = format!("p:{}a:u8=1{}", "{a:".repeat(40), "}".repeat(40));
        assert!(Spec::parse(&deep).is_err());
    }

    #[test]
    fn nothing_a_user_types_panics() {
        let pieces = [
            "x", ":", "f32", "u8", "[", "]", "=", "in:", "randn", "(", ")", ",", "-1", "1e99", "@", "#", "é",
            "x4", "{", "}", "+",
        ];
        let mut random = warpproof_num::random::SplitMix(1);
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..random.next() % 9 {
                text.push_str(pieces[usize::try_from(random.next() % 21).unwrap()]);
            }
            let _ = Spec::parse(&text);
            let _ = Spec::parse(&format!("x:u8[4]={text}"));
        }
    }
}
