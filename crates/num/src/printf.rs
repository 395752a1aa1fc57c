//! C's `printf`, as CUDA's device runtime formats it.

/// A request of the formatter.
pub enum Want {
    /// The next argument, of this number of bytes (4 or 8).
    Bytes(u8),
    /// The string at an address, at most this number of bytes of it.
    String(u64, usize),
}

/// The reply to a request.
pub enum Got {
    /// An argument's bits.
    Bits(u64),
    /// A string's bytes.
    Text(Vec<u8>),
}

/// The result of formatting.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text.
    pub text: Vec<u8>,
    /// Arguments used: the return value of `vprintf` on the device.
    pub arguments: usize,
}

/// The maximum field width or precision: a kernel must not make the host print gigabytes of padding.
const MAX_FIELD: usize = 4096;

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "C's flags, one each")]
struct Spec {
    minus: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
}

/// Formats `format`, requesting arguments as needed. A conversion that C does not have is printed unchanged. Ends early
/// once the output exceeds `room` bytes.
pub fn format(format: &[u8], room: usize, ask: &mut dyn FnMut(Want) -> Got) -> Printed {
    let mut out = Printed::default();
    let mut rest = format;
    while let (Some((&byte, tail)), true) = (rest.split_first(), out.text.len() <= room) {
        rest = tail;
        if byte != b'%' {
            out.text.push(byte);
            continue;
        }
        let start = rest;
        let bits = |out: &mut Printed, size: u8, ask: &mut dyn FnMut(Want) -> Got| {
            out.arguments += 1;
            match ask(Want::Bytes(size)) {
                Got::Bits(bits) => bits,
                Got::Text(_) => 0,
            }
        };
        let mut spec = Spec::default();
        while let Some((&flag, tail)) = rest.split_first() {
            match flag {
                b'-' => spec.minus = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                _ => break,
            }
            rest = tail;
        }
        let number =
            |rest: &mut &[u8], out: &mut Printed, ask: &mut dyn FnMut(Want) -> Got| -> (usize, bool) {
                if let Some((b'*', tail)) = rest.split_first() {
                    *rest = tail;
                    let value = low32(bits(out, 4, ask)).cast_signed();
                    return (usize::try_from(value.unsigned_abs()).unwrap_or(0).min(MAX_FIELD), value < 0);
                }
                let mut value = 0usize;
                while let Some((digit @ b'0'..=b'9', tail)) = rest.split_first() {
                    value = (value * 10 + usize::from(digit - b'0')).min(MAX_FIELD);
                    *rest = tail;
                }
                (value, false)
            };
        let (width, negative) = number(&mut rest, &mut out, ask);
        spec.width = width;
        spec.minus |= negative;
        if let Some((b'.', tail)) = rest.split_first() {
            rest = tail;
            let (precision, negative) = number(&mut rest, &mut out, ask);
            spec.precision = (!negative).then_some(precision);
        }
        let mut half = 0;
        while let Some((&modifier, tail)) = rest.split_first() {
            match modifier {
                b'l' | b'j' | b'z' | b't' | b'L' => spec.long = true,
                b'h' => half += 1,
                _ => break,
            }
            rest = tail;
        }
        let Some((&conversion, tail)) = rest.split_first() else {
            out.text.push(b'%');
            out.text.extend_from_slice(start);
            break;
        };
        rest = tail;
        let size = if spec.long { 8 } else { 4 };
        match conversion {
            b'%' => out.text.push(b'%'),
            b'd' | b'i' => {
                let raw = bits(&mut out, size, ask);
                let value = if spec.long { raw.cast_signed() } else { i64::from(low32(raw).cast_signed()) };
                let value = match half {
                    1 => i64::from(i16::from_le_bytes([value.to_le_bytes()[0], value.to_le_bytes()[1]])),
                    2.. => i64::from(i8::from_le_bytes([value.to_le_bytes()[0]])),
                    _ => value,
                };
                let digits = value.unsigned_abs().to_string();
                integer(&mut out.text, &spec, sign(&spec, value < 0), &digits, value == 0);
            }
            b'u' | b'x' | b'X' | b'o' => {
                let raw = bits(&mut out, size, ask);
                let value = if spec.long { raw } else { u64::from(low32(raw)) };
                let value = match half {
                    1 => value & 0xffff,
                    2.. => value & 0xff,
                    _ => value,
                };
                let (digits, prefix) = match conversion {
                    b'x' => (format!("{value:x}"), "0x"),
                    b'X' => (format!("{value:X}"), "0X"),
                    b'o' => (format!("{value:o}"), "0"),
                    _ => (value.to_string(), ""),
                };
                let prefix = if spec.alternate && value != 0 { prefix } else { "" };
                integer(&mut out.text, &spec, prefix, &digits, value == 0);
            }
            b'c' => {
                let byte = low32(bits(&mut out, 4, ask)).to_le_bytes()[0];
                pad(&mut out.text, &spec, &[byte]);
            }
            b'p' => {
                let value = bits(&mut out, 8, ask);
                pad(&mut out.text, &spec, format!("0x{value:x}").as_bytes());
            }
            b's' => {
                let address = bits(&mut out, 8, ask);
                let mut text = match ask(Want::String(address, spec.precision.unwrap_or(usize::MAX))) {
                    Got::Text(text) => text,
                    Got::Bits(_) => Vec::new(),
                };
                if let Some(precision) = spec.precision {
                    text.truncate(precision);
                }
                pad(&mut out.text, &spec, &text);
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                let value = f64::from_bits(bits(&mut out, 8, ask));
                real(&mut out.text, &spec, conversion, value);
            }
            _ => {
                out.text.push(b'%');
                let length = start.len() - rest.len();
                out.text.extend_from_slice(&start[..length]);
            }
        }
    }
    out
}

fn low32(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).unwrap_or(0)
}

fn sign(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn pad(out: &mut Vec<u8>, spec: &Spec, text: &[u8]) {
    let missing = spec.width.saturating_sub(text.len());
    if !spec.minus {
        out.resize(out.len() + missing, b' ');
    }
    out.extend_from_slice(text);
    if spec.minus {
        out.resize(out.len() + missing, b' ');
    }
}

fn integer(out: &mut Vec<u8>, spec: &Spec, prefix: &str, digits: &str, zero: bool) {
    let digits = if zero && spec.precision == Some(0) { "" } else { digits };
    let least = match spec.precision {
        Some(precision) => precision,
        None if spec.zero && !spec.minus => spec.width.saturating_sub(prefix.len()),
        None => 0,
    };
    let zeros = least.saturating_sub(digits.len());
    pad(out, spec, format!("{prefix}{}{digits}", "0".repeat(zeros)).as_bytes());
}

fn real(out: &mut Vec<u8>, spec: &Spec, conversion: u8, value: f64) {
    let upper = conversion.is_ascii_uppercase();
    let sign = sign(spec, value.is_sign_negative());
    let magnitude = value.abs();
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        let text = if upper { text.to_uppercase() } else { text.to_owned() };
        // Only numbers are padded with zeros.
        return pad(out, spec, format!("{sign}{text}").as_bytes());
    }
    let precision = spec.precision.unwrap_or(6);
    let body = match conversion.to_ascii_lowercase() {
        b'f' => fixed(magnitude, precision, spec.alternate),
        b'e' => exponent(magnitude, precision, spec.alternate),
        b'g' => general(magnitude, precision.max(1), spec.alternate),
        _ => hexadecimal(magnitude, spec.precision),
    };
    let body = if upper { body.to_uppercase() } else { body };
    let zeros = if spec.zero && !spec.minus { spec.width.saturating_sub(sign.len() + body.len()) } else { 0 };
    pad(out, spec, format!("{sign}{}{body}", "0".repeat(zeros)).as_bytes());
}

fn fixed(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$}");
    if precision == 0 && point { text + "." } else { text }
}

fn exponent(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let point = if precision == 0 && point { "." } else { "" };
    format!("{digits}{point}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
}

fn general(value: f64, precision: usize, keep: bool) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let power: i32 = scientific.split_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or(0);
    let wide = i32::try_from(precision).unwrap_or(i32::MAX);
    let text = if power < -4 || power >= wide {
        exponent(value, precision - 1, keep)
    } else {
        fixed(value, usize::try_from(wide - 1 - power).unwrap_or(0), keep)
    };
    if keep || !text.contains('.') {
        return text;
    }
    let (digits, tail) = text.split_once('e').map_or((text.as_str(), None), |(d, t)| (d, Some(t)));
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    tail.map_or_else(|| digits.to_owned(), |tail| format!("{digits}e{tail}"))
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let bits = value.to_bits();
    let (mut mantissa, raw) = (bits & ((1 << 52) - 1), bits >> 52);
    let (mut lead, power) = match raw {
        0 if mantissa == 0 => (0, 0),
        0 => (0, -1022),
        raw => (1u64, i64::try_from(raw).unwrap_or(0) - 1023),
    };
    let mut digits = 13;
    if let Some(precision) = precision.filter(|p| *p < 13) {
        let drop = 4 * (13 - u32::try_from(precision).unwrap_or(0));
        let whole = lead << 52 | mantissa;
        let (kept, lost) = (whole >> drop, whole & ((1 << drop) - 1));
        let half = 1u64 << (drop - 1);
        let kept = kept + u64::from(lost > half || lost == half && kept & 1 == 1);
        let whole = kept << drop;
        lead = whole >> 52;
        mantissa = whole & ((1 << 52) - 1);
        digits = precision;
    }
    let mut text = format!("{mantissa:013x}");
    text.truncate(digits);
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(precision) => text.extend(std::iter::repeat_n('0', precision.saturating_sub(13))),
    }
    let point = if text.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{text}p{power:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str, arguments: &[u64]) -> String {
        let mut next = arguments.iter();
        let printed = format(text.as_bytes(), 1 << 20, &mut |want| match want {
            Want::Bytes(_) => Got::Bits(*next.next().unwrap_or(&0)),
            Want::String(..) => Got::Text(b"text".to_vec()),
        });
        String::from_utf8(printed.text).unwrap()
    }

    #[test]
    fn conversions_follow_c() {
        let f = |v: f64| v.to_bits();
        let minus = u64::from((-42i32).cast_unsigned());
        for (format, arguments, expected) in [
            ("%d|%5d|%-5d|%05d|%+d", vec![minus, 42, 42, 42, 42], "-42|   42|42   |00042|+42"),
            ("%u %x %#X %o", vec![minus, 255, 255, 8], "4294967254 ff 0XFF 10"),
            ("%lld %llu", vec![u64::MAX, u64::MAX], "-1 18446744073709551615"),
            ("%hd %hhu", vec![0x1_ffff, 0x1ff], "-1 255"),
            (
                "%f %.2f %8.3f %-8.1f|",
                vec![f(1.5), f(2.345), f(-1.0), f(9.96)],
                "1.500000 2.35   -1.000 10.0    |",
            ),
            (
                "%e %.0e %g %g %g",
                vec![f(12345.678), f(5.0), f(0.0001), f(1e-5), f(1e6)],
                "1.234568e+04 5e+00 0.0001 1e-05 1e+06",
            ),
            ("%f %F %5.1f", vec![f(f64::INFINITY), f(f64::NAN), f(f64::NEG_INFINITY)], "inf NAN  -inf"),
            ("%a %.1a", vec![f(1.0), f(1.999)], "0x1p+0 0x2.0p+0"),
            ("%s|%.2s|%6s|%c|%%|%p", vec![0, 0, 0, 65, 4096], "text|te|  text|A|%|0x1000"),
            ("%*d|%-*d|%.*f", vec![4, 7, 3, 7, 1, f(0.25)], "   7|7  |0.2"),
            ("%k %", vec![], "%k %"),
            ("%.0d|%.3d|%08.3f", vec![0, 7, f(-3.25)], "|007|-003.250"),
        ] {
            assert_eq!(print(format, &arguments), expected, "{format}");
        }
    }

    #[test]
    fn fields_are_bounded() {
        assert!(print("%999999999d", &[1]).len() <= MAX_FIELD);
    }
}
