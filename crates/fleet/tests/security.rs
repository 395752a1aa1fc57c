//! What a server rejects: every route for every role, and malicious requests.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use stand::{Stand, claim, outcome, run_name, status, submission, submit};
use ureq::Agent;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::server::{ACCESS, description};
use warpproof_fleet::wire::Role::{self, Admin, Read, Submit, Work};

/// The roles of each route, repeated here on purpose: a change must be made in both places.
const EXPECTED: &[(&str, &str, &[Role])] = &[
    ("POST", "/v1/runs", &[Submit]),
    ("GET", "/v1/runs", &[Read]),
    ("GET", "/v1/runs/{run}", &[Submit, Read]),
    ("POST", "/v1/runs/{run}/cancel", &[Submit]),
    ("POST", "/v1/claims", &[Work]),
    ("POST", "/v1/heartbeats", &[Work]),
    ("POST", "/v1/goodbyes", &[Work]),
    ("POST", "/v1/jobs/{job}/release", &[Work]),
    ("POST", "/v1/jobs/{job}/failure", &[Work]),
    ("POST", "/v1/jobs/{job}/result", &[Work]),
    ("POST", "/v1/objects", &[Submit, Work, Admin]),
    ("PUT", "/v1/objects/{hash}", &[Submit, Work, Admin]),
    ("GET", "/v1/objects/{hash}", &[Submit, Work, Read]),
    ("HEAD", "/v1/objects/{hash}", &[Submit, Work, Read, Admin]),
    ("GET", "/v1/segments", &[Read]),
    ("GET", "/v1/segments/{id}", &[Submit, Read]),
    ("PUT", "/v1/segments/{id}", &[Admin]),
    ("GET", "/v1/records/{hash}", &[Submit, Read]),
    ("GET", "/v1/workers", &[Read]),
    ("GET", "/v1/queue", &[Read]),
    ("GET", "/v1/tokens", &[Admin]),
    ("POST", "/v1/tokens", &[Admin]),
    ("DELETE", "/v1/tokens/{id}", &[Admin]),
    ("POST", "/v1/retention", &[Admin]),
];
/// Pages of the dashboard: visible with the role `read`; unauthenticated users are redirected to the sign-in page.
const PAGES: &[&str] = &[
    "/",
    "/runs",
    "/runs/{run}",
    "/jobs/{job}",
    "/tasks",
    "/tasks/{task}",
    "/negatives",
    "/workers",
    "/queue",
];
const OPEN: &[&str] = &["/healthz", "/readyz", "/metrics", "/openapi.json", "/sign-in"];
/// Public routes with their own methods.
const SIGNING: usize = 2;

struct Raw {
    agent: Agent,
    base: String,
}

impl Raw {
    fn of(stand: &Stand) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_idle_connections(0)
            .max_redirects(0)
            .build()
            .new_agent();
        Self { agent, base: stand.base() }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = self.agent.run(request.body(body).unwrap()).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap_or_default())
    }
}

#[test]
fn every_route_for_every_role() {
    let stand = Stand::new();
    let raw = Raw::of(&stand);
    let tokens: Vec<(Option<Role>, String)> = Role::ALL
        .into_iter()
        .map(|role| (Some(role), stand.token_for(&[role], 10)))
        .chain([(None, format!("wpf_{}", "0".repeat(64)))])
        .collect();
    let mut seen = 0;
    for (method, route, roles) in EXPECTED {
        let path = route.replace("{run}", &run_name(9)).replace("{job}", "9").replace("{id}", "9");
        let path = path.replace("{hash}", &"0".repeat(64));
        for (role, token) in &tokens {
            let bearer = format!("Bearer {token}");
            let (status, text) = raw.send(method, &path, &[("authorization", &bearer)], b"{}");
            match role {
                None => assert_eq!(status, 401, "{method} {route} with an unknown token: {text}"),
                Some(role) if roles.contains(role) => {
                    assert!(
                        status != 401 && status != 403 && status < 500,
                        "{method} {route} as {role}: {status} {text}"
                    );
                }
                Some(role) => assert_eq!(status, 403, "{method} {route} as {role}: {text}"),
            }
            seen += 1;
        }
        for headers in [&[][..], &[("authorization", "Basic x")], &[("authorization", "Bearer ' OR 1=1 --")]]
        {
            assert_eq!(raw.send(method, &path, headers, b"{}").0, 401, "{method} {route} with {headers:?}");
        }
    }
    assert_eq!(seen, EXPECTED.len() * 5);
    for path in OPEN {
        assert_eq!(raw.send("GET", path, &[], b"").0, 200, "{path}");
    }
    for page in PAGES {
        let path = page.replace("{run}", &run_name(9)).replace("{job}", "9").replace("{task}", "t");
        assert_eq!(raw.send("GET", &path, &[], b"").0, 303, "{page} without a token");
        for (role, token) in &tokens {
            let bearer = format!("Bearer {token}");
            let cookie = format!("other=1; warpproof_token={token}");
            for headers in [[("authorization", &*bearer)], [("cookie", &*cookie)]] {
                let (status, text) = raw.send("GET", &path, &headers, b"");
                match role {
                    None => assert_eq!(status, 303, "{page} with an unknown token: {text}"),
                    Some(Read) => assert!(status == 200 || status == 404, "{page}: {status} {text}"),
                    Some(role) => assert_eq!(status, 403, "{page} as {role}: {text}"),
                }
            }
        }
    }
    // A cookie allows reading only.
    let cookie = format!("warpproof_token={}", stand.token);
    assert_eq!(raw.send("POST", "/v1/retention", &[("cookie", &cookie)], b"{\"days\": 1}").0, 401);
    assert_eq!(raw.send("GET", "/v1/queue", &[("cookie", &cookie)], b"").0, 200);
    // The server's table, the API description and this table have the same routes.
    let own: Vec<(&str, &str)> = ACCESS.iter().map(|(method, route, _)| (*method, *route)).collect();
    assert_eq!(own.len(), EXPECTED.len() + OPEN.len() + PAGES.len() + SIGNING);
    let described: serde_json::Value = serde_json::from_str(&description().unwrap()).unwrap();
    let mut routes = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            assert!(own.contains(&(method.to_uppercase().as_str(), path)), "{method} {path}");
            routes += 1;
        }
    }
    let for_people = PAGES.len() + SIGNING + 1;
    assert_eq!(
        routes + for_people + 1,
        own.len(),
        "all routes except pages and the description itself are described"
    );
    // An unsupported method, and missing pages.
    let bearer = format!("Bearer {}", stand.token);
    assert_eq!(raw.send("DELETE", "/v1/runs", &[("authorization", &bearer)], b"").0, 405);
    for path in ["/v1", "/v1/../etc/passwd", "/v1/objects/", "//v1/runs", "/%2e%2e/%2e%2e/etc/passwd"] {
        assert_eq!(raw.send("GET", path, &[("authorization", &bearer)], b"").0, 404, "{path}");
    }
}

#[test]
fn a_revoked_token_opens_nothing() {
    let stand = Stand::new();
    let wanted =
        warpproof_fleet::wire::NewToken { name: "x".to_owned(), roles: vec![Read], quota: 0, days: None };
    let made = stand.fleet().make_token(&wanted).unwrap();
    let reader = stand.fleet_as(&made.token);
    reader.queue().unwrap();
    stand.fleet().revoke_token(made.id).unwrap();
    assert_eq!(status(&reader.queue().unwrap_err()), 401);
    // The text of a token is not stored in the database.
    assert_eq!(
        stand.sql(&format!("SELECT count(*) FROM tokens WHERE tokens::text LIKE '%{}%'", &made.token[4..])),
        "0"
    );
}

#[test]
fn bodies_have_an_end_before_and_after_they_are_unpacked() {
    let stand = Stand::with(|config| config.limits.body_bytes = 1 << 20);
    let raw = Raw::of(&stand);
    let bearer = format!("Bearer {}", stand.token);
    let path = format!("/v1/objects/{}", Hash::of(b"x"));
    let large = vec![b'x'; (1 << 20) + 1];
    assert_eq!(raw.send("PUT", &path, &[("authorization", &bearer)], &large).0, 413);
    // A gigabyte of zeros compresses to a megabyte.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..256 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let packed = [("authorization", bearer.as_str()), ("content-encoding", "gzip")];
    assert_eq!(raw.send("PUT", &path, &packed, &bomb).0, 413);
    assert_eq!(raw.send("POST", "/v1/claims", &packed, &bomb).0, 413);
    assert_eq!(raw.send("PUT", &path, &packed, b"no gzip").0, 400);
    let other = [("authorization", bearer.as_str()), ("content-encoding", "br")];
    assert_eq!(raw.send("PUT", &path, &other, b"x").0, 415);
    // Several objects in one body: the limit applies to their sum, and each must match its hash.
    let together = |objects: &[(&str, &[u8])]| {
        let encode = base64::engine::general_purpose::STANDARD;
        let objects: BTreeMap<String, String> =
            objects.iter().map(|(name, bytes)| ((*name).to_owned(), encode.encode(bytes))).collect();
        let body = serde_json::to_vec(&warpproof_fleet::wire::Uploads { objects }).unwrap();
        raw.send("POST", "/v1/objects", &[("authorization", &bearer)], &body).0
    };
    let (a, b) = (Hash::of(b"a").to_string(), Hash::of(b"b").to_string());
    let half = vec![b'x'; 500 << 10];
    assert_eq!(together(&[(&a, &half), (&b, &half)]), 413);
    assert_eq!(together(&[(&a, b"a"), (&b, b"a")]), 400);
    assert_eq!(together(&[(&a, b"a"), ("../b", b"b")]), 400);
    let get =
        |name: &str| raw.send("GET", &format!("/v1/objects/{name}"), &[("authorization", &bearer)], b"");
    assert_eq!((get(&a).0, get(&b).0), (404, 404), "all or nothing");
    assert_eq!(together(&[(&a, b"a"), (&b, b"b")]), 200);
    assert_eq!((get(&a).1.as_str(), get(&b).1.as_str()), ("a", "b"));
    let many: Vec<(String, Vec<u8>)> = (0..1_025_u32)
        .map(|n| n.to_string())
        .map(|n| (Hash::of(n.as_bytes()).to_string(), n.into()))
        .collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    assert_eq!((together(&many), together(&many[1..]), together(&[])), (400, 200, 200));
    // Content within the limit is accepted, but only under its hash.
    assert_eq!(raw.send("PUT", &path, &[("authorization", &bearer)], b"x").0, 200);
    assert_eq!(raw.send("PUT", &path, &[("authorization", &bearer)], b"y").0, 400);
    for name in ["..%2f..%2fetc%2fpasswd", "x", &"A".repeat(64), "%00", &"0".repeat(65)] {
        let path = format!("/v1/objects/{name}");
        for method in ["PUT", "GET", "HEAD"] {
            assert_eq!(raw.send(method, &path, &[("authorization", &bearer)], b"").0, 400, "{method} {path}");
        }
    }
}

/// A client may write its whole body before it reads the response. The connection stays open that long.
#[test]
fn a_slow_client_reads_why_its_body_was_rejected() {
    let (stand, clock) = Stand::with_clock(|config| config.limits.body_bytes = 1 << 20);
    let address = stand.address();
    let body = vec![b'x'; 3 << 20];
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "PUT /v1/objects/{} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        Hash::of(b"x"),
        stand.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The response has arrived before the client sends its body.
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    for piece in body.chunks(128 << 10) {
        stream.write_all(piece).unwrap();
        clock.advance(Duration::from_millis(200));
    }
    let mut response = [0; 12];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 413");
}

#[test]
fn texts_that_mean_something_elsewhere_mean_nothing_here() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    let nasty = [
        "'; DROP TABLE jobs; --",
        "<script>alert(1)</script>",
        "${jndi:ldap://x}",
        "%s%n",
        "\u{202e}a",
        "a\\",
    ];
    fleet.put_object(&Hash::of(b"task"), b"task").unwrap();
    let mut wish = submission(1, "task", 0);
    wish.candidates = nasty.iter().map(|text| (*text).to_owned()).collect();
    let run = fleet.submit(&wish).unwrap();
    assert_eq!(run.jobs.iter().map(|job| job.candidate.as_str()).collect::<Vec<_>>(), nasty);
    for job in fleet.claim(&claim("<b>w'\"</b>", 10, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Reject)).unwrap();
    }
    assert_eq!(fleet.run(&run_name(1), 0).unwrap().open, 0);
    // No response is an HTML page.
    let raw = Raw::of(&stand);
    let bearer = format!("Bearer {}", stand.token);
    let (_, text) = raw.send("GET", &format!("/v1/runs/{}", run_name(1)), &[("authorization", &bearer)], b"");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    // Control characters, which a database or a terminal interprets, are rejected everywhere.
    for (number, change) in
        (2..).zip(["candidate", "capability", "path", "task", "secret", "run", "twice", "none"])
    {
        let mut wish = submission(number, "task", 1);
        match change {
            "candidate" => wish.candidates = vec!["a\u{0}b".to_owned()],
            "capability" => wish.capability = "\u{1b}[2J".to_owned(),
            "path" => {
                wish.bundle.files.insert("../x".to_owned(), Hash::of(b"task").to_string());
            }
            "task" => wish.bundle.task = "other.toml".to_owned(),
            "secret" => wish.bundle.secret = Some("xyz".to_owned()),
            "run" => wish.run = "'; --".to_owned(),
            "twice" => wish.candidates = vec!["a".to_owned(), "a".to_owned()],
            _ => wish.candidates = Vec::new(),
        }
        assert_eq!(status(&fleet.submit(&wish).unwrap_err()), 400, "{change}");
    }
    assert_eq!(status(&fleet.claim(&claim("a\u{0}", 1, 600)).unwrap_err()), 400);
    assert_eq!(status(&fleet.claim(&claim("w", 0, 600)).unwrap_err()), 400);
    assert_eq!(status(&fleet.claim(&claim("w", 100_000, 60)).unwrap_err()), 400);
    assert_eq!(status(&fleet.claim(&claim("w", 1, 100_000)).unwrap_err()), 400);
    for path in [
        "/v1/runs/%00",
        "/v1/runs/'%20OR%201=1",
        "/v1/segments/..%2f..",
        "/v1/records/xyz",
        "/v1/runs?limit=-1",
    ] {
        let (status, text) = raw.send("GET", path, &[("authorization", &bearer)], b"");
        assert!((400..500).contains(&status), "{path}: {status} {text}");
    }
    for body in [&b"{"[..], b"[]", b"null", b"\xff\xfe", b"{\"run\": 7}", b"{\"extra\": 1}"] {
        assert_eq!(raw.send("POST", "/v1/runs", &[("authorization", &bearer)], body).0, 400);
    }
    let depth = vec![b'['; 100_000];
    assert_eq!(raw.send("POST", "/v1/runs", &[("authorization", &bearer)], &depth).0, 400);
    assert_eq!(stand.sql("SELECT count(*) FROM jobs"), "6");
}

#[test]
fn a_result_that_is_not_what_it_says_is_refused() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 2);
    submit(&fleet, 2, "another task", 1);
    let jobs = fleet.claim(&claim("w", 9, 600)).unwrap().jobs;
    let (one, two, other) = (&jobs[0], &jobs[1], &jobs[2]);
    let right = outcome(one, Verdict::Provisional);
    let refused = |what: &str, change: &dyn Fn(&mut warpproof_fleet::wire::Outcome), wanted: u16| {
        let mut wrong = right.clone();
        change(&mut wrong);
        let error = fleet.finish(one.job, &wrong).unwrap_err();
        assert_eq!(status(&error), wanted, "{what}: {error}");
    };
    refused("a changed byte", &|wrong| wrong.text = wrong.text.replacen("PROVISIONAL", "MERGE", 1), 422);
    refused(
        "a line too few",
        &|wrong| {
            let end = wrong.text.trim_end().rfind('\n').unwrap() + 1;
            wrong.text.truncate(end);
        },
        422,
    );
    refused(
        "half a line",
        &|wrong| {
            wrong.text.pop();
        },
        422,
    );
    refused("another name", &|wrong| wrong.segment = "20260101T000000Z-0".to_owned(), 422);
    refused("a path", &|wrong| wrong.segment = "../x".to_owned(), 422);
    refused("no object", &|wrong| wrong.objects.clear(), 422);
    refused(
        "other bytes",
        &|wrong| wrong.objects.values_mut().for_each(|text| *text = "eHh4".to_owned()),
        400,
    );
    refused("no base64", &|wrong| wrong.objects.values_mut().for_each(|text| *text = "?".to_owned()), 400);
    refused(
        "an object that no record refers to",
        &|wrong| {
            wrong.objects.insert(Hash::of(b"").to_string(), String::new());
        },
        400,
    );
    refused("empty", &|wrong| wrong.text = String::new(), 422);
    // Results of another candidate, and of another task.
    for stranger in [two, other] {
        let mut wrong = outcome(stranger, Verdict::Provisional);
        wrong.token = one.token;
        assert_eq!(status(&fleet.finish(one.job, &wrong).unwrap_err()), 422);
    }
    assert!(!fleet.finish(one.job, &right).unwrap().replayed);
    // A result belongs to one job: the same segment for another job is rejected.
    let mut twice = right.clone();
    twice.token = two.token;
    assert_eq!(status(&fleet.finish(two.job, &twice).unwrap_err()), 422);
    assert_eq!(stand.sql("SELECT count(*) FROM results"), "1");
    // A submission with missing files lists them.
    let mut lacking = submission(3, "never uploaded", 1);
    let error = fleet.submit(&lacking).unwrap_err();
    assert_eq!((status(&error), error.word()), (422, Some("missing_objects")));
    lacking.bundle.files = BTreeMap::from([("task.toml".to_owned(), "zz".to_owned())]);
    assert_eq!(status(&fleet.submit(&lacking).unwrap_err()), 400);
}

#[test]
fn too_many_requests_are_told_so() {
    let (stand, clock) = Stand::with_clock(|config| config.limits.requests_per_second = 5);
    let raw = Raw::of(&stand);
    let bearer = format!("Bearer {}", stand.token);
    let answers = |count: usize| -> Vec<u16> {
        let ask = || raw.send("GET", "/v1/queue", &[("authorization", &bearer)], b"").0;
        (0..count).map(|_| ask()).collect()
    };
    // Bursts of twice the limit are allowed.
    assert_eq!(answers(12), [[200; 10].as_slice(), &[429; 2]].concat());
    clock.advance(Duration::from_secs(1));
    assert_eq!(answers(7), [[200; 5].as_slice(), &[429; 2]].concat());
    // The health check still responds.
    assert_eq!(raw.send("GET", "/healthz", &[], b"").0, 200);
    let (_, metrics) = raw.send("GET", "/metrics", &[], b"");
    assert!(metrics.contains("warpproof_requests_total{class=\"4xx\"}"), "{metrics}");
}
