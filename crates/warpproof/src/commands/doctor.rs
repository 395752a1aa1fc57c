//! `warpproof doctor`: reports what is installed, what is missing, and the command that fixes it.

use std::fmt::Write;

use clap::Args;
use serde_json::json;
use warpproof_toolchain::{CompileOptions, Options, Part, Source, Survey, Toolchain};

use super::flags::{JsonFlag, ToolchainFlags, missing};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Report which NVIDIA compiler tools were found, and what is missing
///
/// Exit codes: 0 a kernel can be built · 2 it cannot; the command that fixes it is printed.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    toolchain: ToolchainFlags,
    #[command(flatten)]
    json: JsonFlag,
}

impl Doctor {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let mut options = self.toolchain.options();
        options.no_cache = true;
        let survey = Survey::complete(&options);
        let toolchain = Toolchain::select(&survey, &options);
        let report = diagnose(&toolchain);
        if self.json.wanted {
            terminal.json(&as_json(&survey, &toolchain, &options, report.as_ref()));
        } else {
            terminal.print(as_text(&survey, &toolchain, &options));
            match &report {
                Some(report) => terminal.report(report),
                None => {
                    terminal.print("\nall tools work: a test kernel compiles, assembles and disassembles\n");
                }
            }
        }
        report.map_or(Outcome::Green, |report| Outcome::Stopped(report.kind))
    }
}

/// Why a kernel cannot be built, if so.
fn diagnose(toolchain: &Toolchain) -> Option<Report> {
    let absent = toolchain.missing();
    if !absent.is_empty() {
        return Some(missing(&toolchain.not_found(absent)));
    }
    // Files with the right names may still not be a working compiler.
    let source = Source::new(
        "trial.cu",
        "#include <cuda_fp16.h>\n__global__ void trial(__half *x) { *x = *x + *x; }\n",
    );
    let broken = |part: Part, error: String| {
        let path = toolchain.part(part).map(|found| found.path.display().to_string()).unwrap_or_default();
        let sentence = format!("{} at {path} does not work: {error}", part.name());
        Some(Report::error(Kind::Missing, sentence).help("run `warpproof toolchain install`"))
    };
    let compiled = match toolchain.compile(&source, &CompileOptions::new("sm_89")) {
        Ok(compiled) => compiled,
        Err(error) => return broken(Part::Nvrtc, error.to_string()),
    };
    let assembled = match toolchain.ptxas(&compiled.ptx, "sm_89", &[]) {
        Ok(assembled) => assembled,
        Err(error) => return broken(Part::Ptxas, error.to_string()),
    };
    toolchain.sass(&assembled.cubin).err().and_then(|error| broken(Part::Nvdisasm, error.to_string()))
}

fn as_text(survey: &Survey, toolchain: &Toolchain, options: &Options) -> String {
    let mut text = String::new();
    for part in Part::ALL {
        let line = match toolchain.part(part) {
            Some(found) => {
                format!("{:<9} {}  (by {})", found.version.to_string(), found.path.display(), found.rule)
            }
            None => format!("missing   {}", part.purpose()),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:<13} {line}", part.name());
    }
    let others: Vec<_> = survey
        .found
        .iter()
        .filter(|found| toolchain.part(found.part).is_none_or(|chosen| chosen.path != found.path))
        .collect();
    if !others.is_empty() {
        text.push_str("\nalso found, not in use:\n");
        for found in others {
            let name = found.part.name();
            let version = found.version.to_string();
            let _ = writeln!(text, "  {name:<13} {version:<9} {}  (by {})", found.path.display(), found.rule);
        }
    }
    if let Some(cache) = &options.environment.cache {
        let _ = writeln!(text, "\ncache         {}", cache.display());
    }
    text
}

fn as_json(
    survey: &Survey,
    toolchain: &Toolchain,
    options: &Options,
    report: Option<&Report>,
) -> serde_json::Value {
    let parts: Vec<_> = Part::ALL
        .into_iter()
        .map(|part| json!({ "part": part, "purpose": part.purpose(), "in_use": toolchain.part(part) }))
        .collect();
    json!({
        "schema": "warpproof.doctor/1",
        "ok": report.is_none(),
        "parts": parts,
        "found": survey.found,
        "cache": options.environment.cache.as_ref().map(|cache| cache.display().to_string()),
        "report": report,
    })
}
