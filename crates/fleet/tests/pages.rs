//! The dashboard's pages: their content, input handling and access rules.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand;

use stand::{Stand, claim, outcome, run_name, submission, submit};
use ureq::Agent;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::record::Verdict;
use warpproof_fleet::server::Server;
use warpproof_fleet::wire::Role;

/// A response: its status, redirect target, cookie and text.
struct Answer {
    status: u16,
    place: String,
    cookie: String,
    text: String,
}

fn ask(stand: &Stand, method: &str, path: &str, cookie: &str, body: &str) -> Answer {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let agent = config.max_idle_connections(0).build().new_agent();
    let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", stand.base()));
    let request =
        request.header("cookie", cookie).header("content-type", "application/x-www-form-urlencoded");
    let mut answer = agent.run(request.body(body.as_bytes()).unwrap()).unwrap();
    let header = |name: &str| {
        let value = answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    };
    let (place, cookie) = (header("location"), header("set-cookie"));
    let text = answer.body_mut().read_to_string().unwrap();
    Answer { status: answer.status().as_u16(), place, cookie, text }
}

fn page(stand: &Stand, path: &str) -> Answer {
    ask(stand, "GET", path, &format!("warpproof_token={}", stand.token), "")
}

#[test]
fn a_result_is_shown_and_names_stay_text() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    let nasty = "<script>alert(1)</script>";
    fleet.put_object(&Hash::of(b"task"), b"task").unwrap();
    let mut wish = submission(1, "task", 0);
    wish.candidates = vec!["plain".to_owned(), nasty.to_owned()];
    let run = fleet.submit(&wish).unwrap();
    for job in fleet.claim(&claim("<script>w</script>", 9, 600)).unwrap().jobs {
        fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    }
    let shown = page(&stand, &format!("/runs/{}", run_name(1)));
    assert_eq!(shown.status, 200);
    assert!(shown.text.contains("PROVISIONAL") && shown.text.contains(">plain<"), "{}", shown.text);
    let of_job = page(&stand, &format!("/jobs/{}", run.jobs[0].job));
    assert_eq!(of_job.status, 200, "{}", of_job.text);
    assert!(of_job.text.contains("said so") && of_job.text.contains("/v1/segments/"), "{}", of_job.text);
    let paths = ["/", "/runs", "/tasks", "/negatives", "/workers", "/queue"].map(ToOwned::to_owned);
    let more = run.jobs.iter().map(|job| format!("/jobs/{}", job.job));
    for path in paths.into_iter().chain(more).chain([format!("/runs/{}", run_name(1))]) {
        let page = page(&stand, &path);
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(
            page.text.starts_with("<!DOCTYPE html>") && !page.text.contains("<script"),
            "{path}: {}",
            page.text
        );
    }
    assert!(page(&stand, "/").text.contains("<b>2</b><span>results in the last 24 hours"));
}

#[test]
fn a_standing_is_on_the_board_of_its_task_file() {
    let stand = Stand::new();
    let fleet = stand.fleet();
    submit(&fleet, 1, "task", 1);
    let job = fleet.claim(&claim("w", 9, 600)).unwrap().jobs.remove(0);
    fleet.finish(job.job, &outcome(&job, Verdict::Provisional)).unwrap();
    // Two task files with the same name, and one candidate that was evaluated twice.
    for file in ["ab", "cd"] {
        stand.sql(&format!(
            "INSERT INTO boards (task, task_version, task_hash, shape, kind, device)
             VALUES ('t', 1, decode(repeat('{file}', 32), 'hex'), 's', 'predicted', 'l4');
             INSERT INTO standings (task, task_version, task_hash, shape, kind, device, latency, unit, candidate, bundle,
                                    verdict, record, job)
             SELECT 't', 1, decode(repeat('{file}', 32), 'hex'), 's', 'predicted', 'l4', n, 'us', 'of-{file}', bundle,
                    'PROVISIONAL', decode(repeat('00', 32), 'hex'), job FROM jobs, generate_series(7, 8) AS n"
        ));
    }
    let file = "cd".repeat(32);
    let board = page(&stand, &format!("/tasks/t?file={file}"));
    assert_eq!(board.status, 200, "{}", board.text);
    assert!(board.text.contains("(cdcdcdcd)") && board.text.contains("(abababab)"), "{}", board.text);
    assert!(!board.text.contains(">of-ab<"), "{}", board.text);
    assert_eq!(board.text.matches(">of-cd<").count(), 1, "{}", board.text);
    assert!(board.text.contains("7.000 us") && !board.text.contains("8.000 us"), "{}", board.text);
}

#[test]
fn what_the_database_has_no_characters_for_is_the_askers() {
    let stand = Stand::new();
    for path in ["/runs/%00", "/tasks/%00", "/tasks/t?shape=%00", "/jobs/x", "/runs?before=x", "/runs/%ff"] {
        let answer = page(&stand, path);
        assert!((400..500).contains(&answer.status), "{path}: {} {}", answer.status, answer.text);
    }
}

#[test]
fn signing_in_sets_a_cookie_for_who_may_read() {
    let stand = Stand::new();
    let wanted = ask(&stand, "GET", "/runs?before=9", "", "");
    assert_eq!((wanted.status, &*wanted.place), (303, "/sign-in?next=%2Fruns%3Fbefore%3D9"));
    let form = ask(&stand, "GET", &wanted.place, "", "");
    assert!(form.text.contains("value=\"/runs?before=9\""), "{}", form.text);
    let token = stand.token_for(&[Role::Read], 1);
    let signed = ask(&stand, "POST", "/sign-in", "", &format!("token={token}&next=%2Fruns%3Fbefore%3D9"));
    assert_eq!((signed.status, &*signed.place), (303, "/runs?before=9"));
    assert!(signed.cookie.starts_with(&format!("warpproof_token={token};")), "{}", signed.cookie);
    assert!(
        signed.cookie.contains("HttpOnly") && signed.cookie.contains("SameSite=Lax"),
        "{}",
        signed.cookie
    );
    let cookie = signed.cookie.split(';').next().unwrap().to_owned();
    assert_eq!(ask(&stand, "GET", "/runs", &cookie, "").status, 200);
    // Redirects only to this server.
    for next in ["https%3A%2F%2Fx.org", "%2F%2Fx.org", "%2F%5Cx.org", ""] {
        let signed = ask(&stand, "POST", "/sign-in", "", &format!("token={token}&next={next}"));
        assert_eq!((signed.status, &*signed.place), (303, "/"), "{next}");
    }
    let worker = stand.token_for(&[Role::Work], 1);
    for token in ["", "x", &worker, &format!("wpf_{}", "0".repeat(64)), "a%0d%0aset-cookie%3a+b"] {
        let refused = ask(&stand, "POST", "/sign-in", "", &format!("token={token}"));
        assert_eq!((refused.status, &*refused.cookie), (401, ""), "{token}");
    }
    assert_eq!(ask(&stand, "POST", "/sign-in", "", "nothing").status, 400);
    assert_eq!(ask(&stand, "POST", "/sign-in", "", &"a".repeat(2_000)).status, 413);
    let out = ask(&stand, "POST", "/sign-out", &cookie, "");
    assert!(
        out.cookie.starts_with("warpproof_token=;") && out.cookie.contains("Max-Age=0"),
        "{}",
        out.cookie
    );
}

#[test]
fn behind_tls_a_cookie_is_for_tls() {
    let mut stand = Stand::new();
    let signed = |stand: &Stand| ask(stand, "POST", "/sign-in", "", &format!("token={}", stand.token)).cookie;
    assert!(signed(&stand).starts_with("warpproof_token=") && !signed(&stand).contains("Secure"));
    stand.config.behind_tls = true;
    stand.server = Some(Server::start(&stand.config).unwrap());
    assert!(signed(&stand).ends_with("; Secure"), "{}", signed(&stand));
}
