//! The interface of a device: buffers of every type, what does not fit, and findings as JSON.

use serde_json::json;
use warpproof_sim::check::{Class, Finding, Label, Severity, Thread};
use warpproof_sim::stop::{Place, SourceLine};
use warpproof_sim::{Bf16, Blame, Device, E4m3, E5m2, Element, F16, HeapError, Stop, StopKind};

#[test]
fn values_that_do_not_fit_are_refused() {
    let mut device = Device::new();
    let buffer = device.upload(&[1u32, 2, 3]).unwrap();
    device.write(&buffer, &[7]).unwrap();
    assert_eq!(device.read(&buffer).unwrap(), [7, 2, 3]);
    let error = device.write(&buffer, &[0; 4]).unwrap_err();
    assert_eq!(error, HeapError::TooLong { given: 4, room: 3 });
    assert_eq!(error.to_string(), "4 values do not fit in a buffer of 3");
    assert_eq!(device.read(&buffer).unwrap(), [7, 2, 3]);
    device.free(buffer).unwrap();
    assert_eq!(device.read(&buffer), Err(HeapError::Freed(buffer.address())));
    let error = device.write(&buffer, &[1]).unwrap_err();
    assert_eq!(error.to_string(), format!("the buffer at {:#x} was freed", buffer.address()));
    let other = Device::new();
    assert_eq!(other.read(&buffer), Err(HeapError::NotAllocated(buffer.address())));
    let empty = device.upload::<u8>(&[]).unwrap();
    assert!(device.read(&empty).unwrap().is_empty());
}

#[test]
fn narrow_values_reach_memory_with_their_own_size() {
    fn stored<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) -> Vec<u8> {
        let mut device = Device::new();
        let buffer = device.upload(values).unwrap();
        assert_eq!(device.read(&buffer).unwrap(), values);
        device.memory().read(buffer.address(), values.len() * T::BYTES).unwrap().to_vec()
    }
    assert_eq!(stored(&[1.0, -2.0].map(F16::from_f32)), [0x00, 0x3c, 0x00, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(Bf16::from_f32)), [0x80, 0x3f, 0x00, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(E4m3::from_f32)), [0x38, 0xc0]);
    assert_eq!(stored(&[1.0, -2.0].map(E5m2::from_f32)), [0x3c, 0xc0]);
}

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
