//! The counts of a PTX run, given to the blocks of its machine code.
