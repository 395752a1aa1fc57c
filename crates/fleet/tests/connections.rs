//! Slow, greedy or malformed connections: each ends in time, without affecting other clients.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use stand::Stand;
use warpproof_evidence::hash::Hash;
use warpproof_fleet::server::ManualClock;

/// Time limit of these tests' servers, for a head or for a body, on the test's clock.
const LIMIT: Duration = Duration::from_secs(2);
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// Reads what has arrived; `None` if nothing has, and an empty result at the end. A reset connection has ended too.
fn arrived(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut bytes = vec![0; 4096];
    match stream.read(&mut bytes) {
        Ok(read) => bytes.truncate(read),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            bytes.clear();
        }
    }
    Some(bytes)
}

/// Reads until the server closes the connection, and calls this each time nothing has arrived.
fn read_while(mut stream: TcpStream, mut waiting: impl FnMut(&mut TcpStream)) -> String {
    let mut all = Vec::new();
    loop {
        match arrived(&mut stream) {
            None => waiting(&mut stream),
            Some(bytes) if bytes.is_empty() => return String::from_utf8_lossy(&all).into_owned(),
            Some(bytes) => all.extend(bytes),
        }
    }
}

/// Advances the clock until the server closes the connection.
fn outlast(stream: TcpStream, clock: &ManualClock) -> String {
    read_while(stream, |_| clock.advance(LIMIT))
}

/// Sends these parts one after another, each in a small part of the time limit, until the server closes the connection.
fn dribble(stream: TcpStream, part: &[u8], clock: &ManualClock) -> String {
    read_while(stream, |stream| {
        // The server may have closed the connection.
        let _broken = stream.write_all(part);
        clock.advance(LIMIT / 20);
    })
}

/// Sends a text and reads until the end.
fn say(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    // The server may close the connection before it has received everything.
    let _broken = stream.write_all(text.as_bytes());
    read_while(stream, |_| ())
}

/// Asks whether the server is healthy, and leaves the connection open.
fn ask(stream: &mut TcpStream) {
    stream.write_all(HEALTH).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok\n") {
        let bytes = arrived(stream).unwrap_or_else(|| b"".to_vec());
        answer.extend(bytes);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn heads_that_dribble_and_connections_that_idle_end_in_time() {
    let (stand, clock) = Stand::with_clock(|config| config.limits.head_time = LIMIT);
    let address = stand.address();
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
    let mut begun = connect(address);
    begun.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let mut served = connect(address);
    ask(&mut served);
    let fleet = stand.fleet().with_patience(Duration::ZERO);
    for _ in 0..20 {
        fleet.queue().unwrap();
    }
    // A connection is idle since its last response, not since it was opened.
    for _ in 0..3 {
        clock.advance(LIMIT * 3 / 4);
        ask(&mut served);
    }
    // Activity alone does not extend the time: at 64 KB the head would be refused as too large.
    assert_eq!(dribble(begun, b"x", &clock), "");
    for stream in idle.into_iter().chain([served]) {
        assert_eq!(outlast(stream, &clock), "");
    }
    stand.fleet().queue().unwrap();
}

#[test]
fn a_connection_too_many_waits_until_one_ends() {
    let (stand, clock) = Stand::with_clock(|config| {
        config.limits.connections = 4;
        config.limits.head_time = LIMIT;
    });
    let start = clock.now();
    let silent: Vec<TcpStream> = (0..12).map(|_| connect(stand.address())).collect();
    thread::scope(|scope| {
        // Queued behind all of them, and answered nevertheless: the earlier connections have a time limit.
        let answered = scope.spawn(|| {
            stand.fleet().queue().unwrap();
            clock.now()
        });
        for stream in silent {
            assert_eq!(outlast(stream, &clock), "");
        }
        // Three connections had each of the four places before.
        assert!(answered.join().unwrap() - start >= 3 * LIMIT);
    });
}

#[test]
fn a_body_that_dribbles_ends_in_time() {
    let (stand, clock) = Stand::with_clock(|config| config.limits.body_time = LIMIT);
    let bearer = format!("authorization: Bearer {}", stand.token);
    let object = format!("PUT /v1/objects/{}", Hash::of(b"x"));
    for line in ["POST /v1/claims", "POST /v1/runs", &object] {
        for (length, part) in
            [("content-length: 400000", &b"x"[..]), ("transfer-encoding: chunked", b"1\r\nx\r\n")]
        {
            let mut stream = connect(stand.address());
            let head = format!("{line} HTTP/1.1\r\nhost: x\r\n{bearer}\r\n{length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let answer = dribble(stream, part, &clock);
            assert!(
                answer.starts_with("HTTP/1.1 408 ") && answer.contains("timeout while reading the body"),
                "{line} {length}: {answer}"
            );
        }
    }
    stand.fleet().queue().unwrap();
}

#[test]
fn heads_and_bodies_without_an_end_are_refused() {
    let stand = Stand::with(|config| config.limits.body_bytes = 100_000);
    let address = stand.address();
    let bearer = format!("authorization: Bearer {}", stand.token);
    // One header of a megabyte, many small ones, a path of a megabyte.
    let long = "x".repeat(1 << 20);
    let many = "x-y: z\r\n".repeat(1_000);
    for head in [
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
    ] {
        let answer = say(address, &head);
        let refused = ["HTTP/1.1 431 ", "HTTP/1.1 414 ", "HTTP/1.1 400 "];
        // A client that continues sending may be disconnected before it reads the response.
        assert!(answer.is_empty() || refused.iter().any(|start| answer.starts_with(start)), "{answer}");
    }
    // A chunked body announces no length; its bytes are counted.
    let path = format!("/v1/objects/{}", Hash::of(b"x"));
    let mut body =
        format!("PUT {path} HTTP/1.1\r\nhost: x\r\n{bearer}\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..101 {
        body.extend(["3e8\r\n", &"x".repeat(1_000), "\r\n"]);
    }
    let answer = say(address, &body);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // Two lengths, or a length and chunks: a proxy and the server could parse two different requests.
    for lengths in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "content-length: -1\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let text = format!(
            "POST /v1/claims HTTP/1.1\r\nhost: x\r\n{bearer}\r\n{lengths}connection: close\r\n\r\n0\r\n\r\n"
        );
        let answer = say(address, &text);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
    }
    // Not HTTP at all.
    for text in
        ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n"]
    {
        let answer = say(address, text);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 505"),
            "{answer}"
        );
    }
    stand.fleet().queue().unwrap();
}

#[test]
fn what_a_fuzzer_found_is_refused_in_json() {
    let stand = Stand::new();
    let address = stand.address();
    let bearer = format!("authorization: Bearer {}", stand.token);
    for (method, path, body) in [
        // More days than the database supports.
        ("POST", "/v1/retention", "{\"days\": 4194304}"),
        // Arrays in place of objects.
        ("POST", "/v1/retention", "[1]"),
        ("POST", "/v1/heartbeats", "{\"worker\": \"w\", \"lease_seconds\": 9, \"leases\": [[1, 2]]}"),
        // Values beyond the limits of the API description.
        ("GET", "/v1/runs?limit=2147483648", ""),
        ("GET", "/v1/segments?limit=1001", ""),
        ("GET", "/v1/runs/0?wait=31", ""),
        // Values of another type: in a path, in a query, and invalid UTF-8.
        ("DELETE", "/v1/tokens/x", ""),
        ("GET", "/v1/runs?before=x", ""),
        ("GET", "/v1/runs/%ff", ""),
    ] {
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\n{bearer}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let answer = say(address, &text);
        let json =
            answer.contains("content-type: application/json") && answer.contains("\"error\":\"wrong\"");
        assert!(answer.starts_with("HTTP/1.1 400 ") && json, "{method} {path} {body}: {answer}");
    }
}

#[test]
fn requests_in_a_row_and_rare_methods_are_answered() {
    let stand = Stand::new();
    let address = stand.address();
    let bearer = format!("authorization: Bearer {}", stand.token);
    // Fifty pipelined requests, each answered, in order.
    let mut row = String::new();
    for at in 0..50 {
        let path = if at % 2 == 0 { "/healthz" } else { "/v1/nothing" };
        row.extend(["GET ", path, " HTTP/1.1\r\nhost: x\r\n\r\n"]);
    }
    row += "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = say(address, &row);
    let statuses: Vec<&str> =
        answers.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap()).collect();
    let expected: Vec<&str> = (0..51).map(|at| if at % 2 == 0 { "200" } else { "404" }).collect();
    assert_eq!(statuses, expected);
    // HEAD is GET without its body; other methods get a list of the supported ones.
    let once = |method: &str, path: &str| {
        say(address, &format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{bearer}\r\nconnection: close\r\n\r\n"))
    };
    for path in ["/healthz", "/v1/queue", "/v1/runs", "/"] {
        let (get, head) = (once("GET", path), once("HEAD", path));
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(get.len() > head.len(), "{get}");
    }
    for (method, path, allowed) in [
        ("OPTIONS", "/v1/runs", "POST, GET, HEAD"),
        ("TRACE", "/healthz", "GET, HEAD"),
        ("CONNECT", "/v1/claims", "POST"),
        ("BREW", "/v1/objects/x", "PUT, GET, HEAD"),
    ] {
        let answer = once(method, path);
        let said = format!("\r\nallow: {allowed}\r\n");
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains(&said), "{method}: {answer}");
    }
    let nobody = say(address, "GET /v1/queue HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(nobody.starts_with("HTTP/1.1 401 ") && nobody.contains("www-authenticate: Bearer"), "{nobody}");
}
