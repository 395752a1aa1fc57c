//! Routines built from a function on one lane: the shapes of nearly every arithmetic instruction.
//!
//! Each takes a plain function of scalars, applies it to all 32 lanes in a loop that the compiler vectorizes for the level
//! `I`, and stores the lanes in `warp.exec`. Inactive lanes are computed too and discarded, so a function must not panic
//! for any operand.

use super::{Bound, Slot};
use crate::machine::{Flow, LANES, Lane, Row, Scalar, Width};
use crate::simd::Simd;

/// Stores the lanes of `mask`.
#[inline(always)]
pub fn merge<T: Lane>(target: &mut Row<T>, value: &Row<T>, mask: u32) {
    if mask == u32::MAX {
        *target = *value;
    } else {
        for lane in 0..LANES {
            target.0[lane] = T::select(mask, lane, value.0[lane], target.0[lane]);
        }
    }
}

/// `d = f(a)`.
pub fn map1<I: Simd, D: Scalar, A: Scalar>(f: impl Fn(A) -> D + Copy + Send + Sync + 'static) -> Bound {
    Bound::new([Slot::Dst(D::Store::WIDTH), Slot::Src(A::TYPE)], move |w, args| {
        I::vectorize(|| {
            let mut d = Row([D::Store::default(); LANES]);
            let a = A::Store::row(&w.state.regs, args.o[1]);
            for lane in 0..LANES {
                d.0[lane] = f(A::of(a.0[lane])).bits();
            }
            merge(D::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
        });
        Flow::Next
    })
}

/// `d = f(a, b)`.
pub fn map2<I: Simd, D: Scalar, A: Scalar, B: Scalar>(
    f: impl Fn(A, B) -> D + Copy + Send + Sync + 'static,
) -> Bound {
    Bound::new([Slot::Dst(D::Store::WIDTH), Slot::Src(A::TYPE), Slot::Src(B::TYPE)], move |w, args| {
        I::vectorize(|| {
            let mut d = Row([D::Store::default(); LANES]);
            let a = A::Store::row(&w.state.regs, args.o[1]);
            let b = B::Store::row(&w.state.regs, args.o[2]);
            for lane in 0..LANES {
                d.0[lane] = f(A::of(a.0[lane]), B::of(b.0[lane])).bits();
            }
            merge(D::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
        });
        Flow::Next
    })
}

/// `d = f(a, b, c)`.
pub fn map3<I: Simd, D: Scalar, A: Scalar, B: Scalar, C: Scalar>(
    f: impl Fn(A, B, C) -> D + Copy + Send + Sync + 'static,
) -> Bound {
    let slots = [Slot::Dst(D::Store::WIDTH), Slot::Src(A::TYPE), Slot::Src(B::TYPE), Slot::Src(C::TYPE)];
    Bound::new(slots, move |w, args| {
        I::vectorize(|| {
            let mut d = Row([D::Store::default(); LANES]);
            let a = A::Store::row(&w.state.regs, args.o[1]);
            let b = B::Store::row(&w.state.regs, args.o[2]);
            let c = C::Store::row(&w.state.regs, args.o[3]);
            for lane in 0..LANES {
                d.0[lane] = f(A::of(a.0[lane]), B::of(b.0[lane]), C::of(c.0[lane])).bits();
            }
            merge(D::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
        });
        Flow::Next
    })
}

/// `d = f(a, b, c, e)`.
pub fn map4<I: Simd, D: Scalar, A: Scalar, B: Scalar, C: Scalar, E: Scalar>(
    f: impl Fn(A, B, C, E) -> D + Copy + Send + Sync + 'static,
) -> Bound {
    let slots = [
        Slot::Dst(D::Store::WIDTH),
        Slot::Src(A::TYPE),
        Slot::Src(B::TYPE),
        Slot::Src(C::TYPE),
        Slot::Src(E::TYPE),
    ];
    Bound::new(slots, move |w, args| {
        I::vectorize(|| {
            let mut d = Row([D::Store::default(); LANES]);
            let a = A::Store::row(&w.state.regs, args.o[1]);
            let b = B::Store::row(&w.state.regs, args.o[2]);
            let c = C::Store::row(&w.state.regs, args.o[3]);
            let e = E::Store::row(&w.state.regs, args.o[4]);
            for lane in 0..LANES {
                d.0[lane] = f(A::of(a.0[lane]), B::of(b.0[lane]), C::of(c.0[lane]), E::of(e.0[lane])).bits();
            }
            merge(D::Store::row_mut(&mut w.state.regs, args.o[0]), &d, w.exec);
        });
        Flow::Next
    })
}

/// One bit per lane: `f(a, b)` of all lanes, regardless of the mask.
#[inline(always)]
pub fn compare<A: Scalar>(a: &Row<A::Store>, b: &Row<A::Store>, f: impl Fn(A, A) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..LANES {
        bits |= u32::from(f(A::of(a.0[lane]), A::of(b.0[lane]))) << lane;
    }
    bits
}

/// `p = f(a)`: a predicate from one operand.
pub fn test1<I: Simd, A: Scalar>(f: impl Fn(A) -> bool + Copy + Send + Sync + 'static) -> Bound {
    Bound::new([Slot::Dst(Width::Pred), Slot::Src(A::TYPE)], move |w, args| {
        let bits = I::vectorize(|| {
            let a = A::Store::row(&w.state.regs, args.o[1]);
            compare::<A>(a, a, |a, _| f(a))
        });
        w.set_pred(args.o[0], bits);
        Flow::Next
    })
}
