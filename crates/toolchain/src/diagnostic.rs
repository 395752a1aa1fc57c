//! Messages of NVRTC and ptxas, parsed from their logs.

use serde::{Deserialize, Serialize};

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The source is rejected.
    Error,
    /// The source is accepted, but suspicious.
    Warning,
    /// Information.
    Note,
}

/// A place in a text. Lines and columns count from 1; a column counts bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file as the compiler names it.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column, if known.
    pub column: Option<u32>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// NVIDIA's number, such as `177-D`.
    pub code: Option<String>,
    /// The text of the message.
    pub message: String,
    /// The source location.
    pub place: Option<Place>,
    /// The source line as printed by the compiler.
    pub excerpt: Option<String>,
    /// Additional lines: candidates, instantiations.
    pub notes: Vec<String>,
}

/// Parses NVRTC's log.
pub(crate) fn from_nvrtc(log: &str) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    let mut open = false;
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(diagnostic) = nvrtc_head(line) {
            diagnostics.push(diagnostic);
            open = true;
            continue;
        }
        if line.trim().is_empty() {
            open = false;
            continue;
        }
        let Some(current) = diagnostics.last_mut().filter(|_| open) else { continue };
        // A source line is followed by a line that contains only a caret.
        let caret = lines.peek().and_then(|next| {
            let at = next.find('^')?;
            next.bytes().all(|b| matches!(b, b' ' | b'\t' | b'^' | b'~')).then_some(at)
        });
        if let Some(caret) = caret.filter(|_| current.excerpt.is_none()) {
            lines.next();
            // Both lines are indented by two.
            current.excerpt = Some(line.strip_prefix("  ").unwrap_or(line).to_owned());
            if let Some(place) = &mut current.place {
                place.column = u32::try_from(caret.saturating_sub(1)).ok();
            }
        } else {
            current.notes.push(line.trim().to_owned());
        }
    }
    diagnostics
}

/// `file(line): error: message`, `file(line): warning #177-D: message`, `nvrtc: error: message`.
fn nvrtc_head(line: &str) -> Option<Diagnostic> {
    const HEADS: [(&str, Severity); 6] = [
        ("catastrophic error", Severity::Error),
        ("internal error", Severity::Error),
        ("error", Severity::Error),
        ("warning", Severity::Warning),
        ("remark", Severity::Note),
        ("note", Severity::Note),
    ];
    let (place, rest) = if let Some(rest) = line.strip_prefix("nvrtc: ") {
        (None, rest)
    } else {
        let (before, rest) = line.split_once("): ")?;
        let (file, number) = before.rsplit_once('(')?;
        let line = number.parse().ok()?;
        (Some(Place { file: file.to_owned(), line, column: None }), rest)
    };
    let (rest, severity) =
        HEADS.iter().find_map(|(head, severity)| Some((rest.strip_prefix(head)?, *severity)))?;
    let (code, message) = match rest.strip_prefix(" #") {
        Some(rest) => rest.split_once(": ").map(|(code, message)| (Some(code.to_owned()), message))?,
        None => (None, rest.strip_prefix(": ")?),
    };
    let message = message.trim().to_owned();
    Some(Diagnostic { severity, code, message, place, excerpt: None, notes: Vec::new() })
}

/// Parses the messages of ptxas, except the output of `-v`.
pub(crate) fn from_ptxas(log: &str) -> Vec<Diagnostic> {
    log.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix("ptxas ")?;
            let (place, rest) = match rest.split_once(", line ") {
                Some((file, after)) if after.starts_with(|c: char| c.is_ascii_digit()) => {
                    let (number, after) = after.split_once(';')?;
                    let line = number.trim().parse().ok()?;
                    (Some(Place { file: file.to_owned(), line, column: None }), after.trim_start())
                }
                _ => (None, rest),
            };
            let (word, message) = rest.split_once(':')?;
            let severity = match word.trim() {
                "error" | "fatal" => Severity::Error,
                "warning" => Severity::Warning,
                _ => return None,
            };
            let message = message.trim().to_owned();
            Some(Diagnostic { severity, code: None, message, place, excerpt: None, notes: Vec::new() })
        })
        // ptxas's final line after an error adds no information.
        .filter(|diagnostic| diagnostic.message != "Ptx assembly aborted due to errors")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_nvrtc_messages_with_columns() {
        let log = "k.cu(3): warning #177-D: variable \"unused\" was declared but never referenced\n  \
                   \tint\tunused;\n  \t   \t^\n\nRemark: The warnings can be suppressed with \"-diag-suppress\"\n\n\
                   dir (1)/h.h(12): error: no instance of overloaded function \"f\" matches\n            argument \
                   types are: (int)\n  f(3);\n  ^\n          detected during instantiation of \"g\"\n\n2 errors \
                   detected in the compilation of \"k.cu\".\n";
        let found = from_nvrtc(log);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[0].code.as_deref(), Some("177-D"));
        assert_eq!(found[0].place, Some(Place { file: "k.cu".into(), line: 3, column: Some(6) }));
        assert_eq!(found[0].excerpt.as_deref(), Some("\tint\tunused;"));
        assert_eq!(found[1].place, Some(Place { file: "dir (1)/h.h".into(), line: 12, column: Some(1) }));
        assert_eq!(found[1].notes, ["argument types are: (int)", "detected during instantiation of \"g\""]);
    }

    #[test]
    fn reads_messages_without_a_place() {
        let log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n\n";
        assert_eq!(from_nvrtc(log)[0].message, "invalid value for --gpu-architecture (-arch)");
        assert!(from_nvrtc("anything\nelse(x): y\n)( : ): error\n").is_empty());
    }

    #[test]
    fn reads_ptxas_messages() {
        let log = "ptxas module.ptx, line 29; error   : Not a name of any known instruction: 'bogus'\n\
                   ptxas error   : Entry function 'big' uses too much shared data (0x13880 bytes, 0xc000 max)\n\
                   ptxas info    : Used 10 registers\nptxas fatal   : Ptx assembly aborted due to errors\n";
        let found = from_ptxas(log);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].place, Some(Place { file: "module.ptx".into(), line: 29, column: None }));
        assert_eq!(found[1].place, None);
    }
}
