//! `cargo xtask python`: builds the Python wheel and tests it in fresh environments, as a user would install it.
//!
//! The programs are those of the debug build, which tests have built already. The wheel stays in `target/python/dist`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::part::Part;
use crate::program;
use crate::root;
use crate::target;
use crate::wheel::{self, Environment, done};

/// The findings that the sample project must have, by test; all other tests pass.
const PLANTED: [(&str, &str, &str); 3] = [
    ("test_total_without_atomic", "global-race", "tl.store(out, tl.load(out) + tl.sum(tl.load(x + i)))"),
    ("test_block_sum_without_barrier", "shared-race", "tile[t] += tile[t + step]"),
    // Its source was a temporary file.
    ("test_shift", "bounds", ".cu:29"),
];
/// The tests of the sample project.
const TESTS: usize = 30;

/// Builds the wheel and tests it.
pub(crate) fn run(part: &Part) -> Result<String, String> {
    let place = target().join("python");
    let wheel = debug_wheel(&place)?;
    let environment = Environment::new(&place.join("user"))?;
    let wheel_with_compiler = format!("{}[cuda]", wheel.display());
    let requirements = root().join("python/sample/requirements.txt");
    environment.pip(&[&wheel_with_compiler, "-r", &requirements.display().to_string(), MYPY])?;
    let mut items = vec![Item::Types, Item::Script, Item::Sample];
    if part.is_whole() {
        items.push(Item::Unit(Vec::new()));
    } else {
        let tests = tests(&environment)?;
        items.extend(tests.chunks(TESTS_TOGETHER).map(|tests| Item::Unit(tests.to_vec())));
    }
    let results = part.try_each(&items, |item| match item {
        Item::Types => types(&environment),
        Item::Script => script(&environment),
        Item::Sample => sample(&environment, &place),
        Item::Unit(tests) => unit(&environment, tests),
    })?;
    Ok(results.note("parts"))
}

/// What a sample can take alone.
enum Item {
    Types,
    Script,
    Sample,
    /// These of the package's own tests, or all.
    Unit(Vec<String>),
}

/// How many of the package's tests a sample runs together: Python and PyTorch take seconds to start.
const TESTS_TOGETHER: usize = 4;
const MYPY: &str = "mypy==1.18.2";

/// Builds a wheel with the debug programs in an empty folder.
pub(crate) fn debug_wheel(place: &Path) -> Result<PathBuf, String> {
    let _old = fs::remove_dir_all(place);
    let programs = place.join("programs");
    fs::create_dir_all(&programs)
        .map_err(|error| format!("cannot create {}: {error}", programs.display()))?;
    gather(&programs)?;
    let builder = Environment::new(&place.join("build"))?;
    builder.pip(&wheel::BUILDERS)?;
    let platform = format!("linux_{}", std::env::consts::ARCH);
    wheel::build(&builder, &programs, &platform, &place.join("dist"))
}

/// Copies the debug programs, without debug information, under the names that they have in the wheel.
fn gather(programs: &Path) -> Result<(), String> {
    program::workspace()?;
    let built = target().join("debug");
    for (file, name) in wheel::PROGRAMS {
        done(Command::new("strip").arg("-o").arg(programs.join(name)).arg(built.join(file)))?;
    }
    Ok(())
}

/// The types of the package.
fn types(environment: &Environment) -> Result<(), String> {
    done(environment.python().args(["-m", "mypy"]).current_dir(root().join("python")))
}

/// The script of the book's page: a race in a Triton kernel, at its line.
fn script(environment: &Environment) -> Result<(), String> {
    let (file, page) = (root().join("python/sample/race.py"), root().join("book/src/python.md"));
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    if !read(&page)?.contains(&read(&file)?) {
        return Err(format!("expected the text of {} in {}", file.display(), page.display()));
    }
    wheel::finds_race(environment)
}

/// pytest on the package's own tests.
fn pytest(environment: &Environment) -> Command {
    // The tests of attention need PyTorch; `cargo xtask attention-library` runs them.
    let mut command = environment.python();
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/test_attention.py"]);
    command.current_dir(root().join("python"));
    // The user's cache may have the kernels, with the paths of another checkout.
    command.env("TRITON_CACHE_DIR", target().join("python/triton"));
    command
}

/// The names of the package's own tests.
fn tests(environment: &Environment) -> Result<Vec<String>, String> {
    let output = pytest(environment).args(["--collect-only", "tests"]).output();
    let output = output.map_err(|error| format!("cannot run pytest: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("tests/") && line.contains("::"))
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Err(format!("pytest lists no tests:\n{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(names)
}

/// The package's own tests: these, or all.
fn unit(environment: &Environment, tests: &[String]) -> Result<(), String> {
    let mut command = pytest(environment);
    if tests.is_empty() {
        command.arg("tests");
    }
    done(command.args(tests))
}

/// The sample project: the planted bugs fail their tests, with their findings, and nothing else fails.
fn sample(environment: &Environment, place: &Path) -> Result<(), String> {
    let (junit, sarif) = (place.join("junit.xml"), place.join("findings.sarif"));
    let output = environment
        .python()
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--warpproof", "-n", "2", "--junitxml"])
        .arg(&junit)
        .arg("--warpproof-sarif")
        .arg(&sarif)
        .current_dir(root().join("python/sample"))
        .env("TRITON_CACHE_DIR", place.join("triton"))
        .output()
        .map_err(|error| format!("cannot run pytest: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAILED ")).collect();
    let summary = format!("{} failed, {} passed", PLANTED.len(), TESTS - PLANTED.len());
    if failed.len() != PLANTED.len() || !text.contains(&summary) {
        return Err(format!("expected `{summary}` in the sample project"));
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let (junit, sarif) = (read(&junit)?, read(&sarif)?);
    for (test, class, line) in PLANTED {
        if !failed.iter().any(|failure| failure.contains(test)) {
            return Err(format!("{test} did not fail"));
        }
        let wanted = format!("error[{class}]");
        if ![&wanted, line].iter().all(|wanted| text.contains(*wanted)) {
            return Err(format!("{test}: its report has no `{wanted}` at `{line}`"));
        }
        if !junit.contains(&wanted) || !sarif.contains(&format!("\"ruleId\": \"{class}\"")) {
            return Err(format!("{test}: `{class}` is not in the JUnit and SARIF files"));
        }
    }
    Ok(())
}
