//! Identifies the program of a PTX text: two texts that differ only in file names, line tables and layout are the
//! same program.

use warpproof_ptx::{Directive, Statement};

use warpproof_evidence::hash::Hash;

/// The hash of a module without the parts that are not executed.
pub(super) fn of(ptx: &str) -> Hash {
    hash(ptx, false)
}

/// Like [`of`], without the target it is compiled for.
pub(super) fn of_code(ptx: &str) -> Hash {
    hash(ptx, true)
}

fn hash(ptx: &str, any_target: bool) -> Hash {
    let (mut module, _) = warpproof_ptx::parse(ptx);
    if any_target {
        module.directives.retain(|directive| !matches!(directive, Directive::Target(_)));
    }
    module.directives.retain(|directive| {
        !matches!(
            directive,
            Directive::File(_) | Directive::Section(_) | Directive::Loc(_) | Directive::Dwarf(_)
        )
    });
    for directive in &mut module.directives {
        if let Directive::Function(function) = directive
            && let Some(body) = &mut function.body
        {
            without_lines(body);
        }
    }
    Hash::of(warpproof_ptx::print(&module).as_bytes())
}

fn without_lines(statements: &mut Vec<Statement<'_>>) {
    statements.retain(|statement| !matches!(statement, Statement::Loc(_) | Statement::Dwarf(_)));
    for statement in statements {
        if let Statement::Block(block) = statement {
            without_lines(&mut block.statements);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = ".version 8.8\n.target sm_89\n.address_size 64\n.visible .entry f()\n{\n\t.reg .b32 \t%r<2>;\n\tmov.u32 \t%r1, 7;\n\tret;\n}\n";

    #[test]
    fn lines_and_files_are_no_part_of_a_program() {
        let lined = PLAIN.replace("\tmov", "\t.loc\t1 3 5\n\tmov") + "\t.file\t1 \"elsewhere/f.cu\"\n";
        assert_ne!(PLAIN, lined);
        assert_eq!(of(PLAIN), of(&lined));
        assert_ne!(of(PLAIN), of(&PLAIN.replace('7', "8")));
    }
}
