//! The server: routes over PostgreSQL and an object store. It has no state that a restart could lose.
//!
//! Several servers may share one database, which decides about leases, fencing tokens and quotas.

mod access;
mod address;
mod body;
mod clock;
mod connections;
mod evidence;
mod inventory;
mod jobs;
mod log;
mod metrics;
mod migrate;
mod objects;
mod pages;
mod refused;
mod retention;
mod routes;
mod s3;
mod tls;
mod vitals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};

use crate::wire::{NewToken, QueueView, Role};
use vitals::Vitals;

#[doc(hidden)]
pub use access::ACCESS;
pub use clock::{Clock, ManualClock};
#[doc(hidden)]
pub use jobs::CLAIM;

/// Interval of periodic maintenance.
const UPKEEP: Duration = Duration::from_secs(10);
/// How long the counted queue is cached.
const COUNTED: Duration = Duration::from_secs(5);
/// Maximum number of concurrent claims: enough to combine several disk writes, few enough to be fair.
const MAX_CLAIMS: usize = 8;

/// Limits of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum body size in bytes, compressed and decompressed: a submission, a result, a segment or an object. Other bodies are
    /// limited to half a megabyte.
    pub body_bytes: usize,
    /// Average requests per second of one token; bursts of twice that are allowed.
    pub requests_per_second: u32,
    /// Concurrent connections; further ones wait.
    pub connections: usize,
    /// Time limit for a request's head and for a handshake, and for an idle connection.
    pub head_time: Duration,
    /// Time limit for a body.
    pub body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            requests_per_second: 1_000,
            connections: 4_096,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_mins(2),
        }
    }
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// `postgres://user@host/database`.
    pub database: String,
    /// A directory, or `s3://bucket/prefix`.
    pub objects: String,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// A certificate chain and its key, in PEM files; without them a proxy must provide TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether a proxy in front provides TLS.
    pub behind_tls: bool,
    /// Connections to the database.
    pub connections: u32,
    /// Limits.
    pub limits: Limits,
    /// The clock of time limits, rate limits, caches and maintenance.
    pub clock: Clock,
    /// How many workers may stop responding during a job before the job fails.
    pub attempts: u16,
    /// Whether requests are logged to standard error.
    pub log: bool,
}

impl Config {
    /// Defaults: a free port on the loopback interface.
    pub fn new(database: impl Into<String>, objects: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            objects: objects.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            behind_tls: false,
            connections: 16,
            limits: Limits::default(),
            clock: Clock::System,
            attempts: 3,
            log: false,
        }
    }
}

/// State shared by all requests.
#[derive(Clone)]
struct Shared(Arc<Inner>);

struct Inner {
    pool: PgPool,
    objects: objects::Objects,
    limits: Limits,
    clock: Clock,
    doorkeeper: access::Doorkeeper,
    metrics: metrics::Metrics,
    /// The last counted queue.
    queue: tokio::sync::Mutex<Option<(Instant, Vec<QueueView>)>>,
    /// The last computed vitals.
    vitals: tokio::sync::Mutex<Option<(Instant, Vitals)>>,
    /// Maximum number of lost leases of a job.
    attempts: i32,
    /// Memory budget for large bodies, in units.
    bodies: Arc<Semaphore>,
    /// Limits concurrent claims.
    claims: Semaphore,
    /// Notified when a job ends on this server, for requests that wait for a run.
    ended: Notify,
    log: bool,
    /// Whether clients connect through TLS.
    tls: bool,
    /// Set when the server stops, so that waiting requests are answered.
    stopping: watch::Receiver<bool>,
}

impl std::ops::Deref for Shared {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    /// Waiting and leased jobs, cached for five seconds; only one request counts at a time.
    async fn queue(&self) -> Result<Vec<QueueView>, refused::Refused> {
        let mut last = self.queue.lock().await;
        if let Some((counted, queue)) = &*last
            && self.clock.now().duration_since(*counted) < COUNTED
        {
            return Ok(queue.clone());
        }
        let queue = jobs::queue(&self.pool).await?;
        *last = Some((self.clock.now(), queue.clone()));
        Ok(queue)
    }

    /// Vitals of the fleet, cached for five seconds.
    async fn vitals(&self) -> Result<Vitals, refused::Refused> {
        let mut last = self.vitals.lock().await;
        if let Some((counted, vitals)) = *last
            && self.clock.now().duration_since(counted) < COUNTED
        {
            return Ok(vitals);
        }
        let vitals = Vitals::count(&self.pool).await?;
        *last = Some((self.clock.now(), vitals));
        Ok(vitals)
    }
}

/// A server that runs on its own threads.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the server's threads: {error}"))
}

async fn connect(config: &Config) -> Result<PgPool, String> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| config.database.starts_with(scheme)) {
        return Err("expected a database address such as postgres://USER@HOST/DATABASE".to_owned());
    }
    let options: PgConnectOptions =
        config.database.parse().map_err(|error| format!("the database's address: {error}"))?;
    let (host, port) = (options.get_host().to_owned(), options.get_port());
    let pool = PgPoolOptions::new()
        .max_connections(config.connections.max(2))
        .acquire_timeout(Duration::from_secs(5))
        // Detects a connection broken by a restart here, not in the middle of a transaction.
        .test_before_acquire(true)
        .connect_lazy_with(options.clone().application_name("warpproof"));
    let asked = refused::patiently(|| async {
        sqlx::query("SELECT 1").execute(&pool).await?;
        Ok(())
    });
    if let Err(refused) = asked.await {
        // The pool reports only that it has no connection; a direct connection returns the reason.
        let why = match tokio::time::timeout(Duration::from_secs(5), options.connect()).await {
            Ok(Err(error)) => error.to_string(),
            _ => refused.explained(),
        };
        return Err(format!("the database at {host}:{port} cannot be reached: {why}"));
    }
    Ok(pool)
}

/// Migrates the database to this version.
pub fn migrate(config: &Config) -> Result<(), String> {
    runtime()?.block_on(async {
        let pool = connect(config).await?;
        migrate::run(&pool).await
    })
}

/// Creates a token directly in the database: this is how the first one is created.
pub fn make_token(config: &Config, wanted: &NewToken) -> Result<String, String> {
    runtime()?.block_on(async {
        let pool = connect(config).await?;
        let made = routes::tokens::make(&pool, wanted).await;
        made.map(|made| made.token).map_err(|refused| refused.explained())
    })
}

/// The OpenAPI description of all routes, as JSON.
pub fn description() -> Result<String, String> {
    routes::description().to_pretty_json().map_err(|error| error.to_string())
}

/// A token with all roles, for trying out a server.
pub fn developer() -> NewToken {
    NewToken { name: "dev".to_owned(), roles: Role::ALL.to_vec(), quota: 1_000_000, days: None }
}

impl Server {
    /// Starts a server; it accepts requests when this returns. The tables must exist.
    pub fn start(config: &Config) -> Result<Self, String> {
        let runtime = runtime()?;
        let (stop, stopping) = watch::channel(false);
        let (listener, address, shared, tls) = runtime.block_on(async {
            let pool = connect(config).await?;
            migrate::check(&pool).await?;
            retention::ensure_partitions(&pool).await.map_err(|refused| refused.explained())?;
            let tls = config.tls.as_ref().map(|(chain, key)| tls::acceptor(chain, key)).transpose()?;
            let listener = TcpListener::bind(config.listen)
                .await
                .map_err(|error| format!("cannot listen on {}: {error}", config.listen))?;
            let address = listener.local_addr().map_err(|error| error.to_string())?;
            let shared = Shared(Arc::new(Inner {
                pool,
                objects: objects::Objects::open(&config.objects).await?,
                limits: config.limits,
                clock: config.clock.clone(),
                doorkeeper: access::Doorkeeper::new(config.clock.clone()),
                metrics: metrics::Metrics::default(),
                queue: tokio::sync::Mutex::new(None),
                vitals: tokio::sync::Mutex::new(None),
                attempts: i32::from(config.attempts.max(1)),
                bodies: Arc::new(Semaphore::new(body::units(&config.limits))),
                claims: Semaphore::new(MAX_CLAIMS),
                ended: Notify::new(),
                log: config.log,
                tls: config.tls.is_some() || config.behind_tls,
                stopping,
            }));
            Ok::<_, String>((listener, address, shared, tls))
        })?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(serve(listener, shared, tls));
            // Tasks that still run have exceeded their time.
            runtime.shutdown_timeout(Duration::from_secs(5));
        });
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes open requests, accepts no new ones, and ends.
    pub fn stop(mut self) -> Result<(), String> {
        self.stop.send_replace(true);
        self.join()
    }

    /// Waits until it ends.
    fn join(&mut self) -> Result<(), String> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| "the server panicked".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // An error during drop cannot be reported.
        let _ended = self.join();
    }
}

async fn serve(listener: TcpListener, shared: Shared, tls: Option<tokio_rustls::TlsAcceptor>) {
    let router = routes::router(&shared);
    let upkeep = tokio::spawn(upkeep(shared.clone()));
    connections::serve(listener, router, tls, &shared).await;
    upkeep.abort();
    shared.pool.close().await;
}

/// Periodic maintenance: fails jobs that crash every worker, and creates partitions in advance.
async fn upkeep(shared: Shared) {
    loop {
        let given_up = jobs::give_up(&shared.pool, shared.attempts).await;
        if let Ok(count @ 1..) = given_up {
            shared.metrics.given_up.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            shared.ended.notify_waiters();
        }
        let ensured = retention::ensure_partitions(&shared.pool).await;
        for refused in [given_up.err(), ensured.err()].into_iter().flatten() {
            log::upkeep(&shared, &refused.explained());
        }
        shared.clock.sleep(UPKEEP).await;
    }
}
