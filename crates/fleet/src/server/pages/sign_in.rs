//! A user enters a token once; the browser keeps it in a cookie that scripts cannot read and that other sites send only with a
//! followed link. The cookie allows reading only.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use warpproof_report::markup;

use super::layout::Page;
use crate::server::Shared;
use crate::server::body::Short;
use crate::server::refused::Refused;

const COOKIE: &str = "warpproof_token";
/// A week, in seconds.
const KEPT: u32 = 604_800;

/// The token in the browser's cookie.
pub(in crate::server) fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Whether a redirect target is on this server: a path, without anything that a browser interprets as another host.
pub(super) fn is_local(place: &str) -> bool {
    place.len() <= 512
        && place.starts_with('/')
        && !place.starts_with("//")
        && place.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn page(wrong: bool, next: &str) -> Page {
    let word = if wrong {
        "<p class=\"wrong\">This token is unknown, was revoked, or lacks the role `read`.</p>\n"
    } else {
        ""
    };
    let body = format!(
        "{word}<form class=\"sign-in\" method=\"post\" action=\"/sign-in\">\n<label for=\"token\">A token with \
         the role <code>read</code>, created by <code>warpproof-fleet serve</code> or an administrator</label>\n\
         <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" placeholder=\"wpf_…\" required autofocus>\n\
         <input type=\"hidden\" name=\"next\" value=\"{}\">\n<button>Sign in</button>\n</form>\n",
        markup(next)
    );
    Page::new("", "Sign in", body).signed_out()
}

/// The page to return to after signing in.
#[derive(Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    next: String,
}

pub(super) async fn form(Query(wanted): Query<Wanted>) -> Page {
    page(false, if is_local(&wanted.next) { &wanted.next } else { "/" })
}

#[derive(Deserialize)]
struct Given {
    token: String,
    #[serde(default)]
    next: String,
}

pub(super) async fn sign_in(State(shared): State<Shared>, text: Result<Short, Refused>) -> Response {
    let text = match text {
        Ok(Short(text)) => text,
        Err(refused) => return super::refusal(refused),
    };
    // A form body has the syntax of a query string.
    let given = format!("/?{text}").parse::<Uri>().ok();
    let Some(Query(given)) = given.and_then(|uri| Query::<Given>::try_from_uri(&uri).ok()) else {
        return super::refusal(Refused::wrong("expected a sign-in form"));
    };
    let token = given.token.trim();
    let next = if is_local(&given.next) { &*given.next } else { "/" };
    match crate::server::access::may_read(&shared, token).await {
        Ok(true) => {
            // Only a valid token is written into a header: it contains only hexadecimal digits.
            let secure = if shared.tls { "; Secure" } else { "" };
            let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={KEPT}{secure}");
            with_cookie(&cookie, next)
        }
        Ok(false) => (StatusCode::UNAUTHORIZED, page(true, next)).into_response(),
        Err(refused) => super::refusal(refused),
    }
}

pub(super) async fn sign_out() -> Response {
    with_cookie(&format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"), "/")
}

fn with_cookie(cookie: &str, next: &str) -> Response {
    let mut response = Redirect::to(next).into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_another_server_is_none() {
        for place in ["/", "/runs/1?a=b", "/tasks/a%2Fb"] {
            assert!(is_local(place), "{place}");
        }
        for place in
            ["", "runs", "//x.org", "/\\x.org", "https://x.org", "/a b", "/a\r\nb", "/ä", &"/".repeat(600)]
        {
            assert!(!is_local(place), "{place:?}");
        }
    }

    #[test]
    fn the_token_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; warpproof_token=wpf_1; c"));
        assert_eq!(token(&headers), Some("wpf_1"));
        headers.insert(header::COOKIE, HeaderValue::from_static("not_warpproof_token=wpf_1"));
        assert_eq!(token(&headers), None);
    }
}
