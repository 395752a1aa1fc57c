//! The time of day in readable form. Nothing is ordered by it.

use std::time::SystemTime;

use jiff::Timestamp;

/// A time in UTC. Times before 1970, and times outside the calendar, become 1970.
fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default().max(Timestamp::UNIX_EPOCH)
}

/// A time as `2026-03-01T12:34:56Z`.
pub fn utc(time: SystemTime) -> String {
    timestamp(time).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as `20260301T123456Z`, for names of files.
pub(super) fn compact(time: SystemTime) -> String {
    timestamp(time).strftime("%Y%m%dT%H%M%SZ").to_string()
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
