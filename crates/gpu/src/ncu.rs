//! Nsight Compute's command line: hardware counters of a device for a program that runs under it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of ncu, if it is not in `PATH`.
pub const VARIABLE: &str = "WARPPROOF_NCU";

/// The collected metrics: Nsight Compute's name, and our label.
pub const METRICS: &[(&str, &str)] = &[
    ("gpu__time_duration.sum", "duration"),
    ("sm__cycles_elapsed.max", "cycles"),
    ("smsp__inst_executed.sum", "warp instructions"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "SM throughput"),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory throughput"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy, achieved"),
    ("dram__bytes.sum", "DRAM traffic"),
    ("lts__t_sector_hit_rate.pct", "L2 hit rate"),
    ("l1tex__data_bank_conflicts_pipe_lsu.sum", "bank conflicts"),
    ("launch__registers_per_thread", "registers"),
];

/// The ncu program.
#[derive(Clone, Debug)]
pub struct Ncu(PathBuf);

/// The metrics of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The kernel.
    pub kernel: String,
    /// Nsight Compute's name, its unit, and the value.
    pub metrics: Vec<(String, String, f64)>,
}

impl Ncu {
    /// Finds ncu, or returns why it is not available.
    pub fn find() -> Result<Ncu, String> {
        if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            let path = PathBuf::from(named);
            let missing = || format!("{VARIABLE} names {}, which is not a file", path.display());
            return path.is_file().then(|| Ncu(path.clone())).ok_or_else(missing);
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&folders).map(|folder| folder.join("ncu")).find(|path| path.is_file());
        found
            .map(Ncu)
            .ok_or_else(|| format!("ncu (Nsight Compute) found neither in PATH nor through {VARIABLE}"))
    }

    /// A command that runs a program under ncu and writes the metrics of its kernels to a file.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        log: &Path,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        let mut command = Command::new(&self.0);
        command.args(["--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all"]);
        // Otherwise ncu would set its own clocks, which differ from those of the speed measurement.
        command.args(["--clock-control", "none"]);
        command.arg("--metrics").arg(names.join(",")).arg("--log-file").arg(log);
        command.arg(program).args(arguments);
        command
    }
}

/// Parses the output of `--csv --page raw`: a line of names, a line of units, and a line per launch. Lines
/// that start with `==` are remarks of ncu.
pub fn parse(text: &str) -> Result<Vec<Profile>, String> {
    let table: Vec<&str> = text.lines().filter(|line| !line.starts_with("==")).collect();
    let table = table.join("\n");
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let Some(kernel) = names.iter().position(|name| name == "Kernel Name") else {
        let first = text.lines().find(|line| line.contains("ERROR")).or(text.lines().next());
        return Err(format!("ncu printed no table: {}", first.unwrap_or("nothing at all").trim()));
    };
    let mut rows = reader.records();
    let units = rows.next().transpose().map_err(|error| error.to_string())?.unwrap_or_default();
    let mut all = Vec::new();
    for row in rows {
        let row = row.map_err(|error| error.to_string())?;
        let mut metrics = Vec::new();
        for (wanted, _) in METRICS {
            let Some(at) = names.iter().position(|name| name == *wanted) else { continue };
            // Thousands are separated by commas.
            let value = row.get(at).unwrap_or_default().replace(',', "");
            if let Ok(value) = value.parse::<f64>() {
                metrics.push(((*wanted).to_owned(), units.get(at).unwrap_or_default().to_owned(), value));
            }
        }
        all.push(Profile { kernel: row.get(kernel).unwrap_or_default().to_owned(), metrics });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let text = "==PROF== Connected to process 7\n\
             \"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"launch__registers_per_thread\",\"lts__t_sector_hit_rate.pct\"\n\
             \"\",\"\",\"ns\",\"register/thread\",\"%\"\n\
             \"0\",\"attention(Params)\",\"12,345\",\"168\",\"\"\n\
             \"1\",\"combine\",\"2048\",\"32\",\"99.5\"\n\
             ==PROF== Disconnected\n";
        let all = parse(text).unwrap_or_default();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].kernel, "attention(Params)");
        assert_eq!(
            all[0].metrics,
            [
                ("gpu__time_duration.sum".to_owned(), "ns".to_owned(), 12345.0),
                ("launch__registers_per_thread".to_owned(), "register/thread".to_owned(), 168.0),
            ]
        );
        assert_eq!(all[1].metrics.len(), 3);
    }

    #[test]
    fn what_is_no_table_is_told() {
        let said = parse("==ERROR== ERR_NVGPUCTRPERM: no permission\n").unwrap_err();
        assert!(said.contains("ERR_NVGPUCTRPERM"), "{said}");
        assert!(parse("").unwrap_err().contains("nothing at all"));
    }

    #[test]
    fn the_command_names_metrics_log_and_program() {
        let command = Ncu("ncu".into()).command(Path::new("log"), Path::new("program"), ["argument"]);
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert!(
            words.ends_with(&["--log-file", "log", "program", "argument"].map(str::to_owned)),
            "{words:?}"
        );
        assert!(words.iter().any(|word| word.contains("gpu__time_duration.sum,sm__cycles_elapsed.max")));
        assert!(words.windows(2).any(|two| two == ["--clock-control", "none"]), "{words:?}");
    }
}
