//! Some directives of a module can be parsed without the others.

use warpproof_ptx::{Directive, LineTable, Span, Statement, parse, parse_parts};

const MODULE: &str = r#".version 8.7
.target sm_89
.address_size 64
.file 1 "a.cu"
.func help() { ret; }
.visible .entry one(.param .u64 p)
{
    .loc 1 3 5
    exit;
}
.visible .entry two() { trap; }
.section .debug_str { .b8 1 }
"#;

fn spans(wanted: impl Fn(&Directive<'_>) -> Option<Span>) -> Vec<Span> {
    let (module, errors) = parse(MODULE);
    assert!(errors.is_empty());
    module.directives.iter().filter_map(wanted).collect()
}

#[test]
fn a_part_is_the_same_as_in_the_whole() {
    let whole = parse(MODULE).0;
    let parts = spans(|directive| match directive {
        Directive::Function(function) => (function.name != "two").then_some(function.span),
        Directive::File(file) => Some(file.span),
        _ => None,
    });
    let (some, errors) = parse_parts(MODULE, &parts);
    assert!(errors.is_empty());
    assert_eq!(some.directives.len(), 3);
    assert!(some.directives.iter().all(|directive| whole.directives.contains(directive)));
    let lines = LineTable::new(&some);
    let body = some.functions().last().unwrap().body.as_ref().unwrap();
    let Some(Statement::Instruction(exit)) = body.last() else { panic!("{body:?}") };
    assert_eq!(lines.location(exit.span.start).unwrap().line, 3);
}

#[test]
fn a_span_of_something_else_is_an_error() {
    for start in [3, 40, 10_000] {
        let (module, errors) = parse_parts(MODULE, &[Span { start, end: start + 1 }]);
        assert!(module.directives.is_empty() && !errors.is_empty(), "{start}");
    }
}
