//! Sums, products and remainders of a thread's numbers: which row and which tile a value belongs to.

/// The variables of an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) block: i64,
    pub(super) thread: i64,
    pub(super) step: i64,
    pub(super) element: i64,
}

/// An expression such as `warp*16+lane/4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Number(i64),
    Variable(Variable),
    Of(Box<Expression>, char, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Block,
    Thread,
    Warp,
    Lane,
    Step,
    Element,
}

impl Expression {
    pub(super) const THREAD: Self = Self::Variable(Variable::Thread);
    pub(super) const STEP: Self = Self::Variable(Variable::Step);

    /// Parses an expression, for the command line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim_start();
        let parsed = sum(&mut rest, 0)?;
        if rest.is_empty() { Ok(parsed) } else { Err(format!("unexpected `{rest}`")) }
    }

    /// Its value; `None` if it divides by zero or is too large.
    pub(super) fn value(&self, of: Numbers) -> Option<i64> {
        Some(match self {
            Self::Number(number) => *number,
            Self::Variable(variable) => match variable {
                Variable::Block => of.block,
                Variable::Thread => of.thread,
                Variable::Warp => of.thread / 32,
                Variable::Lane => of.thread % 32,
                Variable::Step => of.step,
                Variable::Element => of.element,
            },
            Self::Of(left, operator, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operator {
                    '+' => left.checked_add(right)?,
                    '-' => left.checked_sub(right)?,
                    '*' => left.checked_mul(right)?,
                    '/' => left.checked_div(right)?,
                    _ => left.checked_rem(right)?,
                }
            }
        })
    }
}

/// Maximum depth of parentheses.
const DEPTH: usize = 32;

fn sum(rest: &mut &str, depth: usize) -> Result<Expression, String> {
    chain(rest, &['+', '-'], &|rest| chain(rest, &['*', '/', '%'], &|rest| operand(rest, depth)))
}

/// Operands of one precedence, from left to right.
fn chain(
    rest: &mut &str,
    operators: &[char],
    next: &dyn Fn(&mut &str) -> Result<Expression, String>,
) -> Result<Expression, String> {
    let mut left = next(rest)?;
    while let Some(operator) = rest.chars().next().filter(|c| operators.contains(c)) {
        *rest = rest[1..].trim_start();
        left = Expression::Of(Box::new(left), operator, Box::new(next(rest)?));
    }
    Ok(left)
}

fn operand(rest: &mut &str, depth: usize) -> Result<Expression, String> {
    if let Some(inner) = rest.strip_prefix('(') {
        if depth >= DEPTH {
            return Err("too many parentheses".to_owned());
        }
        *rest = inner.trim_start();
        let inner = sum(rest, depth + 1)?;
        *rest = rest.strip_prefix(')').ok_or("expected `)`")?.trim_start();
        return Ok(inner);
    }
    let wide = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(wide);
    *rest = after.trim_start();
    let variable = match word {
        "block" => Variable::Block,
        "thread" => Variable::Thread,
        "warp" => Variable::Warp,
        "lane" => Variable::Lane,
        "step" => Variable::Step,
        "element" => Variable::Element,
        _ => {
            let wrong =
                |_| format!("expected a number, block, thread, warp, lane, step or element, found `{word}`");
            return word.parse().map(Expression::Number).map_err(wrong);
        }
    };
    Ok(Expression::Variable(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_precedence_of_c() {
        let numbers = Numbers { block: 2, thread: 70, step: 9, element: 3 };
        let value = |text: &str| Expression::parse(text).map(|one| one.value(numbers));
        for (text, expected) in [
            ("thread", 70),
            ("warp * 16 + lane / 4", 33),
            ("(warp+1)*2", 6),
            ("step%8", 1),
            ("10 - 3 - 2", 5),
            ("block*100+element", 203),
        ] {
            assert_eq!(value(text), Ok(Some(expected)), "{text}");
        }
        assert_eq!(value("lane/(step-9)"), Ok(None));
        for text in ["", "rows", "lane+", "(lane", "lane)", "lane lane", &"(".repeat(100)] {
            assert!(value(text).is_err(), "{text}");
        }
    }
}
