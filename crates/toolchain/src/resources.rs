//! Resource usage of a kernel, as reported by `ptxas -v`.

use serde::{Deserialize, Serialize};

/// Resources of one kernel on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// The kernel's name as in the PTX: mangled, for C++.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory declared in the kernel.
    pub static_shared: u32,
    /// Bytes of the kernel's own stack frame per thread.
    pub stack_frame: u32,
    /// Bytes of stack per thread, including called functions; at least the stack frame.
    pub cumulative_stack: u32,
    /// Bytes of register spills stored.
    pub spill_stores: u32,
    /// Bytes of register spills loaded.
    pub spill_loads: u32,
    /// Bytes of local memory per thread that are not on the stack.
    pub local: u32,
    /// Hardware barriers.
    pub barriers: u32,
    /// Bytes of constant memory per bank, ascending by bank. Bank 0 holds the parameters.
    pub constant: Vec<(u32, u32)>,
}

impl Resources {
    /// Bytes of constant memory over all banks.
    pub fn constant_bytes(&self) -> u32 {
        self.constant.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Bytes of thread-private memory per thread, outside of registers.
    pub fn local_bytes(&self) -> u32 {
        self.stack_frame.max(self.cumulative_stack).saturating_add(self.local)
    }

    /// Whether the kernel has a stack frame although no register was spilled: a local array whose index is unknown at compile time,
    /// a variable whose address is taken, or a call that is not inlined.
    pub fn has_unspilled_stack(&self) -> bool {
        self.local_bytes() > 0 && self.spill_stores == 0 && self.spill_loads == 0
    }
}

/// Parses every entry function of the log, in the order of the log.
pub(crate) fn parse(log: &str) -> Vec<Resources> {
    let mut kernels: Vec<Resources> = Vec::new();
    // The stack line belongs to the function on the line before, which may be a device function.
    let mut properties_of_entry = false;
    for line in log.lines() {
        let text =
            line.strip_prefix("ptxas info").map_or(line, |rest| rest.trim_start_matches([' ', ':'])).trim();
        if let Some(rest) = text.strip_prefix("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(Resources { kernel, ..Resources::default() });
            properties_of_entry = false;
        } else if let Some(name) = text.strip_prefix("Function properties for ") {
            properties_of_entry = kernels.last().is_some_and(|kernel| kernel.kernel == name.trim());
        } else if text.ends_with("bytes spill loads") {
            if let Some(kernel) = kernels.last_mut().filter(|_| properties_of_entry) {
                for part in text.split(", ") {
                    amounts(part, kernel);
                }
            }
        } else if text.starts_with("Used ")
            && text.contains("registers")
            && let Some(kernel) = kernels.last_mut()
        {
            for part in text.split(", ") {
                amounts(part, kernel);
            }
        }
    }
    kernels
}

/// Parses one clause: `Used 24 registers`, `8 bytes stack frame`, `372 bytes cmem[0]`. The form `12+16 bytes smem` of old releases
/// is a sum.
fn amounts(clause: &str, kernel: &mut Resources) {
    let mut words = clause.split_whitespace().skip_while(|word| word.eq_ignore_ascii_case("used"));
    let Some(amount) = words.next() else { return };
    let amount = amount
        .split('+')
        .try_fold(0_u32, |sum, part| part.parse::<u32>().ok().map(|n| sum.saturating_add(n)));
    let Some(amount) = amount else { return };
    let what: Vec<&str> = words.collect();
    match what.as_slice() {
        ["registers"] => kernel.registers = amount,
        ["barriers"] => kernel.barriers = amount,
        ["bytes", "smem"] => kernel.static_shared = amount,
        ["bytes", "lmem"] => kernel.local = amount,
        ["bytes", "stack", "frame"] => kernel.stack_frame = amount,
        ["bytes", "cumulative", "stack", "size"] => kernel.cumulative_stack = amount,
        ["bytes", "spill", "stores"] => kernel.spill_stores = amount,
        ["bytes", "spill", "loads"] => kernel.spill_loads = amount,
        ["bytes", bank] => {
            let bank =
                bank.strip_prefix("cmem[").and_then(|b| b.strip_suffix(']')).and_then(|b| b.parse().ok());
            if let Some(bank) = bank {
                kernel.constant.push((bank, amount));
                kernel.constant.sort_unstable();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 3 bytes gmem, 16 bytes cmem[4]
ptxas info    : Compiling entry function 'k2' for 'sm_89'
ptxas info    : Function properties for k2
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 8 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compile time = 2.168 ms
ptxas info    : Function properties for helper
    48 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_89'
ptxas info    : Function properties for _Z1kPf
    0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 50 registers, used 1 barriers, 37120+16 bytes smem, 8 bytes cmem[2], 372 bytes cmem[0]
ptxas info    : Function properties for after
    96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
";

    #[test]
    fn reads_every_entry_and_no_device_function() {
        let kernels = parse(LOG);
        assert_eq!(kernels.len(), 2);
        assert_eq!(
            kernels[0],
            Resources {
                kernel: "k2".into(),
                registers: 24,
                stack_frame: 8,
                cumulative_stack: 8,
                constant: vec![(0, 360)],
                ..Resources::default()
            }
        );
        assert!(kernels[0].has_unspilled_stack());
        assert_eq!(
            kernels[1],
            Resources {
                kernel: "_Z1kPf".into(),
                registers: 50,
                static_shared: 37136,
                spill_stores: 12,
                spill_loads: 16,
                barriers: 1,
                constant: vec![(0, 372), (2, 8)],
                ..Resources::default()
            }
        );
        assert_eq!(kernels[1].constant_bytes(), 380);
    }

    #[test]
    fn rubbish_is_no_kernel() {
        assert!(parse("").is_empty());
        assert!(
            parse("Used x registers\nptxas info    : Used 12 registers\n 1 bytes spill loads").is_empty()
        );
        let odd = parse(
            "ptxas info : Compiling entry function 'a' for 'sm_89'\nptxas info : Used 99999999999 registers",
        );
        assert_eq!(odd[0].registers, 0);
    }
}
