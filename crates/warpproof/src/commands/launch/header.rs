//! Lines at the head of a kernel's file that say how to launch it:
//! `//@launch: kernel=… grid=x,y,z block=x,y,z shared=bytes arg=… arg=…`, `//@options: …` for NVRTC, and settings of
//! `check` such as `//@schedules: 4`.

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
    pub(crate) cluster: Option<u32>,
    /// The arguments.
    pub(crate) args: Vec<String>,
}

/// One, two or three extents, as `4`, `4,4` or `16x16x1`.
pub(crate) fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    for (i, part) in text.split([',', 'x']).enumerate() {
        let slot = all.get_mut(i).ok_or_else(|| format!("`{text}` has more than three extents"))?;
        *slot = part
            .trim()
            .parse()
            .ok()
            .filter(|extent| *extent > 0)
            .ok_or_else(|| format!("`{}` is no extent: write 4, 4,4 or 4,4,4", part.trim()))?;
    }
    Ok(all)
}

/// The launches that a file describes. An error names its line.
pub(crate) fn launches(text: &str) -> Result<Vec<LaunchLine>, (u32, String)> {
    let mut all = Vec::new();
    for (number, content) in marked(text, "//@launch:") {
        let mut launch = LaunchLine { line: number, ..LaunchLine::default() };
        let wrong = |cause: String| (number, cause);
        for word in content.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| wrong(format!("`{word}` is not key=value")))?;
            let size = || value.parse().map_err(|_| (number, format!("`{value}` is no number")));
            match key {
                "kernel" => launch.kernel = Some(value.to_owned()),
                "grid" => launch.grid = Some(extents(value).map_err(wrong)?),
                "block" => launch.block = Some(extents(value).map_err(wrong)?),
                "shared" => launch.shared = Some(size()?),
                "cluster" => launch.cluster = Some(size()?),
                "arg" => launch.args.push(value.to_owned()),
                _ => return Err(wrong(format!("`{key}` is no part of a launch"))),
            }
        }
        all.push(launch);
    }
    Ok(all)
}

/// Further options of NVRTC.
pub(crate) fn options(text: &str) -> Vec<String> {
    marked(text, "//@options:")
        .flat_map(|(_, content)| content.split_whitespace())
        .map(str::to_owned)
        .collect()
}

/// What a line `//@key: …` of the file says.
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
                args: vec!["a:f32=2.5".into(), "x:in:f32[64]=randn(seed=0)".into()],
            }]
        );
        assert_eq!(setting("a\n  //@schedules: 4 \n", "schedules"), Some((2, "4")));
        assert_eq!(setting(text, "checks"), None);
        assert_eq!(options("//@options: --device-int128 -x\n"), ["--device-int128", "-x"]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, cause) in [
            ("grid=0", "`0` is no extent: write 4, 4,4 or 4,4,4"),
            ("grid=1,2,3,4", "`1,2,3,4` has more than three extents"),
            ("threads=4", "`threads` is no part of a launch"),
            ("fast", "`fast` is not key=value"),
            ("shared=1k", "`1k` is no number"),
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
