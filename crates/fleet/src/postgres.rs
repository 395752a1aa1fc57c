//! A private PostgreSQL server for tests and benchmarks: created in a temporary directory, accessible through a socket in it,
//! removed when it is dropped.
//!
//! PostgreSQL refuses to run as root. If this process is root, PostgreSQL runs as `postgres`, or as `nobody`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Time limit for its start.
const PATIENCE: Duration = Duration::from_mins(1);

/// A database server.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    programs: PathBuf,
    /// User and group it runs as, if different from this process.
    user: Option<(u32, u32)>,
    server: Option<Child>,
    settings: Vec<String>,
}

/// The newest installed PostgreSQL, version 15 or later.
fn programs() -> Result<PathBuf, String> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for place in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = place.file_name().to_str().and_then(|name| name.parse().ok());
        let programs = place.path().join("bin");
        if let Some(version) = version.filter(|version| *version >= 15 && programs.join("initdb").is_file()) {
            found.push((version, programs));
        }
    }
    if let Some((_, programs)) = found.into_iter().max() {
        return Ok(programs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|place| place.join("initdb").is_file());
    on_path.ok_or_else(|| {
        "PostgreSQL 15 or later is not installed: `apt-get install postgresql` on Debian".to_owned()
    })
}

fn id(flag: &str, user: &str) -> Option<u32> {
    let output =
        Command::new("id").args([flag, user]).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

impl Postgres {
    /// Creates and starts a server, with settings such as `synchronous_commit=on`.
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        let programs = programs()?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let user = if rustix::process::geteuid().is_root() {
            let user =
                ["postgres", "nobody"].into_iter().find_map(|user| Some((id("-u", user)?, id("-g", user)?)));
            Some(user.ok_or("PostgreSQL needs a user `postgres` or `nobody`; found neither")?)
        } else {
            None
        };
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(directory.path(), Some(user), Some(group))
                .map_err(|error| error.to_string())?;
        }
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut postgres = Self { directory, programs, user, server: None, settings };
        let made = postgres
            .command("initdb")
            .arg("--pgdata")
            .arg(postgres.data())
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .output()
            .map_err(|error| format!("initdb: {error}"))?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        postgres.resume()?;
        Ok(postgres)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its main process.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match self.user {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([
                    format!("--reuid={user}"),
                    format!("--regid={group}"),
                    "--clear-groups".to_owned(),
                ]);
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// URL of its default database.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// URL of one of its databases.
    pub fn url_of(&self, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost/{database}?host={socket}")
    }

    /// Runs a statement with psql and returns the output.
    pub fn psql(&self, database: &str, statement: &str) -> Result<String, String> {
        let output = self
            .command("psql")
            .arg("--host")
            .arg(self.directory.path())
            .args(["--username=postgres", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet"])
            .args(["--set=ON_ERROR_STOP=1", "--dbname", database, "--command", statement])
            .output()
            .map_err(|error| format!("psql: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Creates an empty database.
    pub fn create(&self, database: &str) -> Result<String, String> {
        self.psql("postgres", &format!("CREATE DATABASE \"{database}\""))?;
        Ok(self.url_of(database))
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill).
    pub fn resume(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let log =
                fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("log"));
            let log = log.map_err(|error| error.to_string())?;
            let mut command = self.command("postgres");
            command.arg("-D").arg(self.data()).arg("-k").arg(self.directory.path());
            command.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
            for setting in &self.settings {
                command.args(["-c", setting]);
            }
            command.stdout(Stdio::null()).stderr(log);
            let mut server = command.spawn().map_err(|error| format!("postgres: {error}"))?;
            loop {
                // Children of a killed server may end a moment later; until then a new one cannot start.
                if server.try_wait().map_err(|error| error.to_string())?.is_some() {
                    break;
                }
                let socket = self.directory.path().join(".s.PGSQL.5432");
                if socket.exists() && self.psql("postgres", "SELECT 1").is_ok() {
                    self.server = Some(server);
                    return Ok(());
                }
                if Instant::now() > end {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
            // It may still be starting after the deadline.
            let _ended = server.kill().and_then(|()| server.wait());
            if Instant::now() > end {
                let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL did not start:\n{log}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        if let Some(mut server) = self.server.take() {
            if let Some(pid) = i32::try_from(server.id()).ok().and_then(rustix::process::Pid::from_raw) {
                // It may have ended already.
                let _gone = rustix::process::kill_process(pid, signal);
            }
            let _ended = server.wait();
        }
    }

    /// Stops it like an operator: open connections are closed.
    pub fn stop(&mut self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Kills it like a crash.
    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}
