//! Reads the files of recorded results. They are not trusted: an invalid file gives an error with its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::fragment::{Format, Op};
use crate::report::{Kind, Place, Report};

/// The largest file that is read.
const MAX_FILE: u64 = 256 << 20;

/// One whole product: D = A·B + C, codes row-major.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) line: u32,
    pub(super) op: Op,
    pub(super) a: Vec<u64>,
    pub(super) b: Vec<u64>,
    pub(super) c: Vec<u64>,
    pub(super) d: Vec<u64>,
}

/// Dot products captured on hardware.
#[derive(Clone, Debug)]
pub(super) struct Captures {
    /// The file, for messages.
    pub(super) file: String,
    /// The type of the elements.
    pub(super) element: Format,
    /// Elements in a dot product.
    pub(super) length: usize,
    /// The columns of results: their names and the type of the accumulator.
    pub(super) results: Vec<(String, Format)>,
    /// The dot products.
    pub(super) rows: Vec<Capture>,
}

/// One dot product with the results of each device, all as f32 codes.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    pub(super) line: u32,
    pub(super) a: Vec<u64>,
    pub(super) b: Vec<u64>,
    pub(super) c: u32,
    pub(super) d: Vec<u32>,
}

fn read(path: &Path) -> Result<String, Box<Report>> {
    let missing = |cause: &dyn std::fmt::Display| {
        let sentence = format!("cannot read {}: {cause}", path.display());
        let help = "pass the folder with mma-ada.jsonl and silicon/*.txt";
        Box::new(Report::error(Kind::Missing, sentence).help(help))
    };
    let file = File::open(path).map_err(|cause| missing(&cause))?;
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|cause| missing(&cause))?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(missing(&format!("the file is larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}

fn wrong(path: &Path, line: u32, cause: impl Into<String>) -> Box<Report> {
    // Show no excerpt: a line has kilobytes of codes.
    let place = Place::new(path.display().to_string(), line).text(Some(String::new()));
    Box::new(Report::error(Kind::Missing, format!("invalid vectors: {}", cause.into())).at(Some(place)))
}

/// Codes in a text of `digits` hexadecimal digits each, with or without blanks between them.
fn codes(text: &str, digits: usize) -> Result<Vec<u64>, String> {
    let packed: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let chunks = packed.chunks_exact(digits);
    if !chunks.remainder().is_empty() {
        return Err(format!("expected a multiple of {digits} digits, found {}", packed.len()));
    }
    chunks.map(|chunk| hex(std::str::from_utf8(chunk).unwrap_or("?"))).collect()
}

fn hex(text: &str) -> Result<u64, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = if digits { u64::from_str_radix(text, 16).ok() } else { None };
    value.ok_or_else(|| format!("expected a code, found `{}`", text.escape_default()))
}

/// Reads `mma-ada.jsonl`: one product per line, with `op`, `a`, `b`, `c` and `d`.
pub(super) fn cases(path: &Path) -> Result<Vec<Case>, Box<Report>> {
    let text = read(path)?;
    let mut cases = Vec::new();
    for (line, content) in (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty()) {
        let value: serde_json::Value =
            serde_json::from_str(content).map_err(|cause| wrong(path, line, cause.to_string()))?;
        let field = |name: &str| {
            value
                .get(name)
                .and_then(|value| value.as_str())
                .ok_or_else(|| wrong(path, line, format!("no `{name}`")))
        };
        let name = field("op")?;
        let op = Op::parse(name).ok_or_else(|| {
            let sentence = format!(
                "{} line {line}: {} is not a supported instruction",
                path.display(),
                name.escape_default()
            );
            let report = Report::error(Kind::Unsupported, sentence);
            Box::new(report.note("this is a gap in warpproof", None))
        })?;
        let matrix = |name: &str, format: Format, count: usize| {
            let codes = codes(field(name)?, format.digits()).map_err(|cause| wrong(path, line, cause))?;
            if codes.len() != count {
                return Err(wrong(
                    path,
                    line,
                    format!("expected {count} codes in `{name}`, found {}", codes.len()),
                ));
            }
            Ok(codes)
        };
        cases.push(Case {
            line,
            op,
            a: matrix("a", op.a, op.m * op.k)?,
            b: matrix("b", op.b, op.k * op.n)?,
            c: matrix("c", op.c, op.m * op.n)?,
            d: matrix("d", op.c, op.m * op.n)?,
        });
    }
    Ok(cases)
}

/// The files of captures and the elements in them.
const FILES: [(&str, Format, usize); 5] = [
    ("e4m3", Format::E4m3, 32),
    ("e5m2", Format::E5m2, 32),
    ("fp16", Format::F16, 8),
    ("bf16", Format::Bf16, 8),
    ("tf32", Format::Tf32, 4),
];

/// Reads `silicon/*.txt`: a header `# a b c d_<type>_<device>…`, then one dot product per line.
pub(super) fn captures(folder: &Path) -> Result<Vec<Captures>, Box<Report>> {
    FILES.iter().map(|(name, element, length)| capture_file(folder, name, *element, *length)).collect()
}

fn capture_file(folder: &Path, name: &str, element: Format, length: usize) -> Result<Captures, Box<Report>> {
    let path = folder.join(name).with_extension("txt");
    let text = read(&path)?;
    let mut lines = (1..).zip(text.lines());
    let heads = lines.next().and_then(|(_, head)| head.strip_prefix("# a b c "));
    let heads = heads.ok_or_else(|| wrong(&path, 1, "expected a first line `# a b c d_…`"))?;
    let mut results = Vec::new();
    for head in heads.split_whitespace() {
        let accumulator = match head {
            _ if head.starts_with("d_f32_") => Format::F32,
            _ if head.starts_with("d_f16_") => Format::F16,
            _ => return Err(wrong(&path, 1, format!("unknown column `{}`", head.escape_default()))),
        };
        results.push((head.to_owned(), accumulator));
    }
    let mut rows = Vec::new();
    for (line, content) in lines.filter(|(_, content)| !content.trim().is_empty()) {
        let fields: Vec<&str> = content.split_whitespace().collect();
        let [a, b, c, d @ ..] = fields.as_slice() else {
            return Err(wrong(&path, line, "expected at least three columns"));
        };
        if d.len() != results.len() {
            return Err(wrong(
                &path,
                line,
                format!("expected {1} results, found {0}", d.len(), results.len()),
            ));
        }
        let row = |text: &str| {
            let codes = codes(text, element.digits()).map_err(|cause| wrong(&path, line, cause))?;
            if codes.len() != length {
                return Err(wrong(&path, line, format!("expected {length} codes, found {}", codes.len())));
            }
            Ok(codes)
        };
        let single = |text: &str| {
            let code = hex(text).map_err(|cause| wrong(&path, line, cause))?;
            u32::try_from(code).map_err(|_| wrong(&path, line, "expected a code of at most 32 bits"))
        };
        rows.push(Capture {
            line,
            a: row(a)?,
            b: row(b)?,
            c: single(c)?,
            d: d.iter().map(|code| single(code)).collect::<Result<_, _>>()?,
        });
    }
    Ok(Captures { file: format!("silicon/{name}.txt"), element, length, results, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_a_message_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mma-ada.jsonl");
        for (text, cause) in [
            ("\n{", "EOF"),
            ("{}", "no `op`"),
            (
                "{\"op\": \"m16n8k8.f32.tf32.tf32.f32\", \"a\": \"0\"}",
                "expected a multiple of 8 digits, found 1",
            ),
            (
                "{\"op\": \"m16n8k8.f32.tf32.tf32.f32\", \"a\": \"00000000\"}",
                "expected 128 codes in `a`, found 1",
            ),
            ("{\"op\": \"m16n8k8.f32.tf32.tf32.f32\", \"a\": \"+0000000\"}", "expected a code"),
            ("{\"op\": \"m16n8k8.f32.f4.f4.f32\"}", "not a supported instruction"),
        ] {
            std::fs::write(&path, text).unwrap();
            let report = cases(&path).unwrap_err();
            assert!(report.sentence.contains(cause), "{}", report.sentence);
        }
        let silicon = dir.path().join("e4m3.txt");
        for (text, cause) in [
            ("", "expected a first line"),
            ("# a b c x_f32_l4", "unknown column"),
            ("# a b c d_f32_l4\n00 00\n", "at least three columns"),
            ("# a b c d_f32_l4\n00 00 00000000\n", "expected 1 results, found 0"),
            ("# a b c d_f32_l4\n00 00 00000000 00000000\n", "expected 32 codes, found 1"),
        ] {
            std::fs::write(&silicon, text).unwrap();
            let report = captures(dir.path()).unwrap_err();
            assert!(report.sentence.contains(cause), "{}", report.sentence);
        }
    }
}
