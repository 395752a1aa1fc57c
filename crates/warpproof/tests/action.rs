//! The GitHub Action: its scripts, run as in `action.yml`, with stand-ins for `warpproof` and `gh`. The
//! tests do not cover how GitHub interprets the file.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A step of the action that runs a command.
#[derive(Debug, Default)]
struct Step {
    id: String,
    run: Option<String>,
    uses: Option<String>,
    shell: Option<String>,
    env: Vec<(String, String)>,
}

/// Parses the steps, given the layout of this file: one key per line, two spaces per level.
fn steps() -> Vec<Step> {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let (_, text) = text.split_once("\n  steps:\n").unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut inside_env = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.starts_with("    - name: ") {
            steps.push(Step::default());
            continue;
        }
        let (Some(step), Some((key, value))) =
            (steps.last_mut(), line.split_once(": ").or_else(|| line.split_once(':')))
        else {
            continue;
        };
        match (key, value.trim()) {
            ("      id", value) => step.id = value.to_owned(),
            ("      run", value) => step.run = Some(value.to_owned()),
            ("      uses", value) => step.uses = Some(value.to_owned()),
            ("      shell", value) => step.shell = Some(value.to_owned()),
            (key, value) if inside_env && key.starts_with("        ") => {
                step.env.push((key.trim().to_owned(), value.to_owned()));
            }
            _ => {}
        }
        inside_env = key == "      env" || (inside_env && key.starts_with("        "));
    }
    steps
}

/// A runner: its directories, the calls of the stand-ins, and the values of expressions.
struct Runner {
    dir: TempDir,
    context: BTreeMap<String, String>,
}

impl Runner {
    /// `gate` is the exit code of the gate; `gh` the body of a stand-in for `gh`.
    fn new(gate: u8, gh: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["bin", "temp", "workspace"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let warpproof = format!(
            r#"case "$1" in
              gate) [ {gate} = 2 ] || printf '{{\n  "schema": "warpproof.gate/1",\n  "run": "r1",\n}}\n'; exit {gate} ;;
              report) while [ $# -gt 0 ]; do [ "$1" = -o ] && {{ echo "report" > "$2"; exit; }}; shift; done; echo '# Gate' ;;
            esac"#
        );
        for (name, body) in [("warpproof", warpproof.as_str()), ("gh", gh)] {
            let file = dir.path().join("bin").join(name);
            fs::write(
                &file,
                format!("#!/usr/bin/env bash\necho \"{name} $*\" >> '{}'\n{body}\n", at("calls")),
            )
            .unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let context = [
            ("inputs.task", "tasks/x.toml".to_owned()),
            ("inputs.arguments", "--all".to_owned()),
            ("inputs.version", String::new()),
            ("inputs.ledger", ".warpproof/ledger".to_owned()),
            ("inputs.token", "token".to_owned()),
            ("github.repository", "owner/name".to_owned()),
            ("github.event.pull_request.number", "7".to_owned()),
            ("runner.temp", at("temp")),
        ];
        let context = context.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self { dir, context }
    }

    /// Runs a step like the runner does, and reads its outputs.
    fn step(&mut self, id: &str) -> Output {
        let steps = steps();
        let step = steps.iter().find(|step| step.id == id).unwrap();
        let at = |name: &str| self.dir.path().join(name);
        // Without directories that have a warpproof: the stand-in is the only one that is installed.
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::split_paths(&path).filter(|folder| !folder.join("warpproof").exists());
        let path = std::env::join_paths([at("bin")].into_iter().chain(path)).unwrap();
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step.run.as_ref().unwrap()])
            .current_dir(at("workspace"))
            .env("PATH", path)
            .env("GITHUB_ACTION_PATH", root())
            .env("GITHUB_OUTPUT", at("output"))
            .env("GITHUB_PATH", at("path"))
            .env("GITHUB_STEP_SUMMARY", at("summary"))
            .env("RUNNER_TEMP", at("temp"));
        for (key, value) in &step.env {
            command.env(key, self.expand(value));
        }
        let output = command.output().unwrap();
        for line in fs::read_to_string(at("output")).unwrap_or_default().lines() {
            let (key, value) = line.split_once('=').unwrap();
            self.context.insert(format!("steps.{id}.outputs.{key}"), value.to_owned());
        }
        let _ = fs::remove_file(at("output"));
        output
    }

    fn expand(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${{") {
            let (expression, after) = after.split_once("}}").unwrap();
            let value = self.context.get(expression.trim());
            out += before;
            out += value.unwrap_or_else(|| panic!("the test does not know {expression}"));
            rest = after;
        }
        out + rest
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default()
    }

    fn temp(&self, name: &str) -> PathBuf {
        self.dir.path().join("temp").join(name)
    }
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn steps_are_scripts_that_no_input_can_change() {
    let steps = steps();
    let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["install", "toolchain", "gate", "report", "upload", "comment", "verdict"]);
    for step in &steps {
        match (&step.run, &step.uses) {
            (Some(run), None) => {
                // Untrusted text is passed through the environment, never in the text of a script.
                assert!(!run.contains("${{"), "{step:?}");
                assert_eq!(step.shell.as_deref(), Some("bash"), "{step:?}");
                if let Some(script) = run.strip_prefix("$GITHUB_ACTION_PATH/") {
                    let mode = fs::metadata(root().join(script)).unwrap().permissions().mode();
                    assert_eq!(mode & 0o111, 0o111, "{script} can be started");
                }
            }
            // Pinned by commit, because a tag can be moved.
            (None, Some(uses)) => {
                let commit = uses.rsplit_once('@').unwrap().1;
                assert!(commit.len() == 40 && commit.bytes().all(|c| c.is_ascii_hexdigit()), "{step:?}");
            }
            _ => panic!("{step:?}"),
        }
    }
}

#[test]
fn a_green_gate_is_reported_and_commented_on() {
    let mut runner = Runner::new(0, "[ \"$1\" != api ] || true");
    ends(&runner.step("install"), 0);
    ends(&runner.step("toolchain"), 0);
    ends(&runner.step("gate"), 0);
    ends(&runner.step("report"), 0);
    ends(&runner.step("comment"), 0);
    ends(&runner.step("verdict"), 0);
    let calls = runner.calls();
    assert!(calls.contains("warpproof toolchain install\n"), "{calls}");
    assert!(
        calls.contains("warpproof gate tasks/x.toml --all --ledger .warpproof/ledger --json\n"),
        "{calls}"
    );
    assert!(calls.contains("gh pr comment 7 --repo owner/name --body-file"), "{calls}");
    assert_eq!(fs::read_to_string(runner.dir.path().join("summary")).unwrap(), "# Gate\n");
    for file in ["summary.html", "validation.html", "history.html", "junit.xml", "gate.sarif"] {
        assert!(runner.temp("warpproof-report").join(file).is_file(), "{file}");
    }
    assert_eq!(runner.context["steps.report.outputs.made"], "true");
}

#[test]
fn a_red_gate_is_reported_before_it_fails_the_job() {
    for code in [1, 5] {
        let mut runner =
            Runner::new(code, "[ \"$1\" != api ] || { [ \"$2\" = --method ] || printf '41\\n42\\n'; }");
        ends(&runner.step("gate"), 0);
        ends(&runner.step("report"), 0);
        ends(&runner.step("comment"), 0);
        let calls = runner.calls();
        // The comment of an earlier run is updated; no second one is created.
        assert!(
            calls.contains("gh api --method PATCH repos/owner/name/issues/comments/41 -F body=@"),
            "{calls}"
        );
        assert!(!calls.contains("gh pr comment"), "{calls}");
        ends(&runner.step("verdict"), i32::from(code));
    }
}

#[test]
fn a_gate_that_did_not_start_leaves_nothing_to_report() {
    let mut runner = Runner::new(2, "");
    ends(&runner.step("gate"), 0);
    let said = ends(&runner.step("report"), 0);
    assert!(said.contains("nothing to report: the gate stopped before it created a run"), "{said}");
    assert!(!runner.context.contains_key("steps.report.outputs.made"));
    ends(&runner.step("verdict"), 2);
}

#[test]
fn a_token_that_may_not_comment_fails_nothing() {
    for gh in ["exit 1", "[ \"$1\" = api ]"] {
        let mut runner = Runner::new(0, gh);
        ends(&runner.step("gate"), 0);
        let said = ends(&runner.step("comment"), 0);
        assert!(said.contains("::warning::cannot comment on the pull request"), "{said}");
    }
}

/// A stand-in for `gh` that downloads an archive with a warpproof that prints `released`, and a file SHA256SUMS.
fn release(sums: &str) -> String {
    format!(
        r#"while [ $# -gt 0 ]; do
             case "$1" in --dir) dir=$2 ;; --pattern) [ -n "${{asset:-}}" ] || asset=$2 ;; esac
             shift
           done
           printf '#!/bin/sh\necho released\n' > "$dir/warpproof" && chmod +x "$dir/warpproof"
           cd "$dir" && tar -czf "$asset" ./warpproof && rm warpproof
           {sums}"#
    )
}

const RIGHT_SUMS: &str = "sha256sum \"$asset\" > SHA256SUMS; echo '00  other.whl' >> SHA256SUMS";

#[test]
fn a_release_is_downloaded_and_verified() {
    let mut runner = Runner::new(0, &release(RIGHT_SUMS));
    runner.context.insert("inputs.version".to_owned(), "v1.2.3".to_owned());
    let said = ends(&runner.step("install"), 0);
    assert!(said.contains("-linux.tar.gz: OK\nreleased\n"), "{said}");
    let calls = runner.calls();
    let wanted = "gh release download v1.2.3 --repo warpproof/warpproof --pattern warpproof-1.2.3-";
    assert!(calls.contains(wanted) && calls.contains("--pattern SHA256SUMS"), "{calls}");
    let path = fs::read_to_string(runner.dir.path().join("path")).unwrap();
    assert_eq!(path.trim_end(), runner.temp("warpproof-bin").display().to_string());
}

#[test]
fn the_release_of_the_actions_own_version_is_the_default() {
    let mut runner = Runner::new(0, &release(RIGHT_SUMS));
    fs::remove_file(runner.dir.path().join("bin/warpproof")).unwrap();
    ends(&runner.step("install"), 0);
    let wanted = concat!("gh release download v", env!("CARGO_PKG_VERSION"), " --repo warpproof/warpproof");
    assert!(runner.calls().contains(wanted), "{}", runner.calls());
}

#[test]
fn an_archive_with_another_checksum_is_not_unpacked() {
    let changed = "sha256sum \"$asset\" > SHA256SUMS; echo more >> \"$asset\"";
    for sums in [changed, "echo '00  other.whl' > SHA256SUMS", "true"] {
        let mut runner = Runner::new(0, &release(sums));
        runner.context.insert("inputs.version".to_owned(), "1.2.3".to_owned());
        let said = ends(&runner.step("install"), 2);
        assert!(said.contains("::error::the SHA-256 of warpproof-1.2.3-"), "{said}");
        assert!(!runner.temp("warpproof-bin/warpproof").exists());
        assert!(!runner.dir.path().join("path").exists());
    }
}

#[test]
fn the_source_is_built_only_when_asked_for() {
    let mut runner = Runner::new(0, "exit 1");
    let cargo = runner.dir.path().join("bin/cargo");
    let built = "for root; do :; done; mkdir -p \"$root/bin\"; printf '#!/bin/sh\\necho built\\n' > \"$root/bin/warpproof\"; chmod +x \"$root/bin/warpproof\"";
    fs::write(&cargo, format!("#!/usr/bin/env bash\n{built}\n")).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    runner.context.insert("inputs.version".to_owned(), "source".to_owned());
    let said = ends(&runner.step("install"), 0);
    assert!(said.contains("built\n"), "{said}");
    assert!(!runner.calls().contains("gh "), "{}", runner.calls());
}

#[test]
fn a_release_that_is_not_there_is_named() {
    let mut runner = Runner::new(0, "exit 1");
    runner.context.insert("inputs.version".to_owned(), "9.9.9".to_owned());
    let said = ends(&runner.step("install"), 2);
    assert!(said.contains("::error::no release v9.9.9 of warpproof"), "{said}");
    assert!(said.contains("`version: source`"), "{said}");
    assert!(
        runner.calls().contains("gh release download v9.9.9 --repo warpproof/warpproof"),
        "{}",
        runner.calls()
    );
}
