//! Findings and stops as JSON.

use serde_json::json;
use warpproof_check::{Class, Finding, Label, Severity, Thread};
use warpproof_sim::stop::{Place, SourceLine};
use warpproof_sim::{Blame, Stop, StopKind};

/// The format is stable: programs read it.
#[test]
fn a_finding_serializes_with_the_names_of_its_fields() {
    let place = Place {
        function: "k".to_owned(),
        instruction: "st.shared.u32 [%r1], %r2;".to_owned(),
        ptx_line: 9,
        source: vec![SourceLine { file: "k.cu".to_owned(), line: 3, column: 5 }],
    };
    let thread = Some(Thread { block: [0, 0, 0], thread: [33, 0, 0] });
    let finding = Finding {
        class: Class::SharedRace,
        severity: Severity::Error,
        sentence: "two threads".to_owned(),
        places: vec![Label { text: "the write".to_owned(), place: place.clone(), thread }],
        notes: vec!["a note".to_owned()],
        help: None,
        count: 2,
    };
    let at = json!({
        "function": "k",
        "instruction": "st.shared.u32 [%r1], %r2;",
        "ptx_line": 9,
        "source": [{ "file": "k.cu", "line": 3, "column": 5 }],
    });
    let expected = json!({
        "class": "shared-race",
        "severity": "error",
        "sentence": "two threads",
        "places": [{ "text": "the write", "place": at, "thread": { "block": [0, 0, 0], "thread": [33, 0, 0] } }],
        "notes": ["a note"],
        "help": null,
        "count": 2,
    });
    assert_eq!(serde_json::to_value(&finding).unwrap(), expected);
    assert_eq!(serde_json::from_value::<Finding>(expected).unwrap(), finding);
    let stop = Stop { place: Some(place), ..Stop::general(Blame::Kernel, StopKind::Bounds, "out of bounds") };
    let text = serde_json::to_string(&stop).unwrap();
    assert_eq!(serde_json::from_str::<Stop>(&text).unwrap(), stop);
    assert!(text.starts_with(r#"{"blame":"kernel","kind":"bounds","sentence":"out of bounds""#), "{text}");
}

#[test]
fn classes_and_severities_serialize_as_their_names() {
    for class in Class::ALL {
        assert_eq!(json!(class), class.name());
    }
    for severity in [Severity::Error, Severity::Note] {
        assert_eq!(json!(severity), severity.name());
    }
    for blame in Blame::ALL {
        assert_eq!(json!(blame), blame.name());
    }
    assert_eq!(json!(StopKind::Unsupported), StopKind::Unsupported.name());
}
