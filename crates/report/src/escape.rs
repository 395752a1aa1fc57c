//! Escapes texts of records, which are not trusted, for each output format.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls a terminal or changes the direction of text, so that the displayed text differs from
/// the content.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line, with control characters shown as their codes. Every format starts from this.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            '\r' => {}
            c if steers(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Several lines, each of them [`plain`].
pub(super) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        out.push_str(&plain(line));
        out.push('\n');
    }
    out
}

/// Escapes text between tags and in attributes of HTML and XML. Characters that XML cannot hold are replaced.
pub fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes text in a paragraph or a table of Markdown: no emphasis, no link, no mention, no HTML, no second cell. The
/// sign of mentions of users and threads (`@name`, `#1`), which services turn into links, is written as an entity.
pub(super) fn markdown(text: &str) -> String {
    let text = plain(text);
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = before.is_some_and(char::is_alphanumeric)
            && rest.peek().copied().is_some_and(char::is_alphanumeric);
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' | '#' | ':' if c != ':' || rest.peek() == Some(&'/') => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '_' if inside => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '!' if rest.peek() == Some(&'[') => out.push_str("\\!"),
            // A list, a heading or a rule starts only at the beginning of a line.
            '-' | '+' | '=' if before.is_none() => {
                out.push('\\');
                out.push(c);
            }
            '.' | ')' if only_digits(&out) && rest.peek().is_none_or(|c| *c == ' ') => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

fn only_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name in Markdown: a code span if it has only ordinary characters, else escaped text.
pub(super) fn code(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || " -_.,:=/+()".contains(c);
    if text.chars().all(plain) && text.trim() == text && !text.is_empty() {
        format!("`{text}`")
    } else {
        markdown(text)
    }
}

/// The longest run of a character.
pub(super) fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text() {
        assert_eq!(
            markup("<script>alert('x')&\"\0\u{202e}"),
            "&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;\\u{0}\\u{202e}"
        );
        assert_eq!(markdown("a|b\n# c"), "a\\|b &#35; c");
        assert_eq!(markdown("![x](javascript:1) <img>"), "\\!\\[x\\](javascript:1) &lt;img&gt;");
        assert_eq!(markdown("@team http://x snake_case _em_"), "&#64;team http&#58;//x snake_case \\_em\\_");
        assert_eq!(markdown("- x"), "\\- x");
        assert_eq!(markdown("1. x"), "1\\. x");
        assert_eq!(markdown("1.5 x"), "1.5 x");
        assert_eq!(code("a`b"), "a\\`b");
        assert_eq!(code("n2-mma"), "`n2-mma`");
        assert_eq!(plain("a\u{1b}[31mred\r\n"), "a\\u{1b}[31mred ");
    }
}
