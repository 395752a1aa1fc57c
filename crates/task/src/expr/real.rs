//! Elementwise references: f64, with an error bound for evaluating the same expression in f32 or another format.
//!
//! # The bound
//!
//! Running error analysis (Wilkinson; Higham, *Accuracy and Stability of Numerical Algorithms*, 3.3): each
//! intermediate value v has a bound δ of its absolute error if every operation rounds to nearest with unit u. With
//! exact inputs δ = 0, and
//!
//! | operation | δ |
//! |---|---|
//! | a ± b | δa + δb + u·\|v\| |
//! | a · b | \|a\|δb + \|b\|δa + δaδb + u·\|v\| |
//! | a / b | (δa + \|v\|δb) / (\|b\| − δb) + u·\|v\|, infinite where b may be 0 |
//! | min, max, abs, − | the largest δ of what is chosen from |
//! | exp | e^a · (e^δa − 1) + 4u·\|v\| |
//! | log | ln of a ± δa, + 4u·\|v\|, infinite where a may be 0 |
//! | tanh | δa + 4u·\|v\| (its slope is at most 1) |
//! | sqrt | δa / (√a + √(a − δa)), + u·\|v\| |
//! | pow | as exp(b · log a), + 18u·\|v\| |
//! | floor, comparison, where | exact where δ cannot change the answer; else the distance to the other answer |
//! | remainder | infinite where the quotient may be another, else δa + \|a/b\|δb |
//!
//! 4u is 2 ulp for `expf`, `logf` and `tanhf`, 18u is 9 ulp for `powf`: the CUDA C++ Programming Guide's table of
//! mathematical functions, the larger of what its editions state; sqrt and division are rounded to nearest there.
//! Results that underflow add the smallest normal number, which covers kernels that flush.

use super::{Binary, Expr, ExprError, Function, Kind, Node, unknown};

/// An expression whose names are bound to positions in a row of values.
#[derive(Clone, Debug)]
pub struct Real {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Constant(f64),
    Value(usize),
    Negate,
    Binary(Binary),
    Call(Function, usize),
}

/// A value and its error bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// The exact value, as f64 holds it.
    pub value: f64,
    /// The maximum difference of a kernel's value.
    pub error: f64,
}

/// The rounding of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// u: half the distance from 1 to the next number.
    pub relative: f64,
    /// The smallest normal number.
    pub smallest: f64,
}

impl Expr {
    /// Binds names to positions.
    pub fn bind(&self, names: &[&str]) -> Result<Real, ExprError> {
        let mut steps = Vec::new();
        compile(&self.root, names, &mut steps)?;
        Ok(Real { steps })
    }
}

fn compile(node: &Node, names: &[&str], steps: &mut Vec<Step>) -> Result<(), ExprError> {
    match &node.kind {
        Kind::Number(number) => steps.push(Step::Constant(number.real)),
        Kind::Name(name) => {
            let place = names.iter().position(|known| known == name);
            steps.push(Step::Value(place.ok_or_else(|| unknown(name, names, node))?));
        }
        Kind::Negate(of) => {
            compile(of, names, steps)?;
            steps.push(Step::Negate);
        }
        Kind::Binary(operator, a, b) => {
            compile(a, names, steps)?;
            compile(b, names, steps)?;
            steps.push(Step::Binary(*operator));
        }
        Kind::Call(function, arguments) => {
            for argument in arguments {
                compile(argument, names, steps)?;
            }
            steps.push(Step::Call(*function, arguments.len()));
        }
    }
    Ok(())
}

impl Real {
    /// The value for a row of values, and how far an evaluation with rounding `unit` may be from it. A position
    /// outside the row gives NaN.
    pub fn evaluate(&self, values: &[f64], unit: Unit) -> Bounded {
        let mut stack: Vec<Bounded> = Vec::with_capacity(16);
        for step in &self.steps {
            let result = match *step {
                Step::Constant(value) => constant(value, unit),
                Step::Value(place) => exact(values.get(place).copied().unwrap_or(f64::NAN)),
                Step::Negate => {
                    let a = stack.pop().unwrap_or(exact(f64::NAN));
                    Bounded { value: -a.value, error: a.error }
                }
                Step::Binary(operator) => {
                    let b = stack.pop().unwrap_or(exact(f64::NAN));
                    let a = stack.pop().unwrap_or(exact(f64::NAN));
                    binary(operator, a, b, unit)
                }
                Step::Call(function, count) => {
                    let arguments = stack.split_off(stack.len().saturating_sub(count));
                    call(function, &arguments, unit)
                }
            };
            stack.push(result);
        }
        let mut result = stack.pop().unwrap_or(exact(f64::NAN));
        if result.error.is_nan() {
            result.error = f64::INFINITY;
        }
        result
    }

    /// The value alone.
    pub fn value(&self, values: &[f64]) -> f64 {
        self.evaluate(values, Unit { relative: 0.0, smallest: 0.0 }).value
    }
}

/// An integer as the nearest real number.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a literal of a real expression is rounded"
)]
pub(super) fn of_integer(value: i64) -> f64 {
    value as f64
}

fn exact(value: f64) -> Bounded {
    Bounded { value, error: 0.0 }
}

/// A literal such as 0.1 is rounded to the kernel's format; a literal that the format holds exactly is not.
fn constant(value: f64, unit: Unit) -> Bounded {
    const FRACTION: u64 = (1 << 52) - 1;
    let mantissa = f64::from_bits(value.to_bits() & FRACTION | 1.0f64.to_bits());
    let held = value == 0.0 || (mantissa / (2.0 * unit.relative)).fract() == 0.0;
    Bounded { value, error: if held { 0.0 } else { unit.relative * value.abs() } }
}

/// The result of one operation that is rounded by this number of units.
fn rounded(value: f64, error: f64, units: f64, unit: Unit) -> Bounded {
    let floor = if value != 0.0 && value.abs() < unit.smallest { unit.smallest } else { 0.0 };
    // No rounding if the bound is exactly zero or the value is not finite.
    let own = if value.is_finite() { units * unit.relative * value.abs() } else { 0.0 };
    Bounded { value, error: error + own + floor }
}

fn binary(operator: Binary, a: Bounded, b: Bounded, unit: Unit) -> Bounded {
    let both = a.error + b.error;
    // If rounding may change the comparison, its value is off by one.
    let truth = |holds: bool| Bounded {
        value: if holds { 1.0 } else { 0.0 },
        error: if (a.value - b.value).abs() <= both && both > 0.0 { 1.0 } else { 0.0 },
    };
    match operator {
        Binary::Add => rounded(a.value + b.value, both, 1.0, unit),
        Binary::Subtract => rounded(a.value - b.value, both, 1.0, unit),
        Binary::Multiply => {
            let error = a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error;
            rounded(a.value * b.value, error, 1.0, unit)
        }
        Binary::Divide => {
            let value = a.value / b.value;
            let least = b.value.abs() - b.error;
            let error = if both == 0.0 {
                0.0
            } else if least > 0.0 {
                (a.error + value.abs() * b.error) / least
            } else {
                f64::INFINITY
            };
            rounded(value, error, 1.0, unit)
        }
        Binary::Remainder => {
            let quotient = (a.value / b.value).trunc();
            let value = a.value % b.value;
            let error = a.error + quotient.abs() * b.error;
            let near = value.abs().min(b.value.abs() - value.abs());
            rounded(value, if error > 0.0 && near <= error { f64::INFINITY } else { error }, 1.0, unit)
        }
        Binary::Less => truth(a.value < b.value),
        Binary::LessOrEqual => truth(a.value <= b.value),
        Binary::Greater => truth(a.value > b.value),
        Binary::GreaterOrEqual => truth(a.value >= b.value),
        #[expect(clippy::float_cmp, reason = "the expression compares exactly")]
        Binary::Equal => truth(a.value == b.value),
        #[expect(clippy::float_cmp, reason = "the expression compares exactly")]
        Binary::NotEqual => truth(a.value != b.value),
    }
}

fn call(function: Function, arguments: &[Bounded], unit: Unit) -> Bounded {
    let a = arguments.first().copied().unwrap_or(exact(f64::NAN));
    let b = arguments.get(1).copied().unwrap_or(exact(f64::NAN));
    let c = arguments.get(2).copied().unwrap_or(exact(f64::NAN));
    let widest = arguments.iter().map(|argument| argument.error).fold(0.0, f64::max);
    // NaN propagates, as in every comparison with a reference.
    let fold = |choose: fn(f64, f64) -> f64| {
        arguments
            .iter()
            .map(|argument| argument.value)
            .fold(a.value, |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { choose(x, y) })
    };
    let whole = |value: f64, low: f64, high: f64| Bounded { value, error: (high - value).max(value - low) };
    match function {
        Function::Min => Bounded { value: fold(f64::min), error: widest },
        Function::Max => Bounded { value: fold(f64::max), error: widest },
        Function::Abs => Bounded { value: a.value.abs(), error: a.error },
        Function::Where => {
            let (chosen, other) = if a.value == 0.0 { (c, b) } else { (b, c) };
            let error = if a.error > 0.0 {
                chosen.error.max((chosen.value - other.value).abs() + other.error)
            } else {
                chosen.error
            };
            Bounded { value: chosen.value, error }
        }
        Function::Floor => whole(a.value.floor(), (a.value - a.error).floor(), (a.value + a.error).floor()),
        Function::Ceil => whole(a.value.ceil(), (a.value - a.error).ceil(), (a.value + a.error).ceil()),
        Function::CeilDiv => call(Function::Ceil, &[binary(Binary::Divide, a, b, unit)], unit),
        Function::RoundUp => {
            let steps = call(Function::CeilDiv, &[a, b], unit);
            binary(Binary::Multiply, steps, b, unit)
        }
        Function::Exp => {
            let value = a.value.exp();
            rounded(value, if a.error > 0.0 { value * a.error.exp_m1() } else { 0.0 }, 4.0, unit)
        }
        Function::Log => {
            let error = if a.error == 0.0 {
                0.0
            } else if a.value > a.error {
                -(-a.error / a.value).ln_1p()
            } else {
                f64::INFINITY
            };
            rounded(a.value.ln(), error, 4.0, unit)
        }
        Function::Tanh => rounded(a.value.tanh(), a.error.min(2.0), 4.0, unit),
        Function::Sqrt => {
            let value = a.value.sqrt();
            let error =
                if a.error > 0.0 { a.error / (value + (a.value - a.error).max(0.0).sqrt()) } else { 0.0 };
            rounded(value, error, 1.0, unit)
        }
        Function::Pow => {
            let value = a.value.powf(b.value);
            let error = if a.error == 0.0 && b.error == 0.0 {
                0.0
            } else {
                let log = call(
                    Function::Log,
                    &[Bounded { value: a.value.abs(), error: a.error }],
                    Unit { relative: 0.0, smallest: 0.0 },
                );
                let exponent = log.value.abs() * b.error + b.value.abs() * log.error + b.error * log.error;
                value.abs() * exponent.exp_m1()
            };
            rounded(value, error, 18.0, unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const F32: Unit = Unit { relative: 1.0 / 16777216.0, smallest: 1.1754943508222875e-38 };

    fn bound(text: &str, values: &[f64]) -> Bounded {
        Expr::parse(text).unwrap().bind(&["x", "y"]).unwrap().evaluate(values, F32)
    }

    #[test]
    fn values_are_those_of_f64() {
        for (text, expected) in [
            ("max(x, 0)", 0.0),
            ("where(x > 0, x, 0.1 * x)", -0.2),
            ("exp(x) + log(y)", (-2f64).exp() + 3f64.ln()),
            ("x * x - y / 2", 2.5),
            ("sqrt(abs(x)) * tanh(y)", 2f64.sqrt() * 3f64.tanh()),
            ("pow(y, 2) % 4", 1.0),
            ("floor(x / y)", -1.0),
        ] {
            assert!((bound(text, &[-2.0, 3.0]).value - expected).abs() < 1e-12, "{text}");
        }
        let error = Expr::parse("x + z").unwrap().bind(&["x", "y"]).unwrap_err();
        assert_eq!((error.span, error.sentence.as_str()), (4..5, "`z` is not known here"));
        assert!(bound("x", &[]).value.is_nan());
    }

    #[test]
    fn bounds_follow_the_table() {
        assert!(bound("x", &[1.0, 0.0]).error < f64::MIN_POSITIVE);
        let sum = bound("x + y", &[1.0, 3.0]);
        assert!((sum.error - 4.0 * F32.relative).abs() < 1e-20);
        assert!(
            bound("1 / (x - y)", &[1.0, 1.0]).error.is_infinite()
                || bound("1 / (x - y)", &[1.0, 1.0]).value.is_infinite()
        );
        // A threshold that rounding may cross costs the distance between the branches.
        let near = bound("where(x + y > 4, 10, 0)", &[1.0, 3.0]);
        assert!(near.error >= 10.0);
        assert!(bound("where(x + y > 5, 10, 0)", &[1.0, 3.0]).error < 1e-9);
    }

    proptest! {
        /// Results of f32 arithmetic are within the bound.
        #[test]
        fn f32_stays_within(x in -50f32..50.0, y in 0.01f32..50.0) {
            let (a, b) = (f64::from(x), f64::from(y));
            for (text, got) in [
                ("x * y + x", x * y + x),
                ("(x - y) * (x + y)", (x - y) * (x + y)),
                ("x / y - y", x / y - y),
                ("exp(x / 8) * y", (x / 8.0).exp() * y),
                ("log(y) * x", y.ln() * x),
                ("sqrt(y + y * y)", (y + y * y).sqrt()),
                ("tanh(x * y)", (x * y).tanh()),
                ("0.1 * x", 0.1f32 * x),
                ("max(x * y, x + y)", (x * y).max(x + y)),
                ("x / (1 + exp(-x))", x / (1.0 + (-x).exp())),
            ] {
                let bound = bound(text, &[a, b]);
                prop_assert!((f64::from(got) - bound.value).abs() <= bound.error, "{text} {x} {y} {got} {bound:?}");
            }
        }
    }
}
