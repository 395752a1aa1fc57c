//! Tracks which objects the store has and what refers to them, and deletes unreferenced ones.
//!
//! A row of `objects` means that the bytes are in the store; foreign keys keep it while a bundle or a segment refers to it. Bytes
//! that may be in the store without such a row are strays: an upload is a stray from before its first byte until it is recorded,
//! and a collected object is a stray from the deletion of its row until its bytes are deleted. Bytes are deleted only for a stray
//! that is old, while its row is locked; a client that uploads them again waits for that and makes it young. Old means one day: a
//! client has that long to refer to an object after uploading it or asking whether it exists.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool, Row};
use warpproof_evidence::hash::Hash;

use super::objects::Objects;
use super::refused::Refused;

/// Rows processed per transaction.
const BATCH: i64 = 1_000;
/// Objects whose bytes are deleted per transaction: an upload of one of them waits for it.
const REMOVED: i64 = 20;
/// Time limit for deleting bytes in one call; the next call continues.
const TIME: Duration = Duration::from_mins(1);

fn names<'h>(hashes: impl IntoIterator<Item = &'h Hash>) -> Vec<&'h [u8]> {
    hashes.into_iter().map(|hash| &hash.as_bytes()[..]).collect()
}

fn first_column(rows: &[sqlx::postgres::PgRow]) -> Result<Vec<Vec<u8>>, Refused> {
    rows.iter().map(|row| row.try_get(0).map_err(Refused::from)).collect()
}

fn absent(wanted: &BTreeSet<Hash>, there: &[Vec<u8>]) -> Vec<Hash> {
    let there: BTreeSet<&[u8]> = there.iter().map(Vec::as_slice).collect();
    wanted.iter().filter(|hash| !there.contains(&hash.as_bytes()[..])).copied().collect()
}

/// The error for references to missing objects.
pub(super) fn refusal(missing: &[Hash]) -> Refused {
    let missing = missing.iter().map(ToString::to_string).collect();
    Refused::missing("missing_objects", "upload these objects first", missing)
}

/// Returns the missing objects. Existing ones are kept for now, because the client is about to refer to them.
pub(super) async fn missing(pool: &PgPool, wanted: &BTreeSet<Hash>) -> Result<Vec<Hash>, Refused> {
    let names = names(wanted);
    // In sorted order, so that two requests never deadlock; and not on every request, because submissions share headers.
    sqlx::query(
        "UPDATE objects SET touched_at = now() FROM (
             SELECT hash FROM objects WHERE hash = ANY($1) AND touched_at < now() - interval '10 minutes'
             ORDER BY hash FOR NO KEY UPDATE) AS old
         WHERE objects.hash = old.hash",
    )
    .bind(&names)
    .execute(pool)
    .await?;
    let rows =
        sqlx::query("SELECT hash FROM objects WHERE hash = ANY($1)").bind(&names).fetch_all(pool).await?;
    Ok(absent(wanted, &first_column(&rows)?))
}

/// The size of an object in bytes, if it exists.
pub(super) async fn size(pool: &PgPool, hash: &Hash) -> Result<Option<u64>, Refused> {
    let statement = "SELECT bytes FROM objects WHERE hash = $1";
    let row = sqlx::query(statement).bind(&hash.as_bytes()[..]).fetch_optional(pool).await?;
    let bytes: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
}

/// Announces an upload, and returns the objects that are missing. The bytes are not deleted within the next day.
pub(super) async fn announce(pool: &PgPool, wanted: &BTreeSet<Hash>) -> Result<Vec<Hash>, Refused> {
    let mut transaction = pool.begin().await?;
    let rows = sqlx::query(
        "UPDATE objects SET touched_at = now() FROM (
             SELECT hash FROM objects WHERE hash = ANY($1) ORDER BY hash FOR NO KEY UPDATE) AS old
         WHERE objects.hash = old.hash RETURNING objects.hash",
    )
    .bind(names(wanted))
    .fetch_all(&mut *transaction)
    .await?;
    let new = absent(wanted, &first_column(&rows)?);
    // Waits for a transaction that is deleting these bytes.
    sqlx::query(
        "INSERT INTO strays (hash, since) SELECT hash, now() FROM unnest($1::bytea[]) AS new (hash) ORDER BY hash
         ON CONFLICT (hash) DO UPDATE SET since = now()",
    )
    .bind(names(&new))
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(new)
}

/// Records that objects are in the store.
pub(super) async fn note(pool: &PgPool, stored: &[(Hash, usize)]) -> Result<(), Refused> {
    let hashes = names(stored.iter().map(|(hash, _)| hash));
    let bytes: Vec<i64> = stored.iter().map(|(_, bytes)| i64::try_from(*bytes).unwrap_or(i64::MAX)).collect();
    let mut transaction = pool.begin().await?;
    sqlx::query(
        "INSERT INTO objects (hash, bytes) SELECT * FROM unnest($1::bytea[], $2::bigint[]) ORDER BY 1
         ON CONFLICT (hash) DO UPDATE SET touched_at = now()",
    )
    .bind(&hashes)
    .bind(&bytes)
    .execute(&mut *transaction)
    .await?;
    sqlx::query(
        "DELETE FROM strays WHERE hash IN (SELECT hash FROM strays WHERE hash = ANY($1) ORDER BY hash FOR UPDATE)",
    )
    .bind(&hashes)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(())
}

/// Locks objects until the end of a transaction that refers to them, or returns the missing ones.
async fn hold(connection: &mut PgConnection, wanted: &BTreeSet<Hash>) -> Result<(), Refused> {
    let rows = sqlx::query("SELECT hash FROM objects WHERE hash = ANY($1) ORDER BY hash FOR KEY SHARE")
        .bind(names(wanted))
        .fetch_all(connection)
        .await?;
    let missing = absent(wanted, &first_column(&rows)?);
    if missing.is_empty() { Ok(()) } else { Err(refusal(&missing)) }
}

/// Records the objects of a bundle's files.
pub(super) async fn name_by_bundle(
    connection: &mut PgConnection,
    bundle: &Hash,
    wanted: &BTreeSet<Hash>,
) -> Result<(), Refused> {
    hold(&mut *connection, wanted).await?;
    sqlx::query(
        "INSERT INTO bundle_objects (bundle, hash) SELECT $1, hash FROM unnest($2::bytea[]) AS named (hash)
         ORDER BY hash ON CONFLICT DO NOTHING",
    )
    .bind(bundle.as_bytes())
    .bind(names(wanted))
    .execute(connection)
    .await?;
    Ok(())
}

/// Records the objects that a segment's records refer to.
pub(super) async fn name_by_segment(
    connection: &mut PgConnection,
    segment: i64,
    wanted: &BTreeSet<Hash>,
) -> Result<(), Refused> {
    hold(&mut *connection, wanted).await?;
    sqlx::query(
        "INSERT INTO segment_objects (segment, hash) SELECT $1, hash FROM unnest($2::bytea[]) AS named (hash)
         ORDER BY hash",
    )
    .bind(segment)
    .bind(names(wanted))
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes a batch of rows: first locks the candidates, skipping locked rows, then checks them again. The second check sees
/// references added in between; later transactions wait and find the rows deleted.
struct Sweep {
    held: &'static str,
    gone: &'static str,
}

/// Bundles without jobs.
const BUNDLES: Sweep = Sweep {
    held: "SELECT bundle FROM bundles WHERE bundle > $1
             AND NOT EXISTS (SELECT FROM jobs WHERE jobs.bundle = bundles.bundle)
         ORDER BY bundle LIMIT $2 FOR UPDATE SKIP LOCKED",
    gone: "DELETE FROM bundles WHERE bundle = ANY($1)
             AND NOT EXISTS (SELECT FROM jobs WHERE jobs.bundle = bundles.bundle)",
};

/// Objects without a bundle or segment, unused for a day: they become strays with their age.
const OBJECTS: Sweep = Sweep {
    held: "SELECT hash FROM objects WHERE hash > $1 AND touched_at < now() - interval '1 day'
             AND NOT EXISTS (SELECT FROM bundle_objects WHERE bundle_objects.hash = objects.hash)
             AND NOT EXISTS (SELECT FROM segment_objects WHERE segment_objects.hash = objects.hash)
         ORDER BY hash LIMIT $2 FOR UPDATE SKIP LOCKED",
    gone: "WITH gone AS (
             DELETE FROM objects WHERE hash = ANY($1) AND touched_at < now() - interval '1 day'
                 AND NOT EXISTS (SELECT FROM bundle_objects WHERE bundle_objects.hash = objects.hash)
                 AND NOT EXISTS (SELECT FROM segment_objects WHERE segment_objects.hash = objects.hash)
             RETURNING hash, touched_at)
         INSERT INTO strays (hash, since) SELECT hash, touched_at FROM gone
         ON CONFLICT (hash) DO UPDATE SET since = excluded.since",
};

async fn sweep(pool: &PgPool, sweep: &Sweep) -> Result<(), Refused> {
    let mut after: Vec<u8> = Vec::new();
    loop {
        let mut transaction = pool.begin().await?;
        let rows = sqlx::query(sweep.held).bind(&after).bind(BATCH).fetch_all(&mut *transaction).await?;
        let held = first_column(&rows)?;
        let Some(last) = held.last() else { return Ok(()) };
        after.clone_from(last);
        sqlx::query(sweep.gone).bind(&held).execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
}

/// Deletes unreferenced bundles and objects within the time limit; returns the number of objects deleted from the store.
pub(super) async fn collect(pool: &PgPool, objects: &Objects) -> Result<u64, Refused> {
    sweep(pool, &BUNDLES).await?;
    sweep(pool, &OBJECTS).await?;
    let (mut removed, end) = (0, Instant::now() + TIME);
    while Instant::now() < end {
        let mut transaction = pool.begin().await?;
        let rows = sqlx::query(
            "SELECT hash FROM strays WHERE since < now() - interval '1 day'
             ORDER BY since LIMIT $1 FOR UPDATE SKIP LOCKED",
        )
        .bind(REMOVED)
        .fetch_all(&mut *transaction)
        .await?;
        let held = first_column(&rows)?;
        if held.is_empty() {
            break;
        }
        let rows = sqlx::query("SELECT hash FROM objects WHERE hash = ANY($1)")
            .bind(&held)
            .fetch_all(&mut *transaction)
            .await?;
        let kept = first_column(&rows)?;
        for name in &held {
            // An object recorded meanwhile is not a stray.
            if kept.contains(name) {
                continue;
            }
            let hash = Hash::from_bytes(name).map_err(Refused::failed)?;
            objects.remove(&hash).await?;
            removed += 1;
        }
        sqlx::query("DELETE FROM strays WHERE hash = ANY($1)").bind(&held).execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok(removed)
}
