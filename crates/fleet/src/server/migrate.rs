//! Migrates the database tables to this version. Migrations are files of the repository and part of the program.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, MigrationSource, MigrationType, Migrator};
use sqlx::{PgPool, Row};

/// All migrations, in order; a released one is never changed.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "fleet", include_str!("../../migrations/0001_fleet.sql")),
    (2, "standings", include_str!("../../migrations/0002_standings.sql")),
    (3, "objects", include_str!("../../migrations/0003_objects.sql")),
    (4, "stages", include_str!("../../migrations/0004_stages.sql")),
    (5, "upkeep", include_str!("../../migrations/0005_upkeep.sql")),
];

#[derive(Debug)]
struct Embedded;

impl MigrationSource<'static> for Embedded {
    fn resolve(self) -> Pin<Box<dyn Future<Output = Result<Vec<Migration>, BoxDynError>> + Send + 'static>> {
        let migrations = MIGRATIONS.iter().map(|(version, name, sql)| {
            let kind = MigrationType::Simple;
            Migration::new(*version, Cow::Borrowed(name), kind, Cow::Borrowed(sql), false)
        });
        let migrations = migrations.collect();
        Box::pin(async { Ok(migrations) })
    }
}

/// Applies missing migrations. Several processes may do so concurrently; a database lock serializes them.
pub(super) async fn run(pool: &PgPool) -> Result<(), String> {
    let migrator = Migrator::new(Embedded).await.map_err(|error| error.to_string())?;
    migrator.run(pool).await.map_err(|error| format!("cannot migrate the database to this version: {error}"))
}

/// Whether the tables have this version.
pub(super) async fn check(pool: &PgPool) -> Result<(), String> {
    let newest = MIGRATIONS.last().map_or(0, |(version, ..)| *version);
    let row = sqlx::query("SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(pool)
        .await;
    let found: i64 = match row {
        Ok(row) => row.try_get(0).map_err(|error| error.to_string())?,
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P01") => 0,
        Err(error) => return Err(error.to_string()),
    };
    if found == newest {
        return Ok(());
    }
    let fix = if found < newest {
        "run `warpproof-fleet serve --migrate` to migrate it"
    } else {
        "use a newer warpproof"
    };
    Err(format!("expected database tables of version {newest}, found version {found}; {fix}"))
}
