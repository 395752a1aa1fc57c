//! Which parts of a text are prose.

/// A line of a text; parts that are not prose are blanked, so that columns stay.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// From one.
    pub(super) number: usize,
    pub(super) text: String,
    /// Whether it separates paragraphs.
    pub(super) blank: bool,
    /// Whether it is skipped for a reason.
    pub(super) ignored: bool,
    /// Whether it has an ignore mark without a reason.
    pub(super) bare_mark: bool,
}

const MARK: &str = "claims: ignore";

/// The lines of a text. Fenced blocks and spans of code are blanked unless requested; comments and addresses always.
pub(super) fn lines(text: &str, code: bool) -> Vec<Line> {
    let mut out = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    let mut comment = false;
    let mut next_ignored = false;
    for (i, raw) in text.lines().enumerate() {
        let start = raw.trim_start();
        let run = |c: char| start.chars().take_while(|d| *d == c).count();
        let ticks = ['`', '~'].into_iter().map(|c| (c, run(c))).find(|(_, count)| *count >= 3);
        let mut fenced = fence.is_some();
        match (fence, ticks) {
            (None, Some(opened)) if !comment => {
                fence = Some(opened);
                fenced = true;
            }
            (Some((c, count)), Some((d, again)))
                if c == d && again >= count && start.trim_end().chars().all(|e| e == c) =>
            {
                fence = None;
            }
            _ => {}
        }
        let mark = if fenced { None } else { reason(raw) };
        let alone = mark.is_some() && raw.trim_start().starts_with("<!--") && raw.trim_end().ends_with("-->");
        let bare_mark = mark.is_some_and(str::is_empty);
        let ignored = std::mem::take(&mut next_ignored) || mark.is_some_and(|reason| !reason.is_empty());
        next_ignored = alone && ignored && mark.is_some();
        let text = match (fenced, code) {
            (true, true) => raw.to_owned(),
            (true, false) => String::new(),
            (false, _) => blanked(raw, code, &mut comment),
        };
        let blank = if fenced { !code } else { raw.trim().is_empty() };
        out.push(Line { number: i + 1, text, blank, ignored, bare_mark });
    }
    out
}

/// The text after the mark, if it is in the line.
fn reason(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<!--")?;
    let rest = rest.trim_start().strip_prefix(MARK)?;
    Some(rest.split("-->").next().unwrap_or_default().trim())
}

/// The line with spaces for comments, addresses and, unless requested, spans of code.
fn blanked(line: &str, code: bool, comment: &mut bool) -> String {
    let chars: Vec<char> = line.chars().collect();
    let mut out = String::with_capacity(line.len());
    let at = |i: usize, text: &str| text.chars().enumerate().all(|(j, c)| chars.get(i + j) == Some(&c));
    let mut i = 0;
    while let Some(&c) = chars.get(i) {
        if *comment {
            if at(i, "-->") {
                *comment = false;
                out.push_str("   ");
                i += 3;
            } else {
                out.push(' ');
                i += 1;
            }
            continue;
        }
        if at(i, "<!--") {
            *comment = true;
            continue;
        }
        if c == '`' && !code {
            let fence = chars.iter().skip(i).take_while(|c| **c == '`').count();
            if let Some(end) = closing(&chars, i + fence, fence) {
                out.extend(std::iter::repeat_n(' ', end - i));
                i = end;
                continue;
            }
            out.extend(std::iter::repeat_n(' ', fence));
            i += fence;
            continue;
        }
        if at(i, "](") {
            let end = chars.iter().skip(i).position(|c| *c == ')').map_or(chars.len(), |far| i + far);
            out.extend(std::iter::repeat_n(' ', end - i));
            i = end;
            continue;
        }
        if at(i, "http://") || at(i, "https://") {
            let far = chars.iter().skip(i).take_while(|c| !c.is_whitespace()).count();
            out.extend(std::iter::repeat_n(' ', far));
            i += far;
            continue;
        }
        out.push(c);
        i += 1;
    }
    out
}

/// The position after the next run of exactly this number of backticks.
fn closing(chars: &[char], from: usize, fence: usize) -> Option<usize> {
    let mut i = from;
    while i < chars.len() {
        let run = chars.iter().skip(i).take_while(|c| **c == '`').count();
        if run == fence {
            return Some(i + run);
        }
        i += run.max(1);
    }
    None
}
