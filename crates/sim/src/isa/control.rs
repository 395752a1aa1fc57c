//! Branches, returns, and thread exit.

use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, Type, lanes_of};
use crate::stop::{Blame, StopKind};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "bra{.uni} tgt",
        manual: "control-flow-instructions-bra",
        unit: Unit::Control,
        since: (1, 0, 10),
        bind: bind_plain!(bra),
    },
    Definition {
        form: "brx{.idx}{.uni} index, tlist",
        manual: "control-flow-instructions-brx-idx",
        unit: Unit::Control,
        since: (6, 0, 30),
        bind: bind_plain!(brx),
    },
    // `call` and `ret` take names the table does not know; decoding builds their routines itself.
    Definition {
        form: "call{.uni} (ret-param), fname, (param-list), flist",
        manual: "control-flow-instructions-call",
        unit: Unit::Control,
        since: (1, 0, 10),
        bind: bind_plain!(built_elsewhere),
    },
    Definition {
        form: "ret{.uni}",
        manual: "control-flow-instructions-ret",
        unit: Unit::Control,
        since: (1, 0, 10),
        bind: bind_plain!(ret),
    },
    Definition {
        form: "exit",
        manual: "control-flow-instructions-exit",
        unit: Unit::Control,
        since: (1, 0, 10),
        bind: bind_plain!(exit),
    },
    Definition {
        form: "trap",
        manual: "miscellaneous-instructions-trap",
        unit: Unit::Control,
        since: (1, 0, 10),
        bind: bind_plain!(trap),
    },
    Definition {
        form: "brkpt",
        manual: "miscellaneous-instructions-brkpt",
        unit: Unit::Control,
        since: (1, 0, 11),
        bind: bind_plain!(nothing),
    },
    Definition {
        form: "pmevent{.mask} a",
        manual: "miscellaneous-instructions-pmevent",
        unit: Unit::Control,
        since: (1, 4, 10),
        bind: bind_plain!(one_static),
    },
    Definition {
        form: "nanosleep.u32 t",
        manual: "miscellaneous-instructions-nanosleep",
        unit: Unit::Control,
        since: (6, 2, 70),
        bind: bind_plain!(nanosleep),
    },
];

fn bra(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Label], |w, args| w.branch(w.exec, args.target)))
}

fn brx(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Src(Type::U32), Slot::Table], |w, args| {
        let index = w.state.regs.w32[crate::machine::at(args.o[0])];
        let first = index.0[crate::machine::at(w.first_lane())];
        let Some(&target) = args.targets.get(crate::machine::at(first)) else {
            let sentence = format!("branch to entry {first} of a table of {}", args.targets.len());
            return w.halt(Blame::Kernel, StopKind::Bounds, sentence);
        };
        let taken =
            lanes_of(w.exec).filter(|&lane| index.0[lane] == first).fold(0u32, |mask, lane| mask | 1 << lane);
        if taken == w.exec {
            return w.branch(taken, target);
        }
        w.diverged();
        // The lanes with other targets execute this instruction again.
        let mut others = w.state.subwarp.clone();
        others.mask = w.exec & !taken;
        others.pc = w.pc;
        w.state.parked.push(others);
        w.state.subwarp.mask &= !(w.exec & !taken);
        match w.branch(taken, target) {
            Flow::Jump => Flow::Split,
            flow => flow,
        }
    }))
}

fn built_elsewhere(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    Err(spec.gap("this form of call"))
}

fn ret(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| w.ret()))
}

fn exit(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| w.exit()))
}

fn trap(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |w, _| w.halt(Blame::Kernel, StopKind::Trap, "the kernel executed a trap".into())))
}

fn nothing(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([], |_, _| Flow::Next))
}

fn one_static(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Static], |_, _| Flow::Next))
}

fn nanosleep(_: &Spec<'_>) -> Result<Bound, Refusal> {
    Ok(Bound::new([Slot::Src(Type::U32)], |_, _| Flow::Next))
}
