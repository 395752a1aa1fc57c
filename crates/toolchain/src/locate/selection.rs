//! Selects which of the parts found are used together.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Found, NotFound, Options, Part, Survey};
use crate::cache::BuildCache;
use crate::limits::CompileLimits;
use crate::nvrtc::Nvrtc;
use crate::pins::SETS;
use crate::version::Version;

/// A compiler whose parts are compatible.
#[derive(Debug)]
pub struct Toolchain {
    pub(crate) nvrtc: Option<Found>,
    pub(crate) headers: Option<Found>,
    pub(crate) ptxas: Option<Found>,
    pub(crate) nvdisasm: Option<Found>,
    pub(crate) cuobjdump: Option<Found>,
    /// Every ptxas, oldest first, for modules that need a newer one than the selected.
    pub(crate) assemblers: Vec<Found>,
    pub(crate) opened: OnceLock<Result<Nvrtc, String>>,
    pub(crate) cache: Option<BuildCache>,
    pub(crate) limits: CompileLimits,
    pub(crate) allowed: Vec<PathBuf>,
    empty_explicit: Option<PathBuf>,
    cuda: Option<u32>,
}

impl Toolchain {
    /// Finds everything needed to compile CUDA C++ to machine code: NVRTC, its headers, and a compatible ptxas.
    pub fn find(options: &Options) -> Result<Self, NotFound> {
        let toolchain = Self::partial(options);
        toolchain.require(&[Part::Nvrtc, Part::Headers, Part::Ptxas])?;
        Ok(toolchain)
    }

    /// Finds the available parts; a missing part is an error only when it is used.
    pub fn partial(options: &Options) -> Self {
        let survey = Survey::until(options, |survey| Self::select(survey, options).is_complete());
        Self::select(&survey, options)
    }

    /// Selects parts from a survey.
    pub fn select(survey: &Survey, options: &Options) -> Self {
        let wanted = |found: &&Found| options.cuda.is_none_or(|major| found.version.major == major);
        // Within one rule, the pinned default release comes first: more drivers can load its PTX.
        let default = SETS[0].version.major;
        let nvrtc = survey
            .of(Part::Nvrtc)
            .filter(wanted)
            .min_by_key(|f| (f.rule, f.version.major != default, std::cmp::Reverse(f.version)));
        let fits = |found: &&Found| nvrtc.is_none_or(|n| found.version.release() >= n.version.release());
        let other_release = |f: &Found| nvrtc.is_some_and(|n| !f.version.same_release(n.version));
        let ptxas = survey
            .of(Part::Ptxas)
            .filter(wanted)
            .filter(fits)
            .min_by_key(|f| (other_release(f), f.rule, std::cmp::Reverse(f.version)));
        let headers = survey
            .of(Part::Headers)
            .filter(wanted)
            .filter(|f| nvrtc.is_none_or(|n| n.version.major == f.version.major))
            .min_by_key(|f| (other_release(f), f.rule, std::cmp::Reverse(f.version)));
        // A disassembler reads the machine code of every earlier release, so the newest is best.
        let newest = |part| survey.of(part).min_by_key(|f| (std::cmp::Reverse(f.version), f.rule));
        let mut assemblers: Vec<Found> = survey.of(Part::Ptxas).filter(wanted).cloned().collect();
        assemblers.sort_by_key(|f| (f.version, f.rule));
        let cache = if options.no_cache { None } else { options.environment.cache.as_deref() };
        Self {
            nvrtc: nvrtc.cloned(),
            headers: headers.cloned(),
            ptxas: ptxas.cloned(),
            nvdisasm: newest(Part::Nvdisasm).cloned(),
            cuobjdump: newest(Part::Cuobjdump).cloned(),
            assemblers,
            opened: OnceLock::new(),
            cache: cache.map(BuildCache::below),
            limits: options.limits,
            allowed: options.allowed.clone(),
            empty_explicit: survey.empty_explicit.clone(),
            cuda: options.cuda,
        }
    }

    fn is_complete(&self) -> bool {
        let same = |a: &Option<Found>, b: &Option<Found>| match (a, b) {
            (Some(a), Some(b)) => a.version.same_release(b.version),
            _ => false,
        };
        same(&self.nvrtc, &self.ptxas)
            && same(&self.nvrtc, &self.headers)
            && (self.nvdisasm.is_some() || self.cuobjdump.is_some())
    }

    /// Directories that the user allows a source or a task to read, in addition to its own.
    pub fn allowed(&self) -> &[PathBuf] {
        &self.allowed
    }

    /// The selected part.
    pub fn part(&self, part: Part) -> Option<&Found> {
        match part {
            Part::Nvrtc => self.nvrtc.as_ref(),
            Part::Headers => self.headers.as_ref(),
            Part::Ptxas => self.ptxas.as_ref(),
            Part::Nvdisasm => self.nvdisasm.as_ref(),
            Part::Cuobjdump => self.cuobjdump.as_ref(),
        }
    }

    /// NVRTC's version, or that of ptxas if NVRTC is missing.
    pub fn version(&self) -> Option<Version> {
        self.nvrtc.as_ref().or(self.ptxas.as_ref()).map(|found| found.version)
    }

    /// The parts that `warpproof build` requires but that are missing.
    pub fn missing(&self) -> Vec<Part> {
        Part::ALL
            .into_iter()
            .filter(|part| match part {
                // Either of the two prints machine code.
                Part::Nvdisasm => self.nvdisasm.is_none() && self.cuobjdump.is_none(),
                Part::Cuobjdump => false,
                other => self.part(*other).is_none(),
            })
            .collect()
    }

    /// An error if one of these parts is missing.
    pub fn require(&self, parts: &[Part]) -> Result<(), NotFound> {
        let missing: Vec<Part> = parts.iter().copied().filter(|part| self.part(*part).is_none()).collect();
        if missing.is_empty() { Ok(()) } else { Err(self.not_found(missing)) }
    }

    /// The error for missing parts, with the command that fixes it.
    pub fn not_found(&self, missing: Vec<Part>) -> NotFound {
        let names: Vec<&str> = missing.iter().map(|part| part.name()).collect();
        let names = names.join(", ");
        let of_major = self.cuda.map(|major| format!(" of CUDA {major}")).unwrap_or_default();
        if let Some(dir) = &self.empty_explicit {
            let reason = format!("{} contains no part of a CUDA toolchain", dir.display());
            let mend = Some("warpproof doctor".to_owned());
            return NotFound { missing, reason, mend };
        }
        if !cfg!(target_os = "linux") {
            let reason = format!(
                "{names}{of_major} not found, and NVIDIA publishes no compiler for this system; compile on Linux, for example \
                 in a container, and pass the .ptx to warpproof"
            );
            return NotFound { missing, reason, mend: None };
        }
        let mend = match self.cuda.or(self.nvrtc.as_ref().map(|nvrtc| nvrtc.version.major)) {
            Some(major) if major != SETS[0].version.major => {
                format!("warpproof toolchain install --cuda {major}")
            }
            _ => "warpproof toolchain install".to_owned(),
        };
        NotFound { missing, reason: format!("{names}{of_major} not found"), mend: Some(mend) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn found(part: Part, version: (u32, u32), rule: Rule) -> Found {
        let version = Version::new(version.0, version.1);
        let path = PathBuf::from(format!("{rule}/{version}"));
        Found { part, path, version, rule, include_dirs: Vec::new() }
    }

    fn survey(found: Vec<Found>) -> Survey {
        Survey { found, empty_explicit: None }
    }

    #[test]
    fn parts_of_one_release_are_taken_together() {
        let survey = survey(vec![
            found(Part::Nvrtc, (12, 9), Rule::Cache),
            found(Part::Nvrtc, (13, 2), Rule::Cache),
            found(Part::Ptxas, (13, 2), Rule::Cache),
            found(Part::Ptxas, (12, 4), Rule::CudaHome),
            found(Part::Ptxas, (12, 9), Rule::SitePackages),
            found(Part::Headers, (13, 2), Rule::Cache),
            found(Part::Headers, (12, 9), Rule::Cache),
        ]);
        let version = |t: &Toolchain, part| t.part(part).unwrap().version;
        let chosen = Toolchain::select(&survey, &Options::default());
        for part in [Part::Nvrtc, Part::Ptxas, Part::Headers] {
            assert_eq!(version(&chosen, part), Version::new(12, 9));
        }
        let chosen = Toolchain::select(&survey, &Options::default().with_cuda(13));
        for part in [Part::Nvrtc, Part::Ptxas, Part::Headers] {
            assert_eq!(version(&chosen, part), Version::new(13, 2));
        }
        assert_eq!(chosen.missing(), [Part::Nvdisasm]);
    }

    #[test]
    fn a_ptxas_older_than_nvrtc_is_not_taken() {
        let survey = survey(vec![
            found(Part::Nvrtc, (12, 9), Rule::Cache),
            found(Part::Headers, (12, 8), Rule::Cache),
            found(Part::Ptxas, (12, 4), Rule::Flag),
        ]);
        let chosen = Toolchain::select(&survey, &Options::default());
        assert!(chosen.part(Part::Ptxas).is_none());
        assert!(chosen.part(Part::Headers).is_some());
        let error = chosen.require(&[Part::Ptxas]).unwrap_err();
        assert!(error.to_string().starts_with("ptxas not found"), "{error}");
        // It can still assemble a module of its own release.
        assert_eq!(chosen.assemblers.len(), 1);
    }

    #[test]
    fn the_first_rule_wins_over_the_preferred_release() {
        let survey =
            survey(vec![found(Part::Nvrtc, (13, 0), Rule::Flag), found(Part::Nvrtc, (12, 9), Rule::Cache)]);
        let chosen = Toolchain::select(&survey, &Options::default());
        assert_eq!(chosen.version(), Some(Version::new(13, 0)));
    }
}
