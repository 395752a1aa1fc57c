//! The line and the variable that `--at` names.

use std::fmt;

use warpproof_sim::values::Assigned;

/// `88`, `88:m_new` or `m_new`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) line: Option<u32>,
    pub(super) variable: Option<String>,
}

impl Target {
    /// Parses the value of `--at`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let named = |name: &str| {
            let mut letters = name.chars();
            let first = letters.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            (first && letters.all(|c| c.is_alphanumeric() || c == '_')).then(|| name.to_owned())
        };
        let number = |line: &str| line.parse::<u32>().ok().filter(|line| *line > 0);
        let wrong = || "expected LINE, LINE:VALUE or VALUE, such as 88:m_new".to_owned();
        Ok(match text.split_once(':') {
            Some((line, name)) => Self {
                line: Some(number(line).ok_or_else(wrong)?),
                variable: Some(named(name).ok_or_else(wrong)?),
            },
            None => match number(text) {
                Some(line) => Self { line: Some(line), variable: None },
                None => Self { line: None, variable: Some(named(text).ok_or_else(wrong)?) },
            },
        })
    }

    /// The line in a source, and what it assigns.
    pub(super) fn find(&self, source: &str) -> Result<(u32, Assigned), String> {
        let Some(name) = &self.variable else {
            let line = self.line.unwrap_or(1);
            return match source.lines().nth(usize::try_from(line).unwrap_or(usize::MAX) - 1) {
                Some(_) => Ok((line, Assigned::Last)),
                None => Err(format!("it has no line {line}")),
            };
        };
        let lines = (1..).zip(source.lines());
        let all: Vec<(u32, Vec<(&str, bool)>)> =
            lines.map(|(line, text)| (line, assignments(text))).collect();
        let here = |line: u32| all.iter().filter(move |(number, _)| *number == line);
        let assigns =
            |found: &[(&str, bool)]| found.iter().find(|(variable, _)| variable == name).map(|one| one.1);
        if let Some(line) = self.line {
            let Some((_, found)) = here(line).next() else { return Err(format!("it has no line {line}")) };
            return match (assigns(found), found.len()) {
                (Some(element), 1) => Ok((line, of(element))),
                (Some(_), _) => Err(format!("line {line} assigns several variables; give each its own line")),
                (None, _) => Err(format!("line {line} does not assign `{name}`")),
            };
        }
        let found: Vec<(u32, bool)> =
            all.iter().filter_map(|(line, found)| assigns(found).map(|element| (*line, element))).collect();
        match &*found {
            [] => Err(format!("no line assigns `{name}`")),
            [(line, element)] => Ok((*line, of(*element))),
            many => {
                let lines: Vec<String> = many.iter().map(|(line, _)| line.to_string()).collect();
                Err(format!("lines {} assign `{name}`; select one with LINE:{name}", lines.join(", ")))
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, &self.variable) {
            (Some(line), Some(name)) => write!(f, "{line}:{name}"),
            (Some(line), None) => write!(f, "{line}"),
            (None, name) => f.write_str(name.as_deref().unwrap_or_default()),
        }
    }
}

fn of(element: bool) -> Assigned {
    if element { Assigned::Element } else { Assigned::Variable }
}

/// The variables that a line of C++ assigns, and whether it assigns an element of each.
fn assignments(text: &str) -> Vec<(&str, bool)> {
    let code = text.split("//").next().unwrap_or_default();
    let mut found = Vec::new();
    for (at, _) in code.match_indices('=') {
        let (before, after) = (&code[..at], &code[at + 1..]);
        // `==`, `<=`, `!=` compare; `+=` and `<<=` assign.
        let shifts = before.ends_with("<<") || before.ends_with(">>");
        if after.starts_with('=') || (before.ends_with(['=', '!', '<', '>']) && !shifts) {
            continue;
        }
        let mut left = before.trim_end_matches(['+', '-', '*', '/', '%', '&', '|', '^', '<', '>']).trim_end();
        let mut element = false;
        while let Some(inner) = left.strip_suffix(']') {
            let mut depth = 1;
            let open = inner.char_indices().rev().find(|(_, c)| {
                depth += i32::from(*c == ']') - i32::from(*c == '[');
                depth == 0
            });
            let Some((open, _)) = open else { break };
            left = inner[..open].trim_end();
            element = true;
        }
        let start = left.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        if let Some(name) = left.get(start..).filter(|name| !name.is_empty()) {
            found.push((name, element));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_found() {
        for (text, expected) in [
            ("float m_new = fmaxf(m_old, m_tile);", &[("m_new", false)][..]),
            ("l_smem[r] = l_new; // = x", &[("l_smem", true)]),
            ("sum += p;", &[("sum", false)]),
            ("U[r * (D + 1)][d[0]] *= rescale;", &[("U", true)]),
            ("if (a == b || c <= d) x <<= 1;", &[("x", false)]),
            ("for (int i = 0; i < n; i += 2)", &[("i", false), ("i", false)]),
            ("frag.x[i] = v;", &[("x", true)]),
            ("__syncthreads();", &[]),
        ] {
            assert_eq!(assignments(text), expected, "{text}");
        }
    }

    #[test]
    fn a_target_names_one_line() {
        let source = "int n = 4;\nfloat m = a;\nm = max(m, b);\ns[i] = m;\nx = 1; y = 2;\n";
        let find = |text: &str| Target::parse(text).unwrap().find(source);
        assert_eq!(find("2"), Ok((2, Assigned::Last)));
        assert_eq!(find("3:m"), Ok((3, Assigned::Variable)));
        assert_eq!(find("s"), Ok((4, Assigned::Element)));
        for (text, why) in [
            ("m", "lines 2, 3 assign `m`; select one with LINE:m"),
            ("4:m", "line 4 does not assign `m`"),
            ("5:x", "line 5 assigns several variables"),
            ("z", "no line assigns `z`"),
            ("9", "it has no line 9"),
            ("9:m", "it has no line 9"),
        ] {
            let error = find(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        for text in ["", "0", ":m", "3:", "3:m+1", "-1", "1:2"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
