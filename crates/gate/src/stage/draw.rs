//! Draws from a run's secret: seeds, hidden sizes, and the inputs on which kernels are counted and timed.
//!
//! A secret that the user chose (`gate --secret`) only adds cases to the drawn ones. Counts and times come only from
//! drawn inputs, so that neither an author nor a user knows them beforehand.

use warpproof_num::random::SplitMix;

use super::{Bench, Case, Part};
use warpproof_task::dtype::Dtype;
use warpproof_task::{Axes, Candidate, Distribution, Reference, Size, Values};

/// Where a seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The task names it.
    Declared,
    /// Drawn for this run.
    Drawn,
    /// Drawn from the secret that the user chose.
    Chosen,
}

impl Origin {
    /// What a seed of this origin is called.
    pub(crate) fn seed(self) -> &'static str {
        match self {
            Origin::Declared => "seed",
            Origin::Drawn => "secret seed",
            Origin::Chosen => "chosen seed",
        }
    }
}

/// Where arrays lie in device memory; both are drawn for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// The placement in every stage.
    Drawn,
    /// Another placement: outputs must not depend on it.
    Elsewhere,
}

/// The suffix of a hidden size that the chosen secret adds.
const CHOSEN: &str = ":chosen";

impl<'a> Bench<'a> {
    /// Random numbers for one purpose: deterministic for a secret, and independent of those for any other purpose.
    fn stream(&self, purpose: &str) -> SplitMix {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.secret.to_le_bytes()).update(purpose.as_bytes());
        let hash = hasher.finalize();
        SplitMix(hash.as_bytes().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
    }

    /// The task's seeds, the drawn ones, and those of the chosen secret.
    pub(crate) fn seeds(&self) -> Vec<(u64, Origin)> {
        let of = |secret: u64, origin: Origin| {
            let mut random = SplitMix(secret);
            (0..self.task.data.secret_seeds).map(move |_| (random.next(), origin))
        };
        let declared = self.task.data.seeds.iter().map(|seed| (*seed, Origin::Declared));
        let chosen = self.chosen.into_iter().flat_map(|secret| of(secret, Origin::Chosen));
        declared.chain(of(self.secret, Origin::Drawn)).chain(chosen).collect()
    }

    /// All sizes of the task: declared ones, tails, and hidden ones of the drawn secret and of the chosen one.
    pub(crate) fn all_sizes(&self) -> Vec<Size> {
        let mut sizes = self.task.sizes(self.secret);
        if let Some(chosen) = self.chosen {
            let hidden = self.task.sizes(chosen).into_iter().filter(|size| size.hidden);
            sizes.extend(hidden.map(|size| Size { name: format!("{}{CHOSEN}", size.name), ..size }));
        }
        sizes
    }

    /// What the addresses of arrays are drawn from.
    pub(crate) fn places(&self, places: Places) -> u64 {
        let mut random = self.stream("places");
        let (drawn, elsewhere) = (random.next(), random.next());
        if places == Places::Drawn { drawn } else { elsewhere }
    }

    /// The offset of each array from a page boundary: zero for the usual placement, a drawn multiple of 256 bytes
    /// elsewhere.
    pub(crate) fn offsets(&self, places: Places) -> impl FnMut() -> usize + use<> {
        let mut random = self.stream("offsets");
        move || match places {
            Places::Drawn => 0,
            Places::Elsewhere => usize::try_from(256 * (1 + random.next() % 15)).unwrap_or(256),
        }
    }

    /// The seed of the inputs on which instructions are counted and kernels are timed. It is always drawn, so that a
    /// kernel gains nothing from knowing the declared inputs.
    pub(crate) fn measured_seed(&self) -> u64 {
        self.stream("measured").next()
    }

    /// The distribution of those inputs: the first whose values depend on the seed, else the first.
    pub(crate) fn measured_distribution(&self) -> Option<&'a Distribution> {
        let all = &self.task.data.distributions;
        all.iter().find(|one| is_drawn(&one.values)).or(all.first())
    }

    /// The case of each type on which instructions are counted and kernels are timed.
    pub(crate) fn measured_cases(&self, candidate: &Candidate) -> Vec<Case<'a>> {
        let Some(distribution) = self.measured_distribution() else { return Vec::new() };
        let dtypes = self.dtypes(candidate);
        let several = dtypes.len() > 1;
        let seed = (self.measured_seed(), Origin::Drawn);
        dtypes.into_iter().map(|dtype| self.case(dtype, several, distribution, seed)).collect()
    }

    /// The types that a candidate takes.
    fn dtypes(&self, candidate: &Candidate) -> Vec<Dtype> {
        match (&candidate.dtypes, &self.task.data.dtypes) {
            (Some(own), _) => own.clone(),
            // A task whose tensors all have their own types has no dtypes; any dtype serves as a placeholder.
            (None, none) if none.is_empty() => vec![Dtype::F32],
            (None, all) => all.clone(),
        }
    }

    fn case(
        &self,
        dtype: Dtype,
        several: bool,
        distribution: &'a Distribution,
        (seed, origin): (u64, Origin),
    ) -> Case<'a> {
        let dtype_name = if several { format!(", {dtype}") } else { String::new() };
        let name = match &self.task.reference {
            // Files hold one set of inputs for a shape.
            Reference::Files { .. } => format!("from files{dtype_name}"),
            _ => format!("{}{dtype_name}, {} {seed}", distribution.name.value, origin.seed()),
        };
        Case { dtype, distribution, seed, name, planted: None }
    }

    /// The small sizes of a part that cover remainders, each with the index of the one case that is run on it. The
    /// cases take turns, so that the sizes also see every distribution.
    pub(crate) fn residues(part: &Part) -> Vec<(usize, Part)> {
        let of = |(place, axes): (usize, &Axes)| {
            let extents: Vec<String> = axes.iter().map(|(axis, extent)| format!("{axis}={extent}")).collect();
            let name = format!("{} ({})", part.size.name, extents.join(", "));
            let size =
                Size { name: name.clone(), axes: axes.clone(), residues: Vec::new(), ..part.size.clone() };
            (place, Part { name, size })
        };
        part.size.residues.iter().enumerate().map(of).collect()
    }

    /// The cases of a part, or one of them.
    pub(crate) fn cases_of(&self, candidate: &Candidate, one: Option<usize>) -> Vec<Case<'a>> {
        let mut cases = self.cases(candidate);
        if let Some(place) = one.filter(|_| !cases.is_empty()) {
            let place = place % cases.len();
            cases = cases.drain(place..=place).collect();
        }
        cases
    }

    /// The first case of each type.
    pub(crate) fn first_cases(&self, candidate: &Candidate) -> Vec<Case<'a>> {
        let mut first: Vec<Case<'a>> = Vec::new();
        for case in self.cases(candidate) {
            if !first.iter().any(|known| known.dtype == case.dtype) {
                first.push(case);
            }
        }
        first
    }

    /// Every type, distribution and seed of a size.
    pub(crate) fn cases(&self, candidate: &Candidate) -> Vec<Case<'a>> {
        let dtypes = self.dtypes(candidate);
        let several = dtypes.len() > 1;
        let files = matches!(self.task.reference, Reference::Files { .. });
        let mut cases = Vec::new();
        for dtype in dtypes {
            let distributions = self.task.data.distributions.iter();
            let all = distributions.flat_map(|one| self.seeds().into_iter().map(move |seed| (one, seed)));
            let all = all.map(|(distribution, seed)| self.case(dtype, several, distribution, seed));
            cases.extend(all.take(if files { 1 } else { usize::MAX }));
        }
        cases
    }
}

/// Whether values depend on the seed.
fn is_drawn(values: &Values) -> bool {
    !matches!(values, Values::Constant { .. } | Values::Structured | Values::OneHot { .. })
}
