//! Any text parses without a panic, and every error points into the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpproof_ptx::{LineIndex, LineTable, parse};

fuzz_target!(|source: &str| {
    let (module, errors) = parse(source);
    let index = LineIndex::new(source);
    for error in &errors {
        assert!(error.span.start <= error.span.end, "{error:?}");
        assert!(source.get(to_usize(error.span.start)..to_usize(error.span.end)).is_some(), "{error:?}");
        assert!(!error.message.is_empty(), "{error:?}");
        let position = index.position(error.span.start);
        assert!(index.line(position.line).is_some(), "{error:?}");
    }
    let lines = LineTable::new(&module);
    for function in module.functions() {
        for statement in function.body.iter().flatten() {
            let _ = lines.location(statement.span().start);
        }
    }
});

fn to_usize(offset: u32) -> usize {
    usize::try_from(offset).expect("offsets fit a usize")
}
