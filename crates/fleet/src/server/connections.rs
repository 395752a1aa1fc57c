//! Accepts, serves and ends connections, with a TLS handshake if the server has a certificate. Silent connections time out, each
//! connection is its own task, and their number is limited, so that a slow client does not delay others before its body is read.
//! Bodies are in `body.rs`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::clock::Clock;
use super::{Shared, tls};

/// Maximum size of a request's head in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Time to finish open requests when the server stops.
const FAREWELL: Duration = Duration::from_secs(40);

/// Serves until the stop signal, then finishes the open requests.
pub(super) async fn serve(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>, shared: &Shared) {
    let (limits, clock, mut stopping) = (shared.limits, &shared.clock, shared.stopping.clone());
    let room = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    // The timeout starts when the connection waits for a request, so it also ends idle connections.
    http.timer(clock.clone()).header_read_timeout(limits.head_time).max_buf_size(MAX_HEAD);
    loop {
        // Further connections wait in the system's queue until there is room.
        let (permit, accepted) = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            taken = async { (Arc::clone(&room).acquire_owned().await, listener.accept().await) } => taken,
        };
        let Ok((stream, _)) = accepted else {
            // For example, no free file descriptors: a transient error.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (http, router, tls, watcher) = (http.clone(), router.clone(), tls.clone(), graceful.watcher());
        let (clock, mut stopping) = (clock.clone(), stopping.clone());
        tokio::spawn(async move {
            let _room = permit;
            match tls {
                None => answer(&http, stream, router, watcher).await,
                Some(acceptor) => {
                    let shaken = tokio::select! {
                        // A connection without a request is closed immediately.
                        _ = stopping.wait_for(|stop| *stop) => None,
                        shaken = handshake(&acceptor, stream, &clock, limits.head_time) => shaken,
                    };
                    if let Some(stream) = shaken {
                        answer(&http, stream, router, watcher).await;
                    }
                }
            }
        });
    }
    drop(listener);
    // Remaining connections end with the runtime.
    let _ended = timeout(FAREWELL, graceful.shutdown()).await;
}

async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    clock: &Clock,
    time: Duration,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let shaken = async {
        if tls::is_plain_http(&stream).await {
            tls::refuse_plain_http(stream).await;
            return None;
        }
        acceptor.accept(stream).await.ok()
    };
    clock.timeout(time, shaken).await.flatten()
}

async fn answer<S>(http: &http1::Builder, stream: S, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A connection broken by the client is not an error of the server.
    let _broken = watcher.watch(connection).await;
}
