//! Attention kernels: binds their parameters to the tensors of an attention task by name, and proposes formats, scales,
//! layouts and grids, from which trial runs select.

use std::fmt::Write;

use super::Seen;
use super::draft::{Draft, Target};
use super::operator::Kind;
use super::parameter::{Parameter, What};
use super::text;
use warpproof_task::dtype::Dtype;

/// One guess of how a kernel reads its data and distributes its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The format of the codes.
    pub format: &'static str,
    /// Which elements share a scale.
    pub scales: &'static str,
    /// The order of the axes.
    pub layout: &'static str,
    /// Blocks, as expressions over the axes.
    pub grid: Vec<String>,
}

/// Queries of a block, the largest first: with fewer blocks than it needs, a kernel leaves outputs unwritten.
const TILES: [u32; 7] = [128, 64, 32, 16, 8, 4, 1];

impl Attempt {
    /// Guesses that differ in their grid. `ptx` indicates the format.
    pub fn grids(seen: &Seen, ptx: &str) -> Vec<Attempt> {
        // A kernel that converts FP8 in hardware reads FP8; others compute values from integers.
        let format = match (ptx.contains(".e4m3"), ptx.contains(".e5m2")) {
            (true, _) => "e4m3",
            (false, true) => "e5m2",
            (false, false) => "linear8",
        };
        let forms: &[&[&str]] = match seen.geometry.grid {
            [_, _, true] => &[
                &["ceil(s / T)", "h", "b"],
                &["h", "b", "ceil(s / T)"],
                &["b", "h", "ceil(s / T)"],
                &["ceil(s / T)", "b", "h"],
            ],
            [_, true, false] => &[&["ceil(s / T)", "b * h"], &["b * h", "ceil(s / T)"]],
            _ => &[&["b * h * ceil(s / T)"]],
        };
        let with = |form: &&[&str], tile: u32| {
            let tile = tile.to_string();
            form.iter().map(|extent| extent.replace('T', &tile).replace("ceil(s / 1)", "s")).collect()
        };
        let attempt = |grid| Attempt { format, scales: "head", layout: "bhsd", grid };
        TILES.iter().flat_map(|tile| forms.iter().map(move |form| attempt(with(form, *tile)))).collect()
    }

    /// Guesses with this one's grid that differ in format, scales and layout, the most likely first.
    pub fn data(&self) -> Vec<Attempt> {
        let others = ["linear8", "e4m3", "e5m2"].into_iter().filter(|format| *format != self.format);
        let formats: Vec<&str> = [self.format].into_iter().chain(others).collect();
        let mut all = Vec::new();
        for format in formats {
            for scales in ["head", "tensor", "row", "block"] {
                for layout in ["bhsd", "bshd"] {
                    all.push(Attempt { format, scales, layout, grid: self.grid.clone() });
                }
            }
        }
        all
    }
}

/// The tensor that a parameter is, by its name: `q`, `Q_fp8`, `scale_k`, `vScale`.
fn tensor(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let scale = lower.contains("scale") || matches!(lower.as_str(), "sq" | "sk" | "sv");
    let plain = lower.replace("scales", "").replace("scale", "");
    let plain = if scale && plain.len() == 2 { plain.trim_start_matches('s').to_owned() } else { plain };
    let letter = plain.split('_').find_map(|word| word.chars().next().filter(|c| "qkv".contains(*c)))?;
    Some(match (letter, scale) {
        ('q', false) => "q",
        ('k', false) => "k",
        ('v', false) => "v",
        ('q', true) => "q_scale",
        ('k', true) => "k_scale",
        _ => "v_scale",
    })
}

/// The axis that an integer parameter is, by its name.
fn axis(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let plain = lower.trim_start_matches("num_").trim_start_matches("n_").trim_end_matches('_');
    Some(match plain {
        "b" | "batch" | "batches" | "batch_size" => "b",
        "h" | "heads" | "nheads" | "head_count" | "q_heads" => "h",
        "s" | "n" | "t" | "seq" | "rows" | "length" | "queries" | "keys" | "sequence" | "seqlen"
        | "seq_len" | "seqlen_q" | "seqlen_k" | "s_q" | "s_k" => "s",
        "d" | "dim" | "head_dim" | "hd" | "headdim" => "d",
        _ => return None,
    })
}

/// The arguments in the kernel's order, each with a remark, and scratch memory for arrays that it writes besides `o`.
struct Bound {
    arguments: Vec<(String, Option<String>)>,
    scratch: Vec<String>,
    guesses: Vec<String>,
    questions: Vec<String>,
}

fn bind(seen: &Seen) -> Result<Bound, String> {
    let arrays = || {
        seen.parameters.iter().filter_map(|parameter| match &parameter.what {
            What::Array { dtype, access, .. } => Some((parameter, *dtype, *access)),
            _ => None,
        })
    };
    let named: Vec<&str> =
        arrays().filter(|(_, _, access)| !access.written).filter_map(|one| tensor(&one.0.name)).collect();
    let distinct = |names: &[&str]| names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    let by_name = distinct(&named) && ["q", "k", "v"].iter().all(|name| named.contains(name));
    let mut order = [["q", "k", "v"].iter(), ["q_scale", "k_scale", "v_scale"].iter()];
    let mut bound =
        Bound { arguments: Vec::new(), scratch: Vec::new(), guesses: Vec::new(), questions: Vec::new() };
    let mut written = 0;
    for parameter in &seen.parameters {
        let name = parameter.name.as_str();
        let (value, remark) = match &parameter.what {
            What::Array { access, .. } if access.written => {
                written += 1;
                if written == 1 {
                    (quoted("o"), None)
                } else {
                    let question = format!(
                        "how many elements does `{name}` have? It is scratch memory: an attention task compares only `o`"
                    );
                    let line = format!("name = \"{name}\"\ndtype = \"f32\"\ncount = \"b * h * s\"\n");
                    bound.scratch.push(line);
                    bound.questions.push(question.clone());
                    (quoted(name), Some(format!("question: {question}")))
                }
            }
            What::Array { dtype, .. } => {
                let found = if by_name {
                    tensor(name)
                } else {
                    let [codes, scales] = &mut order;
                    if dtype.size() == 1 { codes.next().copied() } else { scales.next().copied() }
                };
                let Some(found) = found else {
                    return Err(format!(
                        "parameter `{name}` is not q, k, v, or one of their scales; name it `q`, `k`, `v`, `q_scale`, \
                         `k_scale` or `v_scale`"
                    ));
                };
                let why = if by_name { "of its name" } else { "of its place and type" };
                if name != found {
                    bound.guesses.push(format!("{name} is {found}, because {why}"));
                }
                (quoted(found), None)
            }
            What::Scalar(dtype) if dtype.is_integer() => match axis(name) {
                Some(axis) => (format!("{{ value = \"{axis}\", dtype = \"{dtype}\" }}"), None),
                None => bound.ask(parameter, "1", *dtype),
            },
            What::Scalar(dtype) if name.to_lowercase().contains("scale") => {
                let value = "1 / sqrt(d)";
                bound.guesses.push(format!("{name} = {value}, because it scales the scores"));
                (format!("{{ value = \"{value}\", dtype = \"{dtype}\" }}"), None)
            }
            What::Scalar(dtype) => bound.ask(parameter, "1.0", *dtype),
            What::Scratch { .. } => {
                return Err(format!("parameter `{name}` is memory of Triton; write its task by hand"));
            }
            What::Other(ty) => {
                return Err(format!("parameter `{name}` is a `{ty}`, which init does not support"));
            }
        };
        bound.arguments.push((value, remark));
    }
    if written == 0 {
        return Err(format!("`{}` writes to none of its parameters: it has no output", seen.name));
    }
    Ok(bound)
}

impl Bound {
    fn ask(&mut self, parameter: &Parameter, value: &str, dtype: Dtype) -> (String, Option<String>) {
        let name = &parameter.name;
        let question = format!("what is the value of `{name}`? The task uses {value} for now");
        self.questions.push(question.clone());
        (format!("{{ value = \"{value}\", dtype = \"{dtype}\" }}"), Some(format!("question: {question}")))
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The task of an attention kernel with one guess, or why it has none. A `trial` has one small shape, in which all
/// extents differ; `confirmed` means that outputs agreed in a trial.
pub fn attention(
    seen: &Seen,
    target: &Target<'_>,
    attempt: &Attempt,
    trial: bool,
    confirmed: bool,
) -> Result<Draft, String> {
    let Bound { arguments, scratch, mut guesses, mut questions } = bind(seen)?;
    let Attempt { format, scales, layout, grid } = attempt;
    guesses
        .push(format!("grid = [{}], because this many blocks write every output element", grid.join(", ")));
    let data = format!("format = {format}, scales = {scales}, layout = {layout}");
    if confirmed {
        guesses.push(format!("{data}, because outputs agree with attention"));
    } else {
        questions.push(format!("are {data} correct? No trial run agreed with attention"));
    }
    let mut shapes = String::new();
    if trial {
        shapes.push_str("[[shape]]\nname = \"trial\"\naxes = { b = 2, h = 3, s = 128, d = 64 }\n\n");
    } else {
        shapes.push_str(
            "[[shape]]\nname = \"small\"\naxes = { b = 1, h = 2, s = 64, d = 64 }\n\n\
             # Lengths that tiles of 32 and 64 do not divide.\n[[shape]]\nname = \"tail\"\n\
             axes = { b = 1, h = 2, s = 33, d = 64 }\ntails = { s = [1, 70] }\n\n\
             [[shape]]\nname = \"mission\"\naxes = { b = 2, h = 8, s = 256, d = 64 }\n\n",
        );
    }
    let mark = if confirmed {
        "guessed: because outputs agree with attention"
    } else {
        "question: is this correct? No trial run confirmed it"
    };
    // Writing to a string cannot fail.
    let _ = write!(
        shapes,
        "# Tensors for arguments: q, k and v (codes of 8 bits), q_scale, k_scale and v_scale (f32), and o (f16).\n\
         [reference]\nformat = \"{format}\" # {mark}. One of e4m3, e5m2, linear8 (code 128 is zero)\n\
         scales = \"{scales}\" # {mark}. One of tensor, head, block, row\n\
         layout = \"{layout}\" # {mark}. One of bhsd, bshd\ncausal = false\n\n"
    );
    let head = "seeds = [0, 1, 2]\n# Drawn for each run, so that a kernel cannot be tuned to the seeds above.\n\
                secret_seeds = 1\ndistributions = [\"normal\", \"v-mean-one\", \"peaked\", \"outliers\"]\n\n";
    let parts = text::Parts {
        seen,
        target,
        kind: Kind::Attention,
        because: "the user set it",
        axes: &[],
        inputs: &[],
        outputs: &[],
        scratch: &scratch,
        dtype: Dtype::F16,
        unit: Dtype::F16.unit().relative,
        narrow: true,
        real: true,
        arguments: &arguments,
        grid,
        grid_because: "this many blocks write every output element",
        block: &seen.block,
        shared: None,
        reference: &[],
        questions: &questions,
    };
    let text = text::with_data(&parts, &format!("{head}{shapes}"));
    Ok(Draft { text, operator: Kind::Attention, guesses, questions, python: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_tensors_and_axes() {
        for (name, found) in [
            ("q", Some("q")),
            ("K_fp8", Some("k")),
            ("value", Some("v")),
            ("scale_q", Some("q_scale")),
            ("kScale", Some("k_scale")),
            ("sv", Some("v_scale")),
            ("v_scales", Some("v_scale")),
            ("mask", None),
            ("softmax_scale", None),
        ] {
            assert_eq!(tensor(name), found, "{name}");
        }
        for (name, found) in
            [("num_heads", Some("h")), ("B", Some("b")), ("seqlen_k", Some("s")), ("HEAD_DIM", Some("d"))]
        {
            assert_eq!(axis(name), found, "{name}");
        }
        assert_eq!(axis("stride"), None);
    }
}
