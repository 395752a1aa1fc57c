//! Settings from environment variables.

use std::path::PathBuf;

use warpproof_check::Check;
use warpproof_model::Device;
use warpproof_sim::Limits;

/// Output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
    /// One SARIF log, rewritten with each finding.
    Sarif,
    /// No output.
    Quiet,
}

/// Whether memory that is never freed is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaks {
    /// No.
    Off,
    /// As a warning.
    Warn,
    /// As an error.
    Error,
}

/// The settings.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the user")]
pub struct Settings {
    /// `WARPPROOF_DEVICE`: the visible devices, by their names in the device table.
    pub devices: Vec<&'static Device>,
    /// `WARPPROOF_CHECKS`: `all`, `none`, or names separated by commas.
    pub checks: Vec<Check>,
    /// `WARPPROOF_SCHEDULES`: number of schedules per launch; chosen automatically if not given.
    pub schedules: Option<u32>,
    /// `WARPPROOF_FINDINGS`: `text`, `json`, `sarif` or `quiet`.
    pub format: Format,
    /// `WARPPROOF_FINDINGS_FILE`: where findings go instead of stderr.
    pub file: Option<PathBuf>,
    /// `WARPPROOF_FAIL`: whether a finding fails its launch.
    pub fail: bool,
    /// `WARPPROOF_REPORT`: the directory in which `warpproof exec` collects the findings of all processes.
    pub report: Option<PathBuf>,
    /// `WARPPROOF_INSTRUCTIONS`: number of warp instructions after which a launch times out.
    pub instructions: u64,
    /// `WARPPROOF_CLOCK`: `issue` or `model`; the source of event times.
    pub model_clock: bool,
    /// `CUDA_LAUNCH_BLOCKING`: launches return their own errors.
    pub blocking: bool,
    /// `WARPPROOF_LEAKS`: `off`, `warn` or `error`; the default is `warn`, and `off` in a Python interpreter.
    pub leaks: Option<Leaks>,
    /// `WARPPROOF_LATE`: work runs at the latest moment that CUDA allows.
    pub late: bool,
    /// `WARPPROOF_HOST_RACES`: whether accesses of the host are compared with the work of streams; on by default.
    pub host_races: bool,
    /// Messages about invalid settings.
    pub doubts: Vec<String>,
}

impl Settings {
    /// Reads the settings from the environment.
    pub fn from_env() -> Settings {
        Settings::from(|name| std::env::var(name).ok())
    }

    /// Reads the settings from the variables that `get` returns.
    pub fn from(get: impl Fn(&str) -> Option<String>) -> Settings {
        let (mut doubts, mut later) = (Vec::new(), Vec::new());
        let mut devices = Vec::new();
        for name in get("WARPPROOF_DEVICE").unwrap_or_else(|| "l4".to_owned()).split(',') {
            match Device::named(name.trim()) {
                Some(device) => devices.push(device),
                None => doubts.push(format!("WARPPROOF_DEVICE: unknown device `{}`", name.trim())),
            }
        }
        // Without buffer roles there are no outputs to check.
        let all = || Check::DEFAULT.into_iter().filter(|check| *check != Check::Output).collect();
        let checks = match get("WARPPROOF_CHECKS").as_deref().map(str::trim) {
            None | Some("all" | "") => {
                Check::DEFAULT.into_iter().filter(|check| *check != Check::Output).collect()
            }
            Some("none" | "off") => Vec::new(),
            Some(names) => {
                let mut checks = Vec::new();
                for name in names.split(',').map(str::trim) {
                    match Check::parse(name) {
                        Some(check) => checks.push(check),
                        None => doubts.push(format!("WARPPROOF_CHECKS: unknown check `{name}`")),
                    }
                }
                // An unknown name must not disable the checks.
                if doubts.iter().any(|doubt| doubt.starts_with("WARPPROOF_CHECKS")) { all() } else { checks }
            }
        };
        let mut number = |name: &str| -> Option<u64> {
            let text = get(name)?;
            let number = text.trim().parse().ok();
            if number.is_none() {
                doubts.push(format!("{name}: expected a number, found `{text}`"));
            }
            number
        };
        let schedules = number("WARPPROOF_SCHEDULES").map(|count| count.clamp(1, 64));
        let minute = if checks.is_empty() { Limits::MINUTE } else { Limits::CHECKED_MINUTE };
        let instructions = number("WARPPROOF_INSTRUCTIONS").unwrap_or(minute);
        let mut word = |name: &str, known: &[&str]| -> String {
            let text = get(name).unwrap_or_default().trim().to_ascii_lowercase();
            if !text.is_empty() && !known.contains(&text.as_str()) {
                doubts.push(format!("{name}: expected one of {}, found `{text}`", known.join(", ")));
            }
            text
        };
        let format = match word("WARPPROOF_FINDINGS", &["text", "json", "sarif", "quiet"]).as_str() {
            "json" => Format::Json,
            "sarif" => Format::Sarif,
            "quiet" => Format::Quiet,
            _ => Format::Text,
        };
        let file = get("WARPPROOF_FINDINGS_FILE").map(PathBuf::from);
        let format = if format == Format::Sarif && file.is_none() {
            later.push(
                "WARPPROOF_FINDINGS=sarif needs WARPPROOF_FINDINGS_FILE; findings are written as text"
                    .to_owned(),
            );
            Format::Text
        } else {
            format
        };
        let model_clock = word("WARPPROOF_CLOCK", &["issue", "model"]) == "model";
        let on = |text: String| matches!(text.as_str(), "1" | "true" | "yes" | "on");
        let switch = ["0", "1", "true", "false", "yes", "no", "on", "off"];
        let fail = on(word("WARPPROOF_FAIL", &switch));
        let late = on(word("WARPPROOF_LATE", &switch));
        let host_races =
            !matches!(word("WARPPROOF_HOST_RACES", &switch).as_str(), "0" | "false" | "no" | "off");
        let leaks = match word("WARPPROOF_LEAKS", &["off", "warn", "error"]).as_str() {
            "off" => Some(Leaks::Off),
            "warn" => Some(Leaks::Warn),
            "error" => Some(Leaks::Error),
            _ => None,
        };
        doubts.append(&mut later);
        Settings {
            devices,
            checks,
            schedules: schedules.and_then(|count| u32::try_from(count).ok()),
            format,
            file,
            fail,
            report: get("WARPPROOF_REPORT").map(PathBuf::from),
            instructions,
            model_clock,
            blocking: get("CUDA_LAUNCH_BLOCKING").is_some_and(|text| text.trim() == "1"),
            leaks,
            late,
            host_races,
            doubts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Settings {
        Settings::from(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn what_is_not_understood_is_told_and_the_rest_holds() {
        let settings = of(&[]);
        assert_eq!(settings.devices.iter().map(|d| d.id).collect::<Vec<_>>(), ["l4"]);
        assert!(settings.checks.contains(&Check::Race) && !settings.checks.contains(&Check::Output));
        assert!(settings.doubts.is_empty());

        let settings = of(&[
            ("WARPPROOF_DEVICE", "h100,l4,gtx"),
            ("WARPPROOF_CHECKS", "race,rice"),
            ("WARPPROOF_SCHEDULES", "many"),
            ("WARPPROOF_FINDINGS", "json"),
            ("WARPPROOF_FAIL", "1"),
        ]);
        assert_eq!(settings.devices.len(), 2);
        // All checks: an unknown name must not disable them.
        assert_eq!(settings.checks.len(), Check::DEFAULT.len() - 1);
        assert_eq!(of(&[("WARPPROOF_CHECKS", "race")]).checks, [Check::Race]);
        assert_eq!(of(&[("WARPPROOF_FINDINGS", "sarif")]).format, Format::Text);
        assert_eq!((settings.schedules, settings.format, settings.fail), (None, Format::Json, true));
        assert_eq!(settings.doubts.len(), 3, "{:?}", settings.doubts);
    }
}
