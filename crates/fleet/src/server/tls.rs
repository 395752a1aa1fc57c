//! TLS with rustls, from a certificate chain and a key in PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::wire::Refusal;

/// Reads the files.
pub(super) fn acceptor(chain: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(chain, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(chain, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| wrong(chain, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Whether a client uses HTTP without TLS: the first byte is that of an HTTP method, which no handshake begins with.
pub(super) async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Responds that TLS is required.
pub(super) async fn refuse_plain_http(mut stream: TcpStream) {
    let refusal = Refusal {
        error: "tls".to_owned(),
        message: "this server requires TLS: use an address that starts with https://".to_owned(),
        missing: Vec::new(),
    };
    let body = serde_json::to_string(&refusal).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The request is read first: closing a connection with unread bytes resets it before the client reads the response.
    let mut head = [0; 4096];
    let _read = stream.read(&mut head).await;
    let _told = stream.write_all(answer.as_bytes()).await;
    let _closed = stream.shutdown().await;
}
