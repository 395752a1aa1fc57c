//! Removes source locations from trees, so that two trees can be compared by meaning.

use crate::{Directive, Function, FunctionDirective, Module, Span, Statement, Variable};

const NOWHERE: Span = Span { start: 0, end: 0 };

impl Module<'_> {
    /// Sets every span to zero, so that `==` compares structure alone.
    #[must_use]
    pub fn without_spans(mut self) -> Self {
        for directive in &mut self.directives {
            match directive {
                Directive::Version(version) => version.span = NOWHERE,
                Directive::Target(target) => target.span = NOWHERE,
                Directive::AddressSize(size) => size.span = NOWHERE,
                Directive::File(file) => file.span = NOWHERE,
                Directive::Section(section) => section.span = NOWHERE,
                Directive::Pragma(pragma) => pragma.span = NOWHERE,
                Directive::Variable(variable) => erase_variable(variable),
                Directive::Function(function) => erase_function(function),
                Directive::Alias(alias) => alias.span = NOWHERE,
                Directive::Loc(loc) => loc.span = NOWHERE,
                Directive::Dwarf(line) => line.span = NOWHERE,
            }
        }
        self
    }
}

fn erase_variable(variable: &mut Variable<'_>) {
    variable.span = NOWHERE;
    variable.names.iter_mut().for_each(|name| name.span = NOWHERE);
}

fn erase_directives(directives: &mut [FunctionDirective<'_>]) {
    for directive in directives {
        directive.span = NOWHERE;
    }
}

fn erase_function(function: &mut Function<'_>) {
    function.span = NOWHERE;
    function.name_span = NOWHERE;
    function.returns.iter_mut().for_each(erase_variable);
    function.params.iter_mut().for_each(erase_variable);
    erase_directives(&mut function.directives);
    function.body.iter_mut().flatten().for_each(erase_statement);
}

fn erase_statement(statement: &mut Statement<'_>) {
    match statement {
        Statement::Label(label) => label.span = NOWHERE,
        Statement::Instruction(instruction) => instruction.span = NOWHERE,
        Statement::Variable(variable) => erase_variable(variable),
        Statement::Block(block) => {
            block.span = NOWHERE;
            block.statements.iter_mut().for_each(erase_statement);
        }
        Statement::Loc(loc) => loc.span = NOWHERE,
        Statement::Pragma(pragma) => pragma.span = NOWHERE,
        Statement::CallPrototype(prototype) => {
            prototype.span = NOWHERE;
            prototype.returns.iter_mut().for_each(erase_variable);
            prototype.params.iter_mut().for_each(erase_variable);
            erase_directives(&mut prototype.directives);
        }
        Statement::CallTargets(list) | Statement::BranchTargets(list) => list.span = NOWHERE,
        Statement::Dwarf(line) => line.span = NOWHERE,
    }
}
