//! Variables of the module, `__constant__` and `__device__`, set before a launch.

use warpproof_gate::parameter::Packed;
use warpproof_gate::variable::Variable;
use warpproof_sim::program::ConstantBank;
use warpproof_sim::{Device, Module};

use super::arguments::{self, Array, Names};
use super::spec::{ArgumentValue, Spec};
use crate::report::{Kind, Report};

/// Sets variables; those in constant memory are set in `constants`. Returns their symbols and values.
pub(super) fn set(
    specs: &[Spec],
    module: &Module,
    device: &mut Device,
    constants: &mut ConstantBank,
    arrays: &[Array],
) -> Result<Vec<(String, Packed)>, Box<Report>> {
    let mut set = Vec::new();
    for spec in specs {
        let variable = Variable::find(module, &spec.name).map_err(|unknown| {
            let report = Report::error(Kind::Usage, unknown.sentence);
            let known = unknown.known.join(", ");
            Box::new(if known.is_empty() { report } else { report.help(format!("variables: {known}")) })
        })?;
        let value = match &spec.value {
            ArgumentValue::Array { shape, fill } => {
                let most = u64::try_from(variable.size).unwrap_or(u64::MAX);
                let bytes = arguments::contents(spec, shape.as_deref(), fill, most)?;
                Packed::value(bytes, spec.element.size())
            }
            _ => Names { earlier: arrays, fresh: &[] }.pack(spec)?,
        };
        let bytes = value.bytes(|array| arrays.get(array).map_or(0, |array| array.address));
        let wrong = |sentence| Box::new(Report::error(Kind::Usage, sentence));
        variable.set(&bytes, device, constants).map_err(wrong)?;
        set.push((variable.symbol, value));
    }
    Ok(set)
}
