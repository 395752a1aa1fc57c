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
use warpproof_fleet::server::{Limits, Server};

/// A test fleet whose server has these limits.
fn limited(change: impl FnOnce(&mut Limits)) -> (Stand, SocketAddr) {
    let mut stand = Stand::new();
    change(&mut stand.config.limits);
    let server = Server::start(&stand.config).unwrap();
    let address = server.address();
    stand.server = Some(server);
    (stand, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    // Far above every limit of these tests: a read that takes this long hangs.
    stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    stream
}

/// Reads until the server closes the connection; a reset connection has ended too.
fn until_the_end(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a text and reads until the end.
fn say(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    // The server may close the connection before it has received everything.
    let _broken = stream.write_all(text.as_bytes());
    until_the_end(stream)
}

#[test]
fn heads_that_dribble_and_connections_that_idle_end_in_time() {
    let (stand, address) = limited(|limits| limits.head_time = Duration::from_secs(2));
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
    // Served once, and idle since then.
    let mut served = connect(address);
    served.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    // One byte at a time: activity alone does not extend the timeout.
    let dribble = thread::spawn(move || {
        let mut stream = connect(address);
        let mut head = b"GET /healthz HTTP/1.1\r\n".to_vec();
        head.extend(b"x".iter().cycle().take(10_000));
        let sent = head.iter().take_while(|byte| {
            thread::sleep(Duration::from_millis(50));
            stream.write_all(&[**byte]).is_ok()
        });
        (sent.count(), until_the_end(stream))
    });
    let fleet = stand.fleet().with_patience(Duration::ZERO);
    for _ in 0..20 {
        fleet.queue().unwrap();
    }
    for stream in idle {
        assert!(!until_the_end(stream).contains("200 OK"));
    }
    let answer = until_the_end(served);
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
    let (sent, answer) = dribble.join().unwrap();
    assert!(sent < 10_000 && !answer.contains("200 OK"), "{sent}: {answer}");
    fleet.queue().unwrap();
}

#[test]
fn a_connection_too_many_waits_until_one_ends() {
    let (stand, address) = limited(|limits| {
        limits.connections = 4;
        limits.head_time = Duration::from_secs(2);
    });
    let silent: Vec<TcpStream> = (0..12).map(|_| connect(address)).collect();
    // Queued behind all of them, and answered nevertheless: the earlier connections have a time limit.
    stand.fleet().queue().unwrap();
    for stream in silent {
        assert_eq!(until_the_end(stream), "");
    }
}

#[test]
fn a_body_that_dribbles_ends_in_time() {
    let (stand, address) = limited(|limits| limits.body_time = Duration::from_secs(1));
    let bearer = format!("authorization: Bearer {}", stand.token);
    for length in ["content-length: 10000", "transfer-encoding: chunked", "content-length: 400000"] {
        let mut stream = connect(address);
        let head = format!("POST /v1/claims HTTP/1.1\r\nhost: x\r\n{bearer}\r\n{length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // One byte at a time until the server responds; all bytes would take minutes.
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while matches!(stream.peek(&mut [0]), Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
        {
            let part: &[u8] = if length.starts_with('t') { b"1\r\nx\r\n" } else { b"x" };
            if stream.write_all(part).is_err() {
                break;
            }
        }
        let answer = until_the_end(stream);
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("timeout while reading the body"),
            "{answer}"
        );
    }
    stand.fleet().queue().unwrap();
}

#[test]
fn heads_and_bodies_without_an_end_are_refused() {
    let (stand, address) = limited(|limits| limits.body_bytes = 100_000);
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
    let (stand, address) = limited(|_| ());
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
    let (stand, address) = limited(|_| ());
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
