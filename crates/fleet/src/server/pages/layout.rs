//! Common parts of all pages: head, navigation, style, and security headers.

use std::fmt::Write;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use warpproof_evidence::record::Verdict;
use warpproof_report::{STYLE, markup, verdict_class};

const SITE: &str = include_str!("site.css");
/// No resources and no scripts are loaded; forms go only to this server; no other page may frame this one.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const PLACES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/runs", "Runs"),
    ("/tasks", "Leaderboards"),
    ("/negatives", "Negatives"),
    ("/workers", "Workers"),
    ("/queue", "Queue"),
];

/// A page.
pub(super) struct Page {
    /// The navigation entry it belongs to.
    place: &'static str,
    title: String,
    body: String,
    /// Seconds after which the browser reloads it.
    refresh: Option<u32>,
    /// Whether a user is signed in.
    signed_in: bool,
}

impl Page {
    pub(super) fn new(place: &'static str, title: impl Into<String>, body: String) -> Self {
        Self { place, title: title.into(), body, refresh: None, signed_in: true }
    }

    /// Sets the reload interval in seconds.
    pub(super) fn refreshed(mut self, seconds: u32) -> Self {
        self.refresh = Some(seconds);
        self
    }

    /// A page for users who are not signed in.
    pub(super) fn signed_out(mut self) -> Self {
        self.signed_in = false;
        self
    }

    fn html(&self) -> String {
        let title = markup(&self.title);
        let mut out = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n",
        );
        if let Some(seconds) = self.refresh {
            let _ = writeln!(out, "<meta http-equiv=\"refresh\" content=\"{seconds}\">");
        }
        let _ = writeln!(
            out,
            "<title>{title} · Warpproof</title>\n<style>\n{STYLE}{SITE}</style>\n</head>\n<body>"
        );
        out.push_str("<nav><a class=\"brand\" href=\"/\">Warpproof</a>");
        if self.signed_in {
            for (path, name) in PLACES {
                let here = if path == self.place { " aria-current=\"page\"" } else { "" };
                let _ = write!(out, "<a href=\"{path}\"{here}>{name}</a>");
            }
            out.push_str("<form method=\"post\" action=\"/sign-out\"><button>Sign out</button></form>");
        }
        let _ = writeln!(
            out,
            "</nav>\n<main>\n<h1 class=\"page\">{title}</h1>\n{}</main>\n</body>\n</html>",
            self.body
        );
        out
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = Html(self.html()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A table whose cells are already markup.
pub(super) struct Table {
    out: String,
    rows: usize,
}

impl Table {
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
        for column in columns {
            let _ = write!(out, "<th>{}</th>", markup(column));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        Self { out, rows: 0 }
    }

    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows += 1;
        self.out.push_str("<tr>");
        for cell in cells {
            let _ = write!(self.out, "<td>{cell}</td>");
        }
        self.out.push_str("</tr>\n");
    }

    /// The table, or a sentence if it has no rows.
    pub(super) fn or(self, nothing: &str) -> String {
        if self.rows == 0 {
            return format!("<p class=\"nothing\">{}</p>\n", markup(nothing));
        }
        self.out + "</tbody></table></div>\n"
    }
}

/// A number with thousands separators.
pub(super) fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut out = String::from(if value < 0 { "−" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// All verdicts.
const VERDICTS: [Verdict; 5] =
    [Verdict::Merge, Verdict::Provisional, Verdict::Defer, Verdict::Inconclusive, Verdict::Reject];

/// The CSS class of a verdict or of a job's state; verdicts match the gate's reports.
pub(super) fn tone(word: &str) -> &'static str {
    if let Some(verdict) = VERDICTS.into_iter().find(|verdict| verdict.as_str() == word) {
        return verdict_class(verdict);
    }
    if word == "failed" { "bad" } else { "quiet" }
}

/// A verdict or a state as a pill.
pub(super) fn pill(word: &str) -> String {
    format!("<span class=\"pill {}\">{}</span>", tone(word), markup(word))
}

/// A time of the database in a readable form.
pub(super) fn time(text: &str) -> String {
    let plain = text.replace('T', " ");
    format!("<time datetime=\"{}\">{}</time>", markup(text), markup(plain.trim_end_matches('Z')))
}

/// A percent-encoded path segment.
pub(super) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(-1_234_567), "−1,234,567");
    }

    #[test]
    fn what_comes_from_elsewhere_stays_text() {
        let page = Page::new("/", "<script>alert(1)</script>", String::new()).html();
        assert!(!page.contains("<script>"), "{page}");
        assert_eq!(segment("a/b?<c>"), "a%2Fb%3F%3Cc%3E");
        assert!(!pill("<b>").contains("<b>"));
        assert!(!time("\"><b>").contains("<b>"));
    }
}
