//! Names that task files and the ledger share.

/// An enumeration whose values have one name each, used in JSON, on the terminal and in tables.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// The stages a candidate goes through, in their order.
    Stage {
        /// It compiles for every declared target.
        Build = "build",
        /// Registers, shared bytes, stack frame, occupancy.
        Budget = "budget",
        /// It computes what the oracles compute.
        Correct = "correct",
        /// Races, barriers, copies, under several schedules.
        Checks = "checks",
        /// Its executed instructions and memory traffic.
        Counters = "counters",
        /// The predicted time on a named device.
        Model = "model",
        /// The measured time compared with the baseline.
        Speed = "speed",
        /// The device's own counters.
        Profile = "profile",
        /// A named peer on the same inputs.
        External = "external",
    }
}

words! {
    /// The required relation of a figure to its threshold.
    Comparison {
        /// Below.
        Less = "<",
        /// At most.
        AtMost = "<=",
        /// Equal.
        Equal = "==",
        /// At least.
        AtLeast = ">=",
        /// Above.
        Greater = ">",
    }
}

impl Comparison {
    /// The text before a limit in a message.
    pub fn words(self) -> &'static str {
        match self {
            Self::Less => "less than",
            Self::AtMost => "at most",
            Self::Equal => "exactly",
            Self::AtLeast => "at least",
            Self::Greater => "more than",
        }
    }

    /// Whether `value` has this relation to `bound`.
    pub fn holds<T: PartialOrd + Copy>(self, value: T, bound: T) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::Equal => value == bound,
            Self::AtLeast => value >= bound,
            Self::Greater => value > bound,
        }
    }
}
