//! The time of day as people write it. Nothing is ordered by it.

use std::time::SystemTime;

/// Year, month, day, hour, minute, second in UTC. Times before 1970 are taken for 1970.
fn civil(time: SystemTime) -> [u64; 6] {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year, in eras of 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let second = seconds % 86_400;
    [year, month, day, second / 3_600, second / 60 % 60, second % 60]
}

/// A time as `2026-03-01T12:34:56Z`.
pub fn utc(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = civil(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A time as `20260301T123456Z`, for names of files.
pub(super) fn compact(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = civil(time);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_000_000_000, "2001-09-09T01:46:40Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        let before = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1)).expect("a time");
        assert_eq!(compact(before), "19700101T000000Z");
    }
}
