//! A place in the program as displayed: the CUDA line first; the PTX line and inlined calls in one line
//! each.

use warpproof_sim::stop;
use warpproof_toolchain::Source;

use super::Ptx;
use super::diagnostics::{as_given, line};
use crate::report::Place;

/// A place, with its notes.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The CUDA line, or the PTX line if there is none.
    pub(crate) place: Place,
    /// Calls that are inlined there, innermost first.
    pub(crate) inner: Vec<Place>,
    /// The places where the code itself is inlined, innermost first.
    pub(crate) outer: Vec<Place>,
    /// The PTX line, if the place is a CUDA line.
    pub(crate) ptx: Option<String>,
}

impl Shown {
    /// The notes of the place; `what` names the place if there are several.
    pub(crate) fn notes(&self, what: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        let it = what.map(|what| format!("{what} is ")).unwrap_or_default();
        for at in &self.inner {
            notes.push(format!("{it}in {at}, which is inlined there"));
        }
        for at in &self.outer {
            notes.push(format!("{it}inlined at {at}"));
        }
        if let Some(ptx) = &self.ptx {
            notes.push(match what {
                Some(what) => ptx.replacen(':', &format!(" ({what}):"), 1),
                None => ptx.clone(),
            });
        }
        notes
    }
}

/// Among inlined calls, the innermost line in the user's own file comes first, because toolkit headers are
/// rarely the cause. If the file is PTX, the user's own file is the one that defines the kernel: the
/// outermost line's.
pub(crate) fn shown(place: &stop::Place, ptx: &Ptx, source: &Source) -> Shown {
    let mut lines: Vec<Place> = place
        .source
        .iter()
        .map(|at| {
            let file = as_given(&at.file, source);
            let text = (file == source.name).then(|| line(&source.text, at.line)).flatten();
            Place::new(file, at.line).column(Some(at.column)).text(text)
        })
        .collect();
    let kernels_file = lines.last().map(|at| at.file.clone());
    let own = lines
        .iter()
        .position(|at| at.file == source.name)
        .or_else(|| lines.iter().position(|at| Some(&at.file) == kernels_file.as_ref()));
    let Some(own) = own else {
        let text = line(&ptx.text, place.ptx_line);
        let place = Place::new(ptx.name.as_str(), place.ptx_line).text(text);
        return Shown { place, inner: Vec::new(), outer: Vec::new(), ptx: None };
    };
    let outer = lines.split_off(own + 1);
    let chosen = lines.split_off(own).into_iter().next();
    let instruction = place.instruction.split_whitespace().collect::<Vec<_>>().join(" ");
    Shown {
        place: chosen.unwrap_or_else(|| Place::new(ptx.name.as_str(), place.ptx_line)),
        inner: lines,
        outer,
        ptx: Some(format!("PTX line {}: {}", place.ptx_line, instruction.trim_end_matches(';'))),
    }
}
