//! The classes of findings in the host's code: wrong use of memory, streams and errors of the CUDA API.

/// The class of a finding in the host's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostClass {
    /// Memory that is never freed.
    MemoryLeak,
    /// Memory that is used after it was freed.
    UseAfterFree,
    /// Memory that is freed twice.
    DoubleFree,
    /// An address that cannot be freed, or not by this function.
    InvalidFree,
    /// A copy or memset that is longer than its allocation.
    CopyBounds,
    /// A host pointer where the copy expects a device pointer, or the reverse.
    InvalidCopyDirection,
    /// Work of two streams, or of a stream and the host, that uses the same bytes without synchronization.
    StreamRace,
    /// A tensor map with an argument that breaks a rule.
    InvalidTensorMap,
    /// An error that no call returned.
    UnreadError,
}

impl HostClass {
    /// Every class, in the order of the book.
    pub const ALL: [HostClass; 9] = [
        HostClass::MemoryLeak,
        HostClass::UseAfterFree,
        HostClass::DoubleFree,
        HostClass::InvalidFree,
        HostClass::CopyBounds,
        HostClass::InvalidCopyDirection,
        HostClass::StreamRace,
        HostClass::InvalidTensorMap,
        HostClass::UnreadError,
    ];

    /// The stable name, used in machine-readable output and for the pages of the book.
    pub fn name(self) -> &'static str {
        match self {
            HostClass::MemoryLeak => "memory-leak",
            HostClass::UseAfterFree => "use-after-free",
            HostClass::DoubleFree => "double-free",
            HostClass::InvalidFree => "invalid-free",
            HostClass::CopyBounds => "copy-bounds",
            HostClass::InvalidCopyDirection => "invalid-copy-direction",
            HostClass::StreamRace => "stream-race",
            HostClass::InvalidTensorMap => "invalid-tensor-map",
            HostClass::UnreadError => "unread-error",
        }
    }

    /// What is wrong, in one sentence.
    pub fn summary(self) -> &'static str {
        self.description().0
    }

    /// What it means and how to fix it.
    pub fn explanation(self) -> &'static str {
        self.description().1
    }

    fn description(self) -> (&'static str, &'static str) {
        match self {
            HostClass::MemoryLeak => (
                "Memory is still allocated when the program ends.",
                "The program allocates memory and never frees it. A program that repeats this runs out of memory. Free the memory, \
                 or destroy its context.",
            ),
            HostClass::UseAfterFree => (
                "A kernel, copy or memset uses memory that was freed.",
                "The driver may give freed memory to another allocation. Free it after the last use, or do not use it.",
            ),
            HostClass::DoubleFree => (
                "The same memory is freed twice.",
                "The second call fails, or frees another allocation that got the same address. Free each allocation once.",
            ),
            HostClass::InvalidFree => (
                "An address is freed that the program cannot free, or with the wrong function.",
                "Only the address that an allocation returned can be freed, and only with the function for its kind of memory.",
            ),
            HostClass::CopyBounds => (
                "A copy or memset is longer than the allocation it reads or writes.",
                "The call fails, or it overwrites other memory. Compare the size, which is in bytes, with that of the allocation.",
            ),
            HostClass::InvalidCopyDirection => (
                "A copy gets a host pointer as a device pointer, or the reverse.",
                "The direction of the copy does not match its pointers, so its behavior is undefined. Swap the pointers or use the \
                 function for the other direction.",
            ),
            HostClass::StreamRace => (
                "Two streams, a stream and the host, or two overlapping kernels use the same bytes without synchronization.",
                "At least one of the two writes, and no event, stream order or synchronization orders them, so the result depends on \
                 timing. Record an event after the first and let the stream of the second wait for it, or synchronize; a dependent launch \
                 executes griddepcontrol.wait.",
            ),
            HostClass::InvalidTensorMap => (
                "A tensor map is made with an argument that breaks a rule of the driver API.",
                "cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col or cuTensorMapReplaceAddress returns CUDA_ERROR_INVALID_VALUE without \
                 naming the argument, and the map is not written. The finding names it and the rule.",
            ),
            HostClass::UnreadError => (
                "An operation failed and the program never reads the error.",
                "Errors of asynchronous work are returned by later calls. Synchronize and check the result before the program ends.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HostClass;

    #[test]
    fn every_class_has_a_page_in_the_book_and_a_name_of_its_own() {
        let book = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/checks");
        for class in HostClass::ALL {
            assert!(book.join(format!("{}.md", class.name())).is_file(), "{}", class.name());
            assert!(warpproof_check::Class::ALL.iter().all(|other| other.name() != class.name()));
        }
    }
}
