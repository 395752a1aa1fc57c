//! The launch requirements that a kernel declares.

use warpproof_ptx as ptx;

/// Registers of one of the four parts of a multiprocessor.
const PART: u32 = 16_384;

/// Directives between the parameters of a kernel and its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.maxntid`: the most threads per block, as a product.
    pub max_threads: Option<u32>,
    /// `.reqntid`: exactly these.
    pub required: Option<[u32; 3]>,
    /// `.reqnctapercluster`: blocks in a cluster.
    pub cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: a launch must have clusters.
    pub explicit_cluster: bool,
    /// `.maxclusterrank`: the most blocks in a cluster.
    pub max_cluster: Option<u32>,
    /// Registers with which each thread starts, as far as the directives determine it. ptxas ignores `setmaxnreg` otherwise.
    pub registers: Option<u32>,
}

impl LaunchBounds {
    pub(super) fn of(function: &ptx::Function<'_>) -> LaunchBounds {
        let (mut bounds, mut most, mut blocks) = (LaunchBounds::default(), None, None);
        for directive in &function.directives {
            let mut dims = [1u32; 3];
            for (dim, argument) in dims.iter_mut().zip(&directive.arguments) {
                if let ptx::Argument::Integer(integer) = argument {
                    *dim = u32::try_from(integer.magnitude).unwrap_or(u32::MAX);
                }
            }
            match directive.name {
                "maxntid" => bounds.max_threads = Some(product(dims)),
                "reqntid" => bounds.required = Some(dims),
                "reqnctapercluster" => bounds.cluster = Some(dims),
                "explicitcluster" => bounds.explicit_cluster = true,
                "maxclusterrank" => bounds.max_cluster = Some(dims[0]),
                "maxnreg" => most = Some(dims[0]),
                "minnctapersm" => blocks = Some(dims[0]),
                _ => {}
            }
        }
        let threads = bounds.required.map(product).or(bounds.max_threads);
        bounds.registers = most.or_else(|| shared_out(threads?, blocks?, function));
        bounds
    }
}

fn product(dims: [u32; 3]) -> u32 {
    dims.iter().fold(1, |product, dim| product.saturating_mul(*dim))
}

/// What each thread gets if this number of blocks shares a multiprocessor: a multiple of 8, and not more than the kernel asks for. This is what
/// ptxas 13.2 reports (`-v`).
fn shared_out(threads: u32, blocks: u32, function: &ptx::Function<'_>) -> Option<u32> {
    let warps = threads.div_ceil(32).saturating_mul(blocks).div_ceil(4).max(1);
    let share = PART / 32 / warps / 8 * 8;
    Some(share.min(largest_request(function.body.as_deref()?)?).min(255))
}

/// The largest operand of `setmaxnreg.inc`.
fn largest_request(statements: &[ptx::Statement<'_>]) -> Option<u32> {
    let request = |statement: &ptx::Statement<'_>| match statement {
        ptx::Statement::Block(block) => largest_request(&block.statements),
        ptx::Statement::Instruction(instruction) if instruction.opcode == "setmaxnreg" => {
            match instruction.operands.first() {
                Some(ptx::Operand::Integer(count)) if instruction.has("inc") => {
                    u32::try_from(count.magnitude).ok()
                }
                _ => None,
            }
        }
        _ => None,
    };
    statements.iter().filter_map(request).max()
}
