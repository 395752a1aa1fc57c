//! A browser shows its token once, and keeps it in a cookie that no script reads and no other site sends.

use axum::Form;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::layout::Page;
use crate::server::Shared;

const COOKIE: &str = "warpproof_token";
/// A week, in seconds.
const KEPT: u32 = 604_800;

/// The token of a browser.
pub(in crate::server) fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

fn page(wrong: bool) -> Page {
    let word = if wrong { "<p class=\"wrong\">This token is not known, or was revoked.</p>\n" } else { "" };
    let body = format!(
        "{word}<form class=\"sign-in\" method=\"post\" action=\"/sign-in\">\n<label for=\"token\">A token that may read, as \
         <code>warpproof serve</code> or an administrator made it</label>\n<input id=\"token\" name=\"token\" \
         type=\"password\" autocomplete=\"current-password\" placeholder=\"wpf_…\" required autofocus>\n\
         <button>Sign in</button>\n</form>\n"
    );
    Page::new("", "Sign in", body).signed_out()
}

pub(super) async fn form() -> Page {
    page(false)
}

#[derive(Deserialize)]
pub(super) struct Given {
    token: String,
}

pub(super) async fn sign_in(State(shared): State<Shared>, Form(given): Form<Given>) -> Response {
    let token = given.token.trim();
    match crate::server::access::known(&shared, token).await {
        Ok(true) => {
            // Only what was found is written into a header: it has hexadecimal digits and nothing else.
            let secure = if shared.tls { "; Secure" } else { "" };
            let cookie =
                format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={KEPT}{secure}");
            with_cookie(&cookie)
        }
        Ok(false) => (StatusCode::UNAUTHORIZED, page(true)).into_response(),
        Err(refused) => super::refusal(refused),
    }
}

pub(super) async fn sign_out() -> Response {
    with_cookie(&format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = Redirect::to("/").into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; warpproof_token=wpf_1; c"));
        assert_eq!(token(&headers), Some("wpf_1"));
        headers.insert(header::COOKIE, HeaderValue::from_static("not_warpproof_token=wpf_1"));
        assert_eq!(token(&headers), None);
    }
}
