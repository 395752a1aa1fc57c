//! Lines at the start of a kernel's file that describe its launches:
//! `//@launch: kernel=… grid=x,y,z block=x,y,z shared=bytes cluster=x,y,z nonportable=true cooperative=true symbol=… arg=… arg=…`,
//! `//@options: …` for NVRTC, and settings of `check` such as `//@schedules: 4`.

/// A launch as the file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchLine {
    /// The line's number, from 1.
    pub(crate) line: u32,
    /// The kernel, as the source calls it.
    pub(crate) kernel: Option<String>,
    /// Blocks.
    pub(crate) grid: Option<[u32; 3]>,
    /// Threads.
    pub(crate) block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: Option<u32>,
    /// Blocks in a cluster.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Whether clusters may have a size that not every device supports.
    pub(crate) nonportable: bool,
    /// Whether it is launched cooperatively; `None`: depends on the kernel.
    pub(crate) cooperative: Option<bool>,
    /// The arguments.
    pub(crate) args: Vec<String>,
    /// Variables of the module, and their values.
    pub(crate) symbols: Vec<String>,
}

/// One, two or three extents, as `4`, `4,4`, `16x16x1` or `16 16`. Every command reads grids and blocks with this.
pub(crate) fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    let separators = |c: char| c == ',' || c == 'x' || c == 'X';
    // A blank separates extents only if there is no other separator: `16, 16`.
    let parts: Vec<&str> = if text.contains(separators) {
        text.split(separators).map(str::trim).collect()
    } else {
        text.split_whitespace().collect()
    };
    if parts.is_empty() {
        return Err("expected 4, 4,4 or 4,4,4, found nothing".to_owned());
    }
    for (i, part) in parts.into_iter().enumerate() {
        let slot = all.get_mut(i).ok_or_else(|| format!("`{text}` has more than three extents"))?;
        let extent = part.parse().ok().filter(|extent| *extent > 0);
        *slot = extent.ok_or_else(|| format!("expected 4, 4,4 or 4,4,4, found the extent `{part}`"))?;
    }
    Ok(all)
}

/// The words of a launch line: blanks inside brackets do not separate, so that `kernel=f<float, 4>` is one
/// word.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut depth) = (None, 0u32);
    for (at, letter) in line.char_indices() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter.is_whitespace() && depth == 0 {
            words.extend(start.take().and_then(|start| line.get(start..at)));
        } else {
            start.get_or_insert(at);
        }
    }
    words.extend(start.and_then(|start| line.get(start..)));
    words
}

/// The launches that a file describes. An error names its line.
pub(crate) fn launches(text: &str) -> Result<Vec<LaunchLine>, (u32, String)> {
    let mut all = Vec::new();
    for (number, content) in marked(text, "//@launch:") {
        let mut launch = LaunchLine { line: number, ..LaunchLine::default() };
        let wrong = |cause: String| (number, cause);
        for word in words(content) {
            let (key, value) =
                word.split_once('=').ok_or_else(|| wrong(format!("expected key=value, found `{word}`")))?;
            let size = || value.parse().map_err(|_| (number, format!("expected a number, found `{value}`")));
            let truth = || {
                value.parse().map_err(|_| (number, format!("expected {key}=true or false, found `{value}`")))
            };
            match key {
                "kernel" => launch.kernel = Some(value.to_owned()),
                "grid" => launch.grid = Some(extents(value).map_err(wrong)?),
                "block" => launch.block = Some(extents(value).map_err(wrong)?),
                "shared" => launch.shared = Some(size()?),
                "cluster" => launch.cluster = Some(extents(value).map_err(wrong)?),
                "nonportable" => launch.nonportable = truth()?,
                "cooperative" => launch.cooperative = Some(truth()?),
                "arg" => launch.args.push(value.to_owned()),
                "symbol" => launch.symbols.push(value.to_owned()),
                _ => return Err(wrong(format!("unknown key `{key}` in a launch line"))),
            }
        }
        all.push(launch);
    }
    Ok(all)
}

/// The value of a line `//@key: …` of the file.
pub(crate) fn setting<'a>(text: &'a str, key: &str) -> Option<(u32, &'a str)> {
    let mark = format!("//@{key}:");
    let mut lines = (1..).zip(text.lines());
    lines.find_map(|(number, line)| Some((number, line.trim().strip_prefix(&mark)?.trim())))
}

fn marked<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (u32, &'a str)> {
    (1..).zip(text.lines()).filter_map(move |(number, line)| Some((number, line.trim().strip_prefix(mark)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_line_is_read() {
        let text = "// x\n//@arch: 75+\n//@launch: kernel=axpy<float> grid=2,3 block=64 shared=512 arg=a:f32=2.5 arg=x:in:f32[64]=randn(seed=0)\n";
        let all = launches(text).unwrap();
        assert_eq!(
            all,
            [LaunchLine {
                line: 3,
                kernel: Some("axpy<float>".into()),
                grid: Some([2, 3, 1]),
                block: Some([64, 1, 1]),
                shared: Some(512),
                cluster: None,
                nonportable: false,
                cooperative: None,
                symbols: Vec::new(),
                args: vec!["a:f32=2.5".into(), "x:in:f32[64]=randn(seed=0)".into()],
            }]
        );
        assert_eq!(setting("a\n  //@schedules: 4 \n", "schedules"), Some((2, "4")));
        assert_eq!(setting(text, "checks"), None);
    }

    #[test]
    fn extents_are_written_in_several_ways() {
        for text in ["16,8", "16x8", "16 8", " 16, 8 ", "16,8,1", "16X8"] {
            assert_eq!(extents(text), Ok([16, 8, 1]), "{text}");
        }
        assert_eq!(extents("7"), Ok([7, 1, 1]));
        for text in ["", " ", "0", "16,", ",", "16x", "1,2,3,4", "1 2 3 4", "-1", "a", "4294967296"] {
            assert!(extents(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blanks_in_brackets_do_not_separate() {
        assert_eq!(words(" a=f<float, 4> b=[1, 2]  c= "), ["a=f<float, 4>", "b=[1, 2]", "c="]);
        assert_eq!(words("a>b c<d e"), ["a>b", "c<d e"]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, cause) in [
            ("grid=0", "expected 4, 4,4 or 4,4,4, found the extent `0`"),
            ("grid=1,2,3,4", "`1,2,3,4` has more than three extents"),
            ("threads=4", "unknown key `threads` in a launch line"),
            ("fast", "expected key=value, found `fast`"),
            ("shared=1k", "expected a number, found `1k`"),
        ] {
            assert_eq!(launches(&format!("\n//@launch: {line}")), Err((2, cause.to_owned())));
        }
    }

    /// The corpus is written in this grammar.
    #[test]
    fn every_launch_of_the_corpus_is_read() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cuda");
        let mut count = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for launch in launches(&text).unwrap() {
                assert!(launch.kernel.is_some() && launch.grid.is_some() && launch.block.is_some());
                for arg in &launch.args {
                    let spec = super::super::Spec::parse(arg);
                    assert!(spec.is_ok(), "{}: {arg}: {}", path.display(), spec.unwrap_err());
                }
                count += 1;
            }
        }
        assert!(count > 100, "{count}");
    }
}
