//! Printing loses nothing: printed text parses to the same tree and prints identically again.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use warpproof_ptx::{
    Address, Binary, Compound, Directive, Element, Expr, Float, Function, Guard, Instruction, Integer,
    Module, Operand, Radix, Span, Statement, Unary, parse, print,
};

/// Checks the property for a text without errors.
fn check(source: &str, printed: &str) {
    let (first, errors) = parse(source);
    assert_eq!(errors, [], "{source}");
    let (second, errors) = parse(printed);
    assert_eq!(errors, [], "{printed}");
    assert_eq!(print(&second), printed);
    assert_eq!(first.without_spans(), second.without_spans());
}

fn seeds() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn real_modules() {
    let seeds = seeds();
    assert!(seeds.len() >= 5);
    for source in seeds {
        check(&source, &print(&parse(&source).0));
    }
}

fn integer() -> impl Strategy<Value = Integer> {
    let radix =
        prop_oneof![Just(Radix::Binary), Just(Radix::Octal), Just(Radix::Decimal), Just(Radix::Hexadecimal)];
    let magnitude = prop_oneof![0..100u64, any::<u64>()];
    (magnitude, any::<bool>(), any::<bool>(), radix)
        .prop_map(|(magnitude, negative, unsigned, radix)| Integer { magnitude, negative, unsigned, radix })
}

fn float() -> impl Strategy<Value = Float<'static>> {
    prop_oneof![
        any::<u32>().prop_map(Float::Single),
        any::<u64>().prop_map(Float::Double),
        (any::<bool>(), prop_oneof![Just("1.5"), Just("2e-3"), Just("0.0"), Just("1."), Just("7E+9")])
            .prop_map(|(negative, text)| Float::Decimal { negative, text }),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("%r1"),
        Just("%tid.x"),
        Just("$L__BB0_1"),
        Just("a"),
        Just("_foo"),
        Just("%v.y"),
        Just("generic")
    ]
}

fn expr() -> impl Strategy<Value = Expr<'static>> {
    let leaf = prop_oneof![integer().prop_map(Expr::Integer), Just(Expr::Name("WARP_SZ"))];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let unary = prop_oneof![
            Just(Unary::Plus),
            Just(Unary::Minus),
            Just(Unary::Not),
            Just(Unary::Complement),
            Just(Unary::ToSigned),
            Just(Unary::ToUnsigned),
        ];
        let binary = prop_oneof![
            Just(Binary::Multiply),
            Just(Binary::Remainder),
            Just(Binary::Add),
            Just(Binary::Subtract),
            Just(Binary::ShiftLeft),
            Just(Binary::ShiftRight),
            Just(Binary::Less),
            Just(Binary::GreaterEqual),
            Just(Binary::NotEqual),
            Just(Binary::And),
            Just(Binary::Xor),
            Just(Binary::Or),
            Just(Binary::LogicalAnd),
            Just(Binary::LogicalOr),
        ];
        prop_oneof![
            // A minus sign before a plain number is part of the number.
            (unary, inner.clone()).prop_map(|(operator, operand)| match (operator, operand) {
                (Unary::Minus, Expr::Integer(integer)) =>
                    Expr::Integer(Integer { negative: true, ..integer }),
                (operator, operand) => Expr::Unary(operator, Box::new(operand)),
            }),
            (binary, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Expr::Binary(o, Box::new((a, b)))),
            (inner.clone(), inner.clone(), inner).prop_map(|parts| Expr::Conditional(Box::new(parts))),
        ]
    })
}

fn address() -> impl Strategy<Value = Address<'static>> {
    (name(), prop_oneof![Just(0), any::<i64>()], any::<bool>()).prop_map(|(base, offset, zero)| Address {
        base: Some(base),
        offset,
        plus_zero: zero && offset == 0,
    })
}

fn operand() -> impl Strategy<Value = Operand<'static>> {
    let leaf = prop_oneof![
        name().prop_map(Operand::Name),
        Just(Operand::Sink),
        integer().prop_map(Operand::Integer),
        float().prop_map(Operand::Float),
        expr().prop_filter_map("a plain number is not a compound expression", |expr| match expr {
            Expr::Integer(_) | Expr::Name(_) | Expr::Float(_) => None,
            other => Some(Operand::Constant(Box::new(other))),
        }),
        name().prop_map(Operand::Negated),
        name().prop_map(Operand::Not),
        address().prop_map(Operand::Address),
        address().prop_map(|a| Operand::Offset(Address { plus_zero: a.offset == 0, ..a })),
        any::<i64>().prop_map(|offset| Operand::Address(Address::new(None, offset))),
        any::<i64>().prop_map(|index| Operand::Element(Element { name: "table", index })),
        (name(), name()).prop_map(|(a, b)| Operand::Pair(Box::new((Operand::Name(a), Operand::Name(b))))),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let list = prop::collection::vec(inner, 1..4);
        prop_oneof![
            list.clone().prop_map(Operand::Vector),
            (address(), list).prop_map(|(address, rest)| Operand::Compound(Box::new(Compound {
                address,
                rest,
                suffix: None
            }))),
            address().prop_map(|address| Operand::Compound(Box::new(Compound {
                address,
                rest: Vec::new(),
                suffix: Some("unified"),
            }))),
        ]
    })
}

fn instruction() -> impl Strategy<Value = Instruction<'static>> {
    let guard =
        prop::option::of((any::<bool>(), name()).prop_map(|(negated, register)| Guard { negated, register }));
    let modifier = prop_oneof![Just("f32"), Just("shared::cta"), Just("1d"), Just("loc"), Just("weak")];
    let operands = prop::collection::vec(operand(), 0..5);
    (guard, prop::collection::vec(modifier, 0..6), operands).prop_map(|(guard, modifiers, operands)| {
        Instruction {
            guard,
            opcode: "op",
            modifiers: modifiers.into(),
            operands: operands.into(),
            span: Span::default(),
        }
    })
}

/// `|` after a predefined constant is an operator, not the separator between two results.
#[test]
fn a_constant_is_no_pair_of_results() {
    let text = ".version 8.7\n.target sm_89\n.func f()\n{\nmov.u32 %r1, WARP_SZ | 4;\n}\n";
    let (module, errors) = warpproof_ptx::parse(text);
    assert_eq!(errors, []);
    let printed = print(&module);
    assert!(printed.contains("WARP_SZ | 4"), "{printed}");
    same(&module.without_spans(), &printed);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_of_instructions(instructions in prop::collection::vec(instruction(), 1..6)) {
        let function = Function {
            linkage: None,
            entry: true,
            attributes: Vec::new(),
            returns: Vec::new(),
            name: "k",
            params: Vec::new(),
            directives: Vec::new(),
            body: Some(instructions.into_iter().map(Statement::Instruction).collect()),
            name_span: Span::default(),
            span: Span::default(),
        };
        let module = Module { directives: vec![Directive::Function(Box::new(function))] };
        same(&module, &print(&module));
    }

    /// Tokens of real modules are removed, duplicated and swapped: the parser does not panic, and the property holds
    /// wherever there is no error.
    #[test]
    fn shuffled_real_modules(seed in any::<prop::sample::Index>(), edits in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..8)) {
        let seeds = seeds();
        let source = seed.get(&seeds);
        let mut pieces: Vec<&str> = source.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).collect();
        for (at, other, kind) in &edits {
            let (at, other) = (at.index(pieces.len()), other.index(pieces.len()));
            match kind {
                0 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[other]),
                _ => pieces.swap(at, other),
            }
        }
        let text = pieces.concat();
        let (module, errors) = parse(&text);
        if errors.is_empty() {
            check(&text, &print(&module));
        }
    }

    #[test]
    fn any_text_parses_to_something(text in "\\PC*") {
        let (module, _) = parse(&text);
        print(&module);
    }
}

/// Compares a module that was built without source with the module that its text parses to.
fn same(module: &Module<'_>, printed: &str) {
    let (parsed, errors) = parse(printed);
    assert_eq!(errors, [], "{printed}");
    assert_eq!(format!("{:?}", parsed.without_spans()), format!("{module:?}"), "{printed}");
}
