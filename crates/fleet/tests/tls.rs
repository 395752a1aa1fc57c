//! TLS between server and clients: trusted and untrusted certificates, and connections that stall.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use stand::Stand;
use warpproof_fleet::client::{Fleet, FleetError};
use warpproof_fleet::server::Server;

/// A certificate authority for the test.
struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let file = dir.join(format!("{name}.pem"));
        fs::write(&file, certificate.pem()).unwrap();
        Self { dir: dir.to_owned(), issuer: Issuer::new(params, key), file }
    }

    /// A certificate for a name, and its key, in files.
    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.dir.join(format!("{name}-cert.pem")), self.dir.join(format!("{name}-key.pem")));
        fs::write(&files.0, certificate.pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}

fn serve(stand: &mut Stand, tls: (PathBuf, PathBuf)) -> SocketAddr {
    stand.config.tls = Some(tls);
    let server = Server::start(&stand.config).unwrap();
    let address = server.address();
    stand.server = Some(server);
    address
}

/// The error of a client that does not trust the server; immediate, because retrying would not help.
fn refused(fleet: &Fleet) -> String {
    match fleet.queue().unwrap_err() {
        error @ FleetError::Untrusted(_) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_is_believed_by_those_who_know_its_authority() {
    let mut stand = Stand::new();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let stranger = Authority::new(dir.path(), "stranger");
    let address = serve(&mut stand, authority.sign("127.0.0.1", |_| ()));
    let base = format!("https://{address}");
    let with = |file: Option<&Path>| Fleet::new(&base, &stand.token, file);
    with(Some(&authority.file)).unwrap().queue().unwrap();
    // A file may contain several certificates.
    let both = dir.path().join("both.pem");
    let texts = [&stranger.file, &authority.file].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&both, texts.concat()).unwrap();
    with(Some(&both)).unwrap().queue().unwrap();
    // Other clients get an error that explains what is missing.
    for file in [None, Some(&*stranger.file)] {
        let said = refused(&with(file).unwrap());
        assert!(
            said.contains("certificate signed by an unknown authority; set it with `--fleet-ca FILE`"),
            "{said}"
        );
    }
    let empty = dir.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let said = with(Some(&empty)).unwrap_err().to_string();
    assert!(said.contains("no certificate found in this file"), "{said}");
    assert!(with(Some(&dir.path().join("none.pem"))).is_err());
    // A client without TLS gets an explanation, and so does a TLS client of a plain server.
    let plain = Fleet::new(&format!("http://{address}"), &stand.token, None).unwrap().queue().unwrap_err();
    assert!(
        plain.to_string().contains("this server requires TLS: use an address that starts with https://"),
        "{plain}"
    );
    stand.config.tls = None;
    let open = Server::start(&stand.config).unwrap();
    let base = format!("https://{}", open.address());
    let said = refused(&Fleet::new(&base, &stand.token, Some(&authority.file)).unwrap());
    assert!(said.contains("does not use TLS"), "{said}");
}

#[test]
fn a_certificate_that_is_old_or_anothers_is_refused() {
    let mut stand = Stand::new();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let old = authority.sign("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let address = serve(&mut stand, old);
    let fleet = |address: SocketAddr| {
        Fleet::new(&format!("https://{address}"), &stand.token, Some(&authority.file)).unwrap()
    };
    let said = refused(&fleet(address));
    assert!(said.contains("has expired"), "{said}");
    let mut config = stand.config.clone();
    config.tls = Some(authority.sign("127.0.0.1", |params| params.not_before = date_time_ymd(2999, 1, 1)));
    let early = Server::start(&config).unwrap();
    let said = refused(&fleet(early.address()));
    assert!(said.contains("is not valid yet"), "{said}");
    config.tls = Some(authority.sign("fleet.example", |_| ()));
    let other = Server::start(&config).unwrap();
    let said = refused(&fleet(other.address()));
    assert!(said.contains("for another name") && said.contains("fleet.example"), "{said}");
    // Files that are not certificates, or do not belong together, are rejected at the start.
    let (chain, _) = authority.sign("127.0.0.1", |_| ());
    let (_, key) = authority.sign("localhost", |_| ());
    for (chain, key) in [(&chain, &chain), (&key, &key), (&chain, &key), (&dir.path().join("none"), &key)] {
        config.tls = Some((chain.clone(), key.clone()));
        let said = Server::start(&config).unwrap_err();
        assert!(said.contains(".pem") || said.contains("none"), "{said}");
    }
}

#[test]
fn who_says_nothing_holds_up_nobody_and_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "authority");
    let (stand, clock) = Stand::with_clock(|config| config.tls = Some(authority.sign("127.0.0.1", |_| ())));
    let base = format!("https://{}", stand.address());
    let fleet = || Fleet::new(&base, &stand.token, Some(&authority.file)).unwrap();
    let mut silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(stand.address()).unwrap()).collect();
    // Some start a handshake and stop in the middle of it.
    for stream in &mut silent[50..] {
        stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    }
    let hasty = fleet().with_patience(Duration::ZERO);
    for _ in 0..20 {
        hasty.queue().unwrap();
    }
    // Nothing ends before its time.
    clock.advance(stand.config.limits.head_time / 10 * 9);
    hasty.queue().unwrap();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        // The end of the stream, or an alert and the end.
        let mut rest = Vec::new();
        while let Err(error) = stream.read_to_end(&mut rest) {
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
            clock.advance(stand.config.limits.head_time);
        }
        assert!(rest.len() < 64, "{rest:?}");
    }
    fleet().queue().unwrap();
}
