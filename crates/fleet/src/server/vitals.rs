//! Health of a fleet according to the database: for metrics and for the start page.

use sqlx::{PgPool, Row};

use super::refused::Refused;

/// Vitals, cached for a few seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Vitals {
    /// Leases that expired without a response of their worker, in total.
    pub(super) lost_leases: i64,
    /// Lost leases of the last 24 hours.
    pub(super) lost_today: i64,
    /// Workers with a contact in the last two minutes that did not sign off.
    pub(super) workers: i64,
    /// Age of the oldest waiting job, in seconds.
    pub(super) oldest_seconds: f64,
    /// Tokens that expire within a week.
    pub(super) tokens_expiring: i64,
}

impl Vitals {
    pub(super) async fn count(pool: &PgPool) -> Result<Self, Refused> {
        let row = sqlx::query(
            "SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM lost_leases_number_seq),
                    (SELECT count(*) FROM lost_leases WHERE lost_at > now() - interval '1 day'),
                    (SELECT count(*) FROM workers WHERE left_at IS NULL AND last_seen > now() - interval '2 minutes'),
                    (SELECT coalesce(extract(epoch FROM now() - min(made_at)), 0)::float8 FROM jobs WHERE state = 'queued'),
                    (SELECT count(*) FROM tokens WHERE revoked_at IS NULL AND expires_at > now()
                         AND expires_at < now() + interval '7 days')",
        )
        .fetch_one(pool)
        .await?;
        Ok(Self {
            lost_leases: row.try_get(0)?,
            lost_today: row.try_get(1)?,
            workers: row.try_get(2)?,
            oldest_seconds: row.try_get(3)?,
            tokens_expiring: row.try_get(4)?,
        })
    }
}
