//! Sizes and launches: 64-bit integers with overflow checks.

use std::ops::Range;

use super::{Binary, Expr, ExprError, Function, Kind, Node};

impl Expr {
    /// Its value as an integer. `/` drops the remainder; `ceil_div(a, b)` and `ceil(a / b)` round up instead.
    pub fn integer(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Result<i64, ExprError> {
        evaluate(&self.root, value_of)
    }

    /// Its value in an integer type that wraps around: `wrap` truncates every step to the type. `/` and `%` round
    /// toward zero, as in C++.
    pub fn wrapping(
        &self,
        value_of: &dyn Fn(&str) -> Option<i128>,
        wrap: &dyn Fn(i128) -> i128,
    ) -> Result<i128, ExprError> {
        wrapping(&self.root, value_of, wrap)
    }
}

fn wrapping(
    node: &Node,
    value_of: &dyn Fn(&str) -> Option<i128>,
    wrap: &dyn Fn(i128) -> i128,
) -> Result<i128, ExprError> {
    let value = match &node.kind {
        Kind::Number(number) => {
            let integer = number.integer.map(i128::from);
            integer.ok_or_else(|| wrong(&node.span, "expected an integer literal"))?
        }
        Kind::Name(name) => {
            value_of(name).ok_or_else(|| wrong(&node.span, format!("`{name}` is not known here")))?
        }
        Kind::Negate(of) => wrapping(of, value_of, wrap)?.wrapping_neg(),
        Kind::Binary(operator, a, b) => {
            let (a, b) = (wrapping(a, value_of, wrap)?, wrapping(b, value_of, wrap)?);
            if b == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
                return Err(wrong(&node.span, "a division by zero"));
            }
            match operator {
                Binary::Add => a.wrapping_add(b),
                Binary::Subtract => a.wrapping_sub(b),
                Binary::Multiply => a.wrapping_mul(b),
                Binary::Divide => a.wrapping_div(b),
                Binary::Remainder => a.wrapping_rem(b),
                Binary::Less => i128::from(a < b),
                Binary::LessOrEqual => i128::from(a <= b),
                Binary::Greater => i128::from(a > b),
                Binary::GreaterOrEqual => i128::from(a >= b),
                Binary::Equal => i128::from(a == b),
                Binary::NotEqual => i128::from(a != b),
            }
        }
        Kind::Call(function, arguments) => {
            let values = arguments.iter().map(|one| wrapping(one, value_of, wrap));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            match (function, values.as_slice()) {
                (Function::Min, values) => values.iter().copied().min().unwrap_or(0),
                (Function::Max, values) => values.iter().copied().max().unwrap_or(0),
                (Function::Where, [condition, a, b]) => *if *condition == 0 { b } else { a },
                (Function::Abs, [a]) => a.wrapping_abs(),
                _ => {
                    let sentence = format!("`{}` is not defined for integers", function.name());
                    return Err(wrong(&node.span, sentence));
                }
            }
        }
    };
    Ok(wrap(value))
}

fn wrong(span: &Range<usize>, sentence: impl Into<String>) -> ExprError {
    ExprError { span: span.clone(), sentence: sentence.into(), help: None }
}

fn evaluate(node: &Node, value_of: &dyn Fn(&str) -> Option<i64>) -> Result<i64, ExprError> {
    let overflow = || wrong(&node.span, "the value does not fit 64 bits");
    match &node.kind {
        Kind::Number(number) => number.integer.ok_or_else(|| wrong(&node.span, "expected an integer")),
        Kind::Name(name) => {
            value_of(name).ok_or_else(|| wrong(&node.span, format!("`{name}` is not known here")))
        }
        Kind::Negate(of) => evaluate(of, value_of)?.checked_neg().ok_or_else(overflow),
        Kind::Binary(operator, a, b) => {
            let (a, b) = (evaluate(a, value_of)?, evaluate(b, value_of)?);
            binary(*operator, a, b, node)
        }
        Kind::Call(function, arguments) => {
            // Do not truncate the quotient before rounding up.
            if let (Function::Ceil, [Node { kind: Kind::Binary(Binary::Divide, a, b), .. }]) =
                (function, arguments.as_slice())
            {
                return ceil_div(evaluate(a, value_of)?, evaluate(b, value_of)?, node);
            }
            let values = arguments
                .iter()
                .map(|argument| evaluate(argument, value_of))
                .collect::<Result<Vec<_>, _>>()?;
            match (function, values.as_slice()) {
                (Function::Ceil, [a]) => Ok(*a),
                (Function::CeilDiv, [a, b]) => ceil_div(*a, *b, node),
                (Function::RoundUp, [a, b]) => ceil_div(*a, *b, node)?.checked_mul(*b).ok_or_else(overflow),
                (Function::Min, values) => Ok(values.iter().copied().min().unwrap_or(0)),
                (Function::Max, values) => Ok(values.iter().copied().max().unwrap_or(0)),
                (Function::Where, [condition, a, b]) => Ok(if *condition == 0 { *b } else { *a }),
                (Function::Abs, [a]) => a.checked_abs().ok_or_else(overflow),
                _ => Err(wrong(&node.span, format!("`{}` is not defined for integers", function.name()))),
            }
        }
    }
}

fn binary(operator: Binary, a: i64, b: i64, node: &Node) -> Result<i64, ExprError> {
    if b == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
        return Err(wrong(&node.span, "a division by zero"));
    }
    let value = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide => a.checked_div(b),
        Binary::Remainder => a.checked_rem(b),
        Binary::Less => Some(i64::from(a < b)),
        Binary::LessOrEqual => Some(i64::from(a <= b)),
        Binary::Greater => Some(i64::from(a > b)),
        Binary::GreaterOrEqual => Some(i64::from(a >= b)),
        Binary::Equal => Some(i64::from(a == b)),
        Binary::NotEqual => Some(i64::from(a != b)),
    };
    value.ok_or_else(|| wrong(&node.span, "the value does not fit 64 bits"))
}

fn ceil_div(a: i64, b: i64, node: &Node) -> Result<i64, ExprError> {
    let quotient = binary(Binary::Divide, a, b, node)?;
    let above = a.checked_rem(b).is_some_and(|rest| rest != 0 && (rest > 0) == (b > 0));
    quotient.checked_add(i64::from(above)).ok_or_else(|| wrong(&node.span, "the value does not fit 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<i64, String> {
        let axes = |name: &str| match name {
            "s" => Some(257),
            "d" => Some(64),
            _ => None,
        };
        Expr::parse(text).map_err(|e| e.sentence)?.integer(&axes).map_err(|e| e.sentence)
    }

    #[test]
    fn sizes_are_computed() {
        for (text, expected) in [
            ("ceil_div(s, 64)", 5),
            ("ceil(s/64)", 5),
            ("ceil(s)", 257),
            ("s / 64", 4),
            ("s % 64", 1),
            ("2 * (s + 1) - d / 2", 484),
            ("min(s, d, 32)", 32),
            ("max(s, d)", 257),
            ("round_up(s, 64) * 2", 640),
            ("where(s > 256, 1, 0)", 1),
            ("--1_000", 1000),
            ("ceil_div(-7, 2)", -3),
            ("ceil_div(-7, -2)", 4),
            ("1 - 2 - 3", -4),
            ("abs(-3)", 3),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for (text, sentence) in [
            ("", "expected a number, a name or `(`, found the end of the expression"),
            ("s +", "expected a number, a name or `(`, found the end of the expression"),
            ("s s", "expected an operator, found `s`"),
            ("(s", "expected `)`, found the end of the expression"),
            ("n", "`n` is not known here"),
            ("s / 0", "a division by zero"),
            ("s % (d - 64)", "a division by zero"),
            ("9223372036854775807 + 1", "the value does not fit 64 bits"),
            ("9223372036854775808", "number out of range: `9223372036854775808`"),
            ("(-9223372036854775807 - 1) / -1", "the value does not fit 64 bits"),
            ("1.5", "expected an integer"),
            ("exp(1)", "`exp` is not defined for integers"),
            ("ceil_dev(s, 2)", "there is no function `ceil_dev`"),
            ("ceil_div(s)", "`ceil_div` takes 2 arguments, not 1"),
            ("s < d < 3", "comparisons cannot be chained"),
            ("s; rm", "unexpected `;` in an expression"),
            ("§", "unexpected `§` in an expression"),
        ] {
            assert_eq!(value(text), Err(sentence.to_owned()), "{text}");
        }
    }

    #[test]
    fn sizes_of_expressions_have_limits() {
        let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
        assert_eq!(value(&deep), Err("an expression is at most 64 levels deep".to_owned()));
        let signs = format!("{}1", "-".repeat(1000));
        assert_eq!(value(&signs), Err("an expression is at most 64 levels deep".to_owned()));
        let many = vec!["1"; 400].join("+");
        assert_eq!(value(&many), Err("an expression has at most 512 parts".to_owned()));
        let long = " ".repeat(5000);
        assert_eq!(value(&long), Err("an expression has at most 4096 bytes".to_owned()));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = value(&text);
        }

        #[test]
        fn no_likely_text_panics(parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "s", "d", "(", ")", ",", "+", "-", "*", "/", "%", "<", "==", "min(", "ceil(", "ceil_div(", "where(",
                "1", "0", "9223372036854775807", "1.5", "2e3", "abs(", " ", "exp(", "_x",
            ]), 0..40)) {
            let text = parts.concat();
            if let Ok(expr) = Expr::parse(&text) {
                // The canonical form parses to itself and has the same value.
                let again = Expr::parse(&expr.to_string()).unwrap();
                prop_assert_eq!(&again, &expr);
                let axes = |name: &str| (name == "s").then_some(7);
                let (a, b) = (expr.integer(&axes), again.integer(&axes));
                prop_assert_eq!(a.map_err(|e| e.sentence), b.map_err(|e| e.sentence));
            }
        }

        #[test]
        fn rounding_up_is_what_it_says(a in 0i64..1_000_000, b in 1i64..1000) {
            let expected = (a + b - 1) / b;
            prop_assert_eq!(value(&format!("ceil_div({a}, {b})")), Ok(expected));
            prop_assert_eq!(value(&format!("ceil({a} / {b})")), Ok(expected));
        }
    }
}
