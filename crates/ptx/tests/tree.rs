//! How the tree represents each construct.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use warpproof_ptx::{
    Address, Directive, Float, Initializer, Instruction, LineTable, Linkage, Module, Operand, Radix, Space,
    Statement, component, parse,
};

fn clean(source: &str) -> Module<'_> {
    let (module, errors) = parse(source);
    assert_eq!(errors, [], "{source}");
    module
}

fn in_body<T>(text: &str, look: impl FnOnce(&Instruction<'_>) -> T) -> T {
    let source = format!(".func f() {{ {text} }}");
    let module = clean(&source);
    let function = module.functions().next().unwrap();
    match &function.body.as_ref().unwrap()[..] {
        [Statement::Instruction(instruction)] => look(instruction),
        other => panic!("{other:?}"),
    }
}

fn operand<T>(text: &str, look: impl FnOnce(&Operand<'_>) -> T) -> T {
    in_body(&format!("op {text};"), |instruction| {
        assert_eq!(instruction.operands.len(), 1, "{text}");
        look(&instruction.operands[0])
    })
}

#[test]
fn modifiers_keep_their_order_and_their_colons() {
    in_body("@!%p1 ld .global\n.L1::evict_last.L2::128B .v2.f32 {%f1, _}, [%rd1+-8];", |instruction| {
        assert_eq!(instruction.opcode, "ld");
        assert_eq!(&instruction.modifiers[..], ["global", "L1::evict_last", "L2::128B", "v2", "f32"]);
        let guard = instruction.guard.unwrap();
        assert!(guard.negated);
        assert_eq!(guard.register, "%p1");
        assert_eq!(instruction.operands[0], Operand::Vector(vec![Operand::Name("%f1"), Operand::Sink]));
        assert_eq!(instruction.operands[1], Operand::Address(Address::new(Some("%rd1"), -8)));
    });
}

#[test]
fn results_of_a_texture_fetch_may_have_a_predicate() {
    in_body("tex.2d.v4.f32.f32 {%f1, _}|%p1, [%rd1, {%f2, %f3}];", |instruction| {
        let results = Operand::Vector(vec![Operand::Name("%f1"), Operand::Sink]);
        let pair = Operand::Pair(Box::new((results, Operand::Name("%p1"))));
        assert_eq!(instruction.operands[0], pair);
        assert_eq!(pair.to_string(), "{%f1, _}|%p1");
        assert!(matches!(instruction.operands[1], Operand::Compound(_)));
    });
}

#[test]
fn integers_keep_value_and_radix() {
    for (text, bits, radix) in [
        ("0", 0, Radix::Decimal),
        ("-1", u64::MAX, Radix::Decimal),
        ("0x1F", 31, Radix::Hexadecimal),
        ("-0x10", 16u64.wrapping_neg(), Radix::Hexadecimal),
        ("017", 15, Radix::Octal),
        ("0b101", 5, Radix::Binary),
        ("18446744073709551615U", u64::MAX, Radix::Decimal),
    ] {
        operand(text, |operand| match operand {
            Operand::Integer(integer) => {
                assert_eq!((integer.bits(), integer.radix), (bits, radix), "{text}");
                assert_eq!(integer.to_string(), text);
            }
            other => panic!("{text}: {other:?}"),
        });
    }
}

#[test]
fn floats_keep_their_bits() {
    operand("0f3F800000", |o| assert_eq!(*o, Operand::Float(Float::Single(0x3F80_0000))));
    operand("-0f3F800000", |o| assert_eq!(*o, Operand::Float(Float::Single(0xBF80_0000))));
    operand("0d3FF0000000000000", |o| {
        assert_eq!(*o, Operand::Float(Float::Double(0x3FF0_0000_0000_0000)));
    });
    operand("-1.5e-3", |o| match o {
        Operand::Float(float) => assert!((float.value() + 0.0015).abs() < 1e-12),
        other => panic!("{other:?}"),
    });
}

#[test]
fn constant_expressions_have_the_value_of_c() {
    for (text, value) in [
        ("(1<<4)+2", 18),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2 - -1", 4),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("~0 >> 4", -1),
        ("(.u64)-1 >> 63", 1),
        ("1 < 2 ? 10 : 20", 10),
        ("!5 || 3 && 4", 1),
        ("6 & 3 ^ 5 | 8", 15),
        ("WARP_SZ * 4", 128),
        ("-WARP_SZ + 1", -31),
        ("2 - 3 - 4", -5),
    ] {
        operand(text, |operand| match operand {
            Operand::Constant(expr) => assert_eq!(expr.value().unwrap().bits.cast_signed(), value, "{text}"),
            other => panic!("{text}: {other:?}"),
        });
    }
    operand("1 / (2 - 2)", |operand| match operand {
        Operand::Constant(expr) => assert_eq!(expr.value(), None),
        other => panic!("{other:?}"),
    });
}

#[test]
fn operands_of_every_kind() {
    operand("%tid.x", |o| assert_eq!(*o, Operand::Name("%tid.x")));
    assert_eq!(component("%tid.x"), ("%tid", Some("x")));
    assert_eq!(component("%r1"), ("%r1", None));
    operand("!%p1", |o| assert_eq!(*o, Operand::Not("%p1")));
    operand("-%r1", |o| assert_eq!(*o, Operand::Negated("%r1")));
    operand("sym+4", |o| assert!(matches!(o, Operand::Offset(a) if a.base == Some("sym") && a.offset == 4)));
    operand("sym-4+2", |o| assert!(matches!(o, Operand::Offset(a) if a.offset == -2)));
    operand("arr[3]", |o| assert!(matches!(o, Operand::Element(e) if e.name == "arr" && e.index == 3)));
    operand("[16]", |o| assert_eq!(*o, Operand::Address(Address::new(None, 16))));
    operand("[%SP+0]", |o| assert!(matches!(o, Operand::Address(a) if a.plus_zero && a.offset == 0)));
    operand("p|_", |o| {
        assert_eq!(*o, Operand::Pair(Box::new((Operand::Name("p"), Operand::Sink))));
    });
    operand("[t, s, {a, b}]", |o| match o {
        Operand::Compound(compound) => {
            assert_eq!(compound.address.base, Some("t"));
            assert_eq!(compound.rest.len(), 2);
            assert_eq!(compound.suffix, None);
        }
        other => panic!("{other:?}"),
    });
    operand("[a+4].unified", |o| assert!(matches!(o, Operand::Compound(c) if c.suffix == Some("unified"))));
    in_body("call.uni (r0), f, (a, 4), proto;", |call| {
        assert_eq!(call.operands[0], Operand::List(vec![Operand::Name("r0")]));
        assert!(matches!(&call.operands[2], Operand::List(arguments) if arguments.len() == 2));
        assert_eq!(call.operands[3], Operand::Name("proto"));
    });
}

#[test]
fn variables() {
    let module = clean(
        ".visible .global .attribute(.managed) .align 8 .v2 .f32 a[2][] = {{1.5, 2}, {x+4, generic(y)}}, b;\n\
         .func f(.param .u64 .ptr .shared .align 16 p);\n\
         .global .u8 m = 0xFF00(generic(a)+8);",
    );
    let a = module.variables().next().unwrap();
    assert_eq!(
        (a.linkage, a.space, a.align, a.vector, a.ty),
        (Some(Linkage::Visible), Space::Global, Some(8), Some(2), "f32")
    );
    assert_eq!(a.attributes[0].name, "managed");
    assert_eq!(a.names.len(), 2);
    assert_eq!(&a.names[0].dimensions[..], [Some(2), None]);
    let Some(Initializer::List(rows)) = &a.names[0].initializer else { panic!() };
    let Initializer::List(row) = &rows[1] else { panic!() };
    assert_eq!(row[0], Initializer::Symbol(Address::new(Some("x"), 4)));
    assert_eq!(row[1], Initializer::Generic(Address::new(Some("y"), 0)));
    let pointer = module.functions().next().unwrap().params[0].pointer.unwrap();
    assert_eq!((pointer.space, pointer.align), (Some(Space::Shared), Some(16)));
    let mask = module.variables().nth(1).unwrap();
    assert!(
        matches!(&mask.names[0].initializer, Some(Initializer::Mask { mask, .. }) if mask.bits() == 0xFF00)
    );
}

#[test]
fn header() {
    let module = clean(".version 8.7\n.target sm_90a, debug\n.address_size 64\n.file 1 \"a.cu\", 12, 34\n");
    assert_eq!(module.version(), Some((8, 7)));
    assert_eq!(module.target(), ["sm_90a", "debug"]);
    assert!(matches!(&module.directives[3], Directive::File(file) if file.stamp == Some((12, 34))));
}

#[test]
fn locations_follow_the_calls_that_were_inlined() {
    let source = r#"
.file 1 "a.cu"
.file 2 "b.cuh"
.entry k()
{
    nop;
    .loc 1 27 3
    .loc 2 10 5, function_name name1, inlined_at 1 27 3
    {
    .loc 2 15 3, function_name .debug_str+3, inlined_at 2 10 5
        first;
    }
    .loc 1 30 1
    second;
}
.entry other() { third; }
.section .debug_str {
name0:
.b8 102, 111, 0
.b8 98, 97, 114
.b8 0
name1: .b8 103, 0
}
"#;
    let module = clean(source);
    let table = LineTable::new(&module);
    let at = |text: &str| table.location(u32::try_from(source.find(text).unwrap()).unwrap());
    assert_eq!(at("nop;"), None);
    assert_eq!(at("third;"), None);
    let first = at("first;").unwrap();
    let chain: Vec<_> = first.chain().map(|l| (l.file, l.line, l.column, l.function.as_deref())).collect();
    assert_eq!(chain, [("b.cuh", 15, 3, Some("bar")), ("b.cuh", 10, 5, Some("g")), ("a.cu", 27, 3, None)]);
    let second = at("second;").unwrap();
    assert_eq!((second.file, second.line, second.inlined_at), ("a.cu", 30, None));
}

#[test]
fn a_million_braces_do_not_overflow_the_stack() {
    for text in ["{", "(", "[", "-", "!", "1+", "{a,", "[a,", "0x1(", "a|", "1?"] {
        let many = text.repeat(100_000);
        for source in [
            format!(".func f() {{ mov.u32 %r1, {many}"),
            format!(".global .u32 x = {many}"),
            format!(".func f() {{ {many}"),
            many,
        ] {
            assert!(!parse(&source).1.is_empty());
        }
    }
}

#[test]
fn garbage_ends_after_a_limited_number_of_errors() {
    let source = ")\n".repeat(100_000);
    let errors = parse(&source).1;
    assert!(errors.len() <= 10_001, "{}", errors.len());
    let source = format!(".func f() {{ {} }}", "add ,;".repeat(50_000));
    let errors = parse(&source).1;
    assert_eq!(errors.len(), 10_001);
    assert!(errors[10_000].message.contains("was not parsed"));
}
