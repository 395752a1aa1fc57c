//! `st.bulk`: zeros in shared memory.
#![expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "lane numbers are below 32")]

use super::{Bound, Definition, Refusal, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{LANES, Row, Type, Width, at, lanes_of};
use crate::memory::Space;
use crate::stop::{Blame, StopKind};

/// The largest size that the manual allows.
const MOST: u64 = 16_777_216;

pub(super) const DEFINITIONS: &[Definition] = &[Definition {
    form: "st.bulk{.weak}{.shared::cta} [a], size, initval",
    manual: "data-movement-and-conversion-instructions-st-bulk",
    unit: Unit::Lsu,
    since: (8, 6, 100),
    bind: bind_plain!(fill),
}];

fn fill(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    if spec.integer(2) != Some(0) {
        return Err(Refusal::Malformed("expected the initial value 0 for st.bulk".into()));
    }
    let generic = !spec.has("shared::cta");
    let ty = if spec.bits(1) == Some(64) { Type::U64 } else { Type::U32 };
    Ok(Bound::fallible([Slot::Address, Slot::Src(ty), Slot::Static], move |w, args| {
        let mut addresses = w.addresses(args.at[0]);
        let sizes: Row<u64> = match ty.width() {
            Width::W64 => w.state.regs.w64[at(args.o[0])],
            _ => Row(w.state.regs.w32[at(args.o[0])].0.map(u64::from)),
        };
        let (exec, mut most, mut step) = (w.exec, 0, 8);
        for lane in lanes_of(exec) {
            let (space, address) =
                if generic { Space::resolve(addresses.0[lane]) } else { (Space::Shared, addresses.0[lane]) };
            if space != Space::Shared {
                let sentence =
                    format!("{} address {address:#x}; expected an address in shared memory", space.name());
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane as u32, sentence));
            }
            let bytes = sizes.0[lane];
            if !bytes.is_multiple_of(8) || bytes > MOST {
                let sentence =
                    format!("st.bulk of {bytes} bytes; the size must be a multiple of 8 and at most {MOST}");
                return Err(w.halt_lane(Blame::Kernel, StopKind::Alignment, lane as u32, sentence));
            }
            addresses.0[lane] = address;
            most = most.max(bytes);
            // The manual does not require an alignment.
            step = step.min(1 << address.trailing_zeros().min(3));
        }
        let zeros = [Row([0u32; LANES]); 2];
        for start in (0..most).step_by(step) {
            w.exec =
                lanes_of(exec).filter(|lane| start < sizes.0[*lane]).fold(0, |lanes, lane| lanes | 1 << lane);
            let piece = Row(addresses.0.map(|address| address.wrapping_add(start)));
            let stored = w.store_at(Space::Shared, &piece, step as u32, &zeros);
            w.exec = exec;
            stored?;
        }
        Ok(w.worked(lanes_of(exec).map(|lane| sizes.0[lane] as usize).sum()))
    }))
}
