//! The key of a step: one hash of everything that it depends on. Equal keys mean equal work, on any machine.

use warpproof_sandbox::Roots;
use warpproof_toolchain::Part as Assembler;

use super::{Compiled, Session, SessionError};
use crate::stage::{Bench, Clocks, Part};
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Stage;
use warpproof_task::{Reference, Role};

/// Changes whenever the same content may be evaluated differently: with each release, and raised by hand between
/// releases.
const RULES: &str = concat!("warpproof gate 3, ", env!("CARGO_PKG_VERSION"));

/// Bytes of the largest file of a reference.
const MAX_FILE: u64 = 8 << 28;

/// The keys of all steps.
pub(super) struct Keys {
    /// By the candidate's index and by stage.
    keys: Vec<Vec<(Stage, Hash)>>,
}

impl Keys {
    /// The keys of compiled candidates. Results with cases of a chosen secret are reused only in runs with the same
    /// secret.
    pub(super) fn new(
        session: &Session<'_>,
        compiled: &[Compiled<'_>],
        files: &str,
        chosen: Option<u64>,
    ) -> Self {
        let ptxas = session
            .toolchain
            .part(Assembler::Ptxas)
            .map_or_else(String::new, |part| part.version.to_string());
        let clock = |clocks: &dyn Clocks| format!("{}\n{}", clocks.device(), clocks.conditions());
        let clock = session.clocks.map_or_else(|| "none".to_owned(), clock);
        let identity = |name: &str| {
            let one = compiled.iter().find(|one| one.candidate.name.value == name);
            one.map(program).unwrap_or_default()
        };
        let mut keys = Vec::new();
        for one in compiled {
            let stages = session.task.gates.iter().map(|gate| gate.stage.value);
            let of = |stage: Stage| {
                let mut pieces =
                    vec![RULES.to_owned(), session.task.stage_hash(stage, one.candidate), program(one)];
                if !matches!(stage, Stage::Build | Stage::Budget) {
                    pieces.push(files.to_owned());
                    pieces.extend(chosen.map(|secret| format!("chosen secret {secret:x}")));
                }
                match stage {
                    Stage::Budget | Stage::Model => pieces.push(ptxas.clone()),
                    Stage::Counters => {
                        let gate = session.task.gates.iter().find(|gate| gate.stage.value == stage);
                        let compares = gate.is_some_and(|gate| !gate.regressions.is_empty());
                        let peer = session.baseline(one.candidate, Role::Speed).filter(|_| compares);
                        pieces.extend(peer.map(|peer| identity(&peer.name)));
                    }
                    Stage::Correct => {
                        let peer = session.baseline(one.candidate, Role::Bitwise);
                        pieces.extend(peer.map(|peer| identity(&peer.name)));
                    }
                    Stage::Speed | Stage::Profile | Stage::External => {
                        pieces.push(clock.clone());
                        let peer = session.baseline(one.candidate, Role::Speed);
                        pieces.extend(peer.map(|peer| identity(&peer.name)));
                    }
                    _ => {}
                }
                (stage, Hash::of_pieces(pieces.iter().map(String::as_bytes)))
            };
            keys.push(stages.map(of).collect());
        }
        Self { keys }
    }

    /// The key of a stage of the candidate at an index.
    pub(super) fn of(&self, at: usize, stage: Stage) -> Hash {
        let stages = self.keys.get(at).map_or(&[][..], Vec::as_slice);
        let found = stages.iter().find(|(one, _)| *one == stage);
        found.map_or_else(|| Hash::of(stage.as_str().as_bytes()), |(_, key)| *key)
    }

    /// The key of a part. It includes the secret, so a part that was evaluated with another secret is another part.
    pub(super) fn of_part(&self, at: usize, stage: Stage, part: &Part, bench: &Bench<'_>) -> Hash {
        let key = self.of(at, stage).to_string();
        Hash::of_pieces([key.as_bytes(), part.name.as_bytes(), &bench.secret.to_le_bytes()])
    }
}

/// What a candidate is: its program, or why it has none.
pub(super) fn program(one: &Compiled<'_>) -> String {
    match &one.built {
        Ok(built) => format!("{} {:?} {:?}", built.identity, built.dead, built.same_as),
        Err(ending) => format!("no program: {} {:?}", ending.reason, ending.objects),
    }
}

/// The contents of the reference's files, as one text of hashes. This refuses a task that names a file outside its
/// directory; every run calls it first.
pub(super) fn files(session: &Session<'_>) -> Result<String, SessionError> {
    let mut names: Vec<&str> = match &session.task.reference {
        Reference::BuiltIn { .. } => Vec::new(),
        Reference::Files { cases } => cases
            .iter()
            .flat_map(|case| case.inputs.values().chain(case.outputs.values()))
            .map(|file| file.as_str())
            .collect(),
        Reference::Python { file, .. } => vec![file.as_str()],
    };
    names.sort_unstable();
    names.dedup();
    // Check every path that the task names before reading any of them.
    let roots = Roots::new(
        std::iter::once(session.directory).chain(session.toolchain.allowed().iter().map(AsRef::as_ref)),
    );
    for name in session.task.files() {
        roots.check(&session.directory.join(name)).map_err(SessionError::Outside)?;
    }
    let mut pieces = Vec::new();
    for name in names {
        // `weights.safetensors#q` names a tensor of a file.
        let path = session.directory.join(name.split('#').next().unwrap_or(name));
        let unreadable = |error| SessionError::File(path.display().to_string(), error);
        let found = std::fs::metadata(&path).map_err(unreadable)?;
        if !found.is_file() || found.len() > MAX_FILE {
            let cause = format!("expected a file of at most {MAX_FILE} bytes");
            return Err(unreadable(std::io::Error::other(cause)));
        }
        let hash = std::fs::File::open(&path).and_then(Hash::of_reader).map_err(unreadable)?;
        pieces.push(format!("{name} {hash}"));
    }
    Ok(pieces.join("\n"))
}
