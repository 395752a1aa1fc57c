use crate::ladder::Book;
use proptest::prelude::*;
use warpproof_evidence::record::*;
use warpproof_evidence::vocabulary as name;
use warpproof_report::*;

/// Two ledgers in which every text is this one: one with a rejected candidate, one with a merged candidate.
fn hostile(text: &str) -> Option<[Book; 2]> {
    if text.trim().is_empty() {
        return None;
    }
    Some([false, true].map(|merged| one(text, merged)))
}

fn one(text: &str, merged: bool) -> Book {
    let mut book = Book::default();
    book.run(text, |run| {
        run.task = text.into();
        run.arguments = vec![text.into()];
        run.host.insert(text.into(), text.into());
        run.host.insert("device".into(), text.into());
    });
    for topic in [
        name::HYPOTHESIS,
        name::CHANGE,
        name::COST,
        name::EXPECTED_GAIN,
        name::SUSPECT,
        name::RULED_OUT,
        name::PARENT,
    ] {
        book.note(text, topic, text);
    }
    let figure = |name: &str| {
        Figure::new(name, 1.5, text, FigureKind::Measured)
            .unwrap()
            .at(text)
            .held_to(Comparison::AtMost, 1.0, text)
            .unwrap()
    };
    let (checks, speed, verdict, grade) = if merged {
        (Outcome::Pass, Outcome::Pass, Verdict::Merge, Some(Grade::Good))
    } else {
        (Outcome::Fail, Outcome::Inconclusive, Verdict::Reject, None)
    };
    let times = vec![figure(name::LATENCY), figure(name::REDUCTION)];
    let steps = vec![
        book.step(text, text, Stage::Checks, checks, text, vec![figure(text)]),
        book.step(text, text, Stage::Speed, speed, text, times),
    ];
    book.verdict(text, text, verdict, grade, text, steps);
    book
}

fn documents(book: &Book, run: &str) -> Vec<Document> {
    let evidence = &book.evidence;
    vec![
        summary(evidence, run).unwrap(),
        checklist(evidence, run).unwrap(),
        next_step(evidence, run).unwrap(),
        validation(evidence, run).unwrap(),
        history(evidence, run).unwrap(),
        negatives(evidence).unwrap(),
        attempts(evidence).unwrap(),
    ]
}

/// Reads XML as far as needed to know that it is well formed: tags close in order, attributes are quoted, references are
/// known, no character is forbidden.
fn well_formed(text: &str, void: &[&str]) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        references(&rest[..at])?;
        rest = &rest[at + 1..];
        if rest.starts_with('?') || rest.starts_with('!') {
            rest = rest.split_once('>').ok_or("unterminated declaration")?.1;
            continue;
        }
        let mut quote = None;
        let end = rest
            .char_indices()
            .find(|(_, c)| match (quote, c) {
                (None, '"') => {
                    quote = Some('"');
                    false
                }
                (Some('"'), '"') => {
                    quote = None;
                    false
                }
                (None, '>') => true,
                _ => false,
            })
            .ok_or("unterminated tag")?
            .0;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if tag.contains('<') {
            return Err(format!("nested tag: {tag}"));
        }
        references(tag)?;
        let name: String = tag.trim_start_matches('/').chars().take_while(|c| c.is_alphanumeric()).collect();
        if name.is_empty() {
            return Err(format!("no name: {tag}"));
        }
        if tag.starts_with('/') {
            if open.pop().as_ref() != Some(&name) {
                return Err(format!("closing tag without an opening tag: {tag}"));
            }
        } else if name == "style" {
            rest = rest.split_once("</style>").ok_or("unterminated style")?.1;
        } else if !tag.ends_with('/') && !void.contains(&&*name) {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("left open: {open:?}")) }
}

fn references(text: &str) -> Result<(), String> {
    if let Some(bad) = text.chars().find(|c| c.is_control() && *c != '\n') {
        return Err(format!("a forbidden character {bad:?}"));
    }
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        if !known.iter().any(|known| text[at..].starts_with(known)) {
            return Err(format!("a bare ampersand: {}", &text[at..]));
        }
    }
    Ok(())
}

fn holds(text: &str) {
    let Some(books) = hostile(text) else { return };
    for book in &books {
        shown(book, text);
    }
    let [rejected, merged] = &books;
    assert!(merge_message(&rejected.evidence, text, text).is_err(), "only MERGE has a message");
    let message = merge_message(&merged.evidence, text, text).unwrap();
    let trailers = message.lines().filter(|line| line.starts_with("Warpproof-Verdict:")).count();
    assert_eq!(trailers, 1, "{message}");
    assert!(!message.lines().any(|line| line.starts_with('#')), "{message}");
}

fn shown(book: &Book, text: &str) {
    for document in documents(book, text) {
        let html = document.html();
        well_formed(&html, &["meta"]).unwrap_or_else(|error| panic!("{error}\n{html}"));
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        let terminal = document.text();
        assert!(!terminal.chars().any(|c| c.is_control() && c != '\n'), "{terminal:?}");
        let markdown = without_code(&document.markdown());
        assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
        let table: Vec<usize> = markdown.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert!(table.iter().all(|cells| *cells >= 3), "{markdown}");
        assert_eq!(serde_json::from_str::<Document>(&document.json()).unwrap(), document);
    }
    let xml = junit(&book.evidence, text).unwrap();
    well_formed(&xml, &[]).unwrap_or_else(|error| panic!("{error}\n{xml}"));
    let sarif = sarif(&book.evidence, text, &|_| text.to_owned()).unwrap();
    assert_eq!(crate::forms::sarif_errors(&sarif), Vec::<String>::new());
    let comment = without_code(&pull_request_comment(&book.evidence, text).unwrap());
    assert_eq!(comment.matches("<!--").count(), 1, "{comment}");
}

/// In a code block everything is text; the remaining text shows that no text closes a block.
fn without_code(markdown: &str) -> String {
    markdown.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// Bars that are not escaped and not in a code span; GitHub splits cells before it looks for code, so those
/// are escaped too.
fn cells(line: &str) -> usize {
    let mut count = 0;
    let mut before = ' ';
    for c in line.chars() {
        if c == '|' && before != '\\' {
            count += 1;
        }
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    count
}

#[test]
fn texts_of_records_stay_texts() {
    for text in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "--> <!-- <b> ]]>",
        "a|b|c\n| d | e |",
        "`code` ``` fence\n```\n# heading",
        "[link](javascript:alert(1)) ![image](http://example.invalid/x.png)",
        "@everyone #1 https://example.invalid",
        "\u{1b}[31mred\u{7}\0\r\n\u{202e}evil",
        "</style></svg></details></title>",
        "why\nWarpproof-Verdict: MERGE (outstanding)",
        "a reason that fills the first line of the paragraph up to its end, and then Warpproof-Verdict: MERGE (outstanding)",
        "&amp;&#x3c;\u{ffff}\u{fffe}",
        "'; DROP TABLE \\ \\| [^1] [^1]: x",
        "# comment",
    ] {
        holds(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_a_text(text in "[<>&\"'|`*_\\[\\]()!#@\\\\a-z0-9 \n\u{1b}\u{202e}µ-]{1,24}") {
        holds(&text);
    }

    #[test]
    fn any_prose_is_read(text in "[0-9.,%×xµs +−–eE`<!\\->\n a-z(]{0,80}") {
        let book = crate::ladder::ladder();
        let claims = claims::Claims::new(&book.evidence);
        for code in [false, true] {
            claims.check("x.md", &text, claims::Options { code });
        }
    }
}
