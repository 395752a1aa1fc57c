//! Monitors what an evaluation uses in total: processes, memory and disk.
//!
//! A process limit applies to one process. No Unix limit applies to all processes of an evaluation together, for every user and in
//! every container, so the worker polls all processes every [`PAUSE`], once for all of its evaluations. Processes are identified by
//! their process group, which seccomp does not let them leave. Usage between two polls is not limited.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpproof_sandbox::{Limits, THREADS};

/// Minimum time between two polls.
const PAUSE: Duration = Duration::from_millis(50);
/// Polling uses at most this fraction (1/`PART`) of a core.
const PART: u32 = 10;
/// Minimum time between two polls of the disk.
const DISK_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of files and directories of an evaluation.
const MAX_ENTRIES: usize = 200_000;
/// Page size in bytes if the system does not report it.
const PAGE: u64 = 4_096;

/// Usage of a process group.
#[derive(Clone, Debug, Default)]
struct Usage {
    processes: Vec<u32>,
    threads: u64,
    resident: u64,
}

/// A process group, the start of its monitoring, and its last usage.
#[derive(Debug)]
struct Group {
    since: Instant,
    usage: Usage,
}

/// The monitored process groups.
#[derive(Debug)]
pub(super) struct Watch {
    groups: Mutex<BTreeMap<u32, Group>>,
    /// Page size in bytes.
    page: u64,
}

impl Default for Watch {
    fn default() -> Self {
        // The first mapping of a process has pages of the usual size.
        let mappings = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let kilobytes = mappings.lines().find_map(|line| line.strip_prefix("KernelPageSize:"));
        let kilobytes = kilobytes.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Self {
            groups: Mutex::default(),
            page: kilobytes.map_or(PAGE, |kilobytes| kilobytes.saturating_mul(1_024)),
        }
    }
}

/// A process group that is monitored until this is dropped.
pub(super) struct Watched<'w> {
    watch: &'w Watch,
    group: u32,
    /// When its disk usage was last checked, and the interval until the next check.
    disk: (Instant, Duration),
}

/// Parses one process: its group, threads, and resident pages. The name may contain any character and ends with the last
/// parenthesis.
fn process(stat: &str) -> Option<(u32, u64, u64)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let group = fields.nth(2)?.parse().ok()?;
    let threads = fields.nth(14)?.parse().ok()?;
    let pages = fields.nth(3)?.parse().ok()?;
    Some((group, threads, pages))
}

impl Watch {
    fn groups(&self) -> MutexGuard<'_, BTreeMap<u32, Group>> {
        // The data behind this lock is consistent at all times.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts monitoring a group.
    pub(super) fn begin(&self, group: u32) -> Watched<'_> {
        let since = Instant::now();
        self.groups().insert(group, Group { since, usage: Usage::default() });
        Watched { watch: self, group, disk: (since, DISK_PAUSE) }
    }

    /// Polls until the worker has finished.
    pub(super) fn run(&self, finished: &AtomicBool) {
        while !finished.load(Ordering::Relaxed) {
            let begun = Instant::now();
            // Evaluations shorter than the interval are not polled: for a small evaluation it would be most of the cost.
            let lasts = self.groups().values().any(|group| group.since.elapsed() >= PAUSE);
            if lasts {
                self.look();
            }
            thread::sleep(PAUSE.max(begun.elapsed().saturating_mul(PART)));
        }
    }

    /// Polls all processes once for all groups. Does nothing without `/proc`.
    fn look(&self) {
        let mut seen: BTreeMap<u32, Usage> =
            self.groups().keys().map(|group| (*group, Usage::default())).collect();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process that has ended meanwhile uses nothing.
            let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
            let Some((group, threads, pages)) = process(&String::from_utf8_lossy(&stat)) else { continue };
            if let Some(usage) = seen.get_mut(&group) {
                usage.processes.push(number);
                usage.threads += threads;
                usage.resident = usage.resident.saturating_add(pages.saturating_mul(self.page));
            }
        }
        for (number, group) in &mut *self.groups() {
            if let Some(seen) = seen.remove(number) {
                group.usage = seen;
            }
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.watch.groups().remove(&self.group);
    }
}

impl Watched<'_> {
    /// The limit that an evaluation has exceeded, if any.
    pub(super) fn excess(&mut self, limits: &Limits, directory: &Path) -> Option<String> {
        let usage = self.watch.groups().get(&self.group).map(|group| group.usage.clone()).unwrap_or_default();
        let megabytes = |bytes: u64| bytes >> 20;
        if usage.processes.len() > limits.processes {
            return Some(format!("the evaluation had more than {} processes", limits.processes));
        }
        let threads = u64::try_from(limits.processes).unwrap_or(u64::MAX).saturating_mul(THREADS);
        if usage.threads > threads {
            return Some(format!("the evaluation had more than {threads} threads"));
        }
        if usage.resident > limits.total_memory_bytes {
            let most = megabytes(limits.total_memory_bytes);
            return Some(format!("the processes of the evaluation had more than {most} MB in memory"));
        }
        let (looked, pause) = self.disk;
        if looked.elapsed() < pause {
            return None;
        }
        let begun = Instant::now();
        let used = on_disk(directory, &usage.processes);
        self.disk = (Instant::now(), DISK_PAUSE.max(begun.elapsed().saturating_mul(PART)));
        match used {
            None => {
                Some(format!("the evaluation had more than {MAX_ENTRIES} files, or made them unreadable"))
            }
            Some(used) if used > limits.disk_bytes => {
                Some(format!("the evaluation had more than {} MB on disk", megabytes(limits.disk_bytes)))
            }
            Some(_) => None,
        }
    }
}

/// Disk usage in bytes of a directory's files, including deleted files that a process still has open; `None` if there are too many
/// files to count, or if they cannot be counted.
#[cfg(unix)]
fn on_disk(directory: &Path, processes: &[u32]) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut seen = BTreeSet::new();
    let mut bytes = 0_u64;
    let mut entries = 0;
    // A file with two names counts once, and a file removed meanwhile counts as zero.
    let mut add = |found: &fs::Metadata| {
        if found.nlink() == 1 || seen.insert((found.dev(), found.ino())) {
            bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
        }
    };
    let mut waiting = vec![directory.to_owned()];
    while let Some(inner) = waiting.pop() {
        let listed = match fs::read_dir(inner) {
            Ok(listed) => listed,
            // Removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // A directory that cannot be listed, or is nested too deeply, may contain any amount.
            Err(_) => return None,
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return None;
            }
            // For a link, the metadata of the link itself.
            let Ok(found) = entry.metadata() else { continue };
            add(&found);
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    for process in processes {
        for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            if let Ok(found) = fs::metadata(entry.path())
                && found.is_file()
                && found.nlink() == 0
            {
                add(&found);
            }
        }
    }
    Some(bytes)
}

#[cfg(not(unix))]
fn on_disk(_: &Path, _: &[u32]) -> Option<u64> {
    Some(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let rest = "S 1 77 77 0 -1 4194560 1 0 0 0 9 9 0 0 20 0 5 0 123 4096000 250 18446744073709551615 1 1";
        for name in ["a", "a b", "a) S 1 2 3 (", ")))", ""] {
            assert_eq!(process(&format!("12 ({name}) {rest}")), Some((77, 5, 250)), "{name}");
        }
        for wrong in ["", "12", "12 (a)", "12 (a) S 1", "12 (a) S 1 x 1 1"] {
            assert_eq!(process(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn files_without_a_name_and_with_two_are_counted_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let empty = on_disk(directory.path(), &[]).expect("counted");
        let bytes = vec![7; 1 << 20];
        fs::write(at("one"), &bytes).expect("written");
        let one = on_disk(directory.path(), &[]).expect("counted") - empty;
        assert!((1 << 20..2 << 20).contains(&one), "{one}");
        fs::hard_link(at("one"), at("two")).expect("linked");
        std::os::unix::fs::symlink("/usr", at("three")).expect("linked");
        let linked = on_disk(directory.path(), &[]).expect("counted") - empty;
        assert!((one..one + (64 << 10)).contains(&linked), "{linked} for {one}");
        let before = on_disk(directory.path(), &[std::process::id()]).expect("counted");
        let mut file = File::create(at("gone")).expect("made");
        file.write_all(&bytes).expect("written");
        fs::remove_file(at("gone")).expect("removed");
        let open = on_disk(directory.path(), &[std::process::id()]).expect("counted");
        assert!(open >= before + (1 << 20), "{open} after {before}");
    }

    #[test]
    fn a_group_is_seen_and_forgotten() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;
        let script = "sleep 600 & sleep 600 & sleep 600 & wait";
        let mut child = Command::new("sh").args(["-c", script]).process_group(0).spawn().expect("started");
        let watch = Watch::default();
        let mut watched = watch.begin(child.id());
        let limits = Limits { processes: 3, ..Limits::default() };
        let directory = tempfile::tempdir().expect("a directory");
        let excess = loop {
            watch.look();
            if let Some(excess) = watched.excess(&limits, directory.path()) {
                break excess;
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(excess, "the evaluation had more than 3 processes");
        let limits = Limits { total_memory_bytes: 4_096, ..Limits::default() };
        let excess = watched.excess(&limits, directory.path());
        assert_eq!(excess.as_deref(), Some("the processes of the evaluation had more than 0 MB in memory"));
        assert_eq!(watched.excess(&Limits::default(), directory.path()), None);
        drop(watched);
        assert!(watch.groups().is_empty());
        let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let killed =
            rustix::process::kill_process_group(group.expect("a group"), rustix::process::Signal::KILL);
        killed.expect("ended");
        child.wait().expect("ended");
    }
}
