//! The barriers in shared memory.
//!
//! An mbarrier is only the eight bytes it occupies, so a thread that overwrites them destroys it. From the lowest bit: 20
//! bits of pending arrivals, 20 bits of expected arrivals, 21 bits of pending transaction bytes (two's complement), a zero,
//! the parity of the phase, and a one that distinguishes a barrier from zeroed memory. The state that `arrive` returns is
//! this word before the arrival.

#![expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "bit fields of a 64-bit word")]

/// The most arrivals a phase can expect.
pub const MAX_COUNT: u32 = (1 << 20) - 1;

/// A decoded mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// Pending arrivals of this phase.
    pub pending: u32,
    /// Expected arrivals per phase.
    pub expected: u32,
    /// Pending transaction bytes of this phase.
    pub transactions: i32,
    /// Parity of the phase.
    pub parity: bool,
}

impl Mbarrier {
    /// Decodes the barrier in a word, if it is valid.
    pub fn unpack(word: u64) -> Result<Mbarrier, String> {
        if word >> 63 == 0 || word >> 61 & 1 != 0 {
            return Err(
                "use of an mbarrier that was never initialized, was invalidated or was overwritten".into()
            );
        }
        // Sign-extends the 21 bits.
        let transactions = (((word >> 40) as u32) << 11).cast_signed() >> 11;
        Ok(Mbarrier {
            pending: word as u32 & MAX_COUNT,
            expected: (word >> 20) as u32 & MAX_COUNT,
            transactions,
            parity: word >> 62 & 1 != 0,
        })
    }

    /// Encodes it as a word.
    pub fn pack(self) -> u64 {
        let transactions = u64::from(self.transactions.cast_unsigned() & 0x1f_ffff);
        let counts = u64::from(self.pending) | u64::from(self.expected) << 20;
        counts | transactions << 40 | u64::from(self.parity) << 62 | 1 << 63
    }

    /// A short description of what it waits for.
    pub fn lacks(self) -> String {
        let Mbarrier { pending, expected, transactions, parity } = self;
        let bytes = match transactions {
            0 => String::new(),
            1.. => format!(" and {transactions} bytes"),
            _ => format!(", and has received {} bytes more than expected", transactions.unsigned_abs()),
        };
        let phase = u32::from(parity);
        format!("is in a phase of parity {phase} and waits for {pending} more of {expected} arrivals{bytes}")
    }

    /// This number of threads arrive.
    pub fn arrive(&mut self, count: u32) -> Result<(), String> {
        if count == 0 || count > MAX_COUNT {
            return Err(format!("an arrival of {count} at an mbarrier; expected 1 to {MAX_COUNT}"));
        }
        if count > self.pending {
            return Err(format!(
                "{count} arrivals at an mbarrier that expects {} more in this phase",
                self.pending
            ));
        }
        self.pending -= count;
        self.settle();
        Ok(())
    }

    /// This phase expects this number of additional arrivals.
    pub fn expect(&mut self, count: u32) -> Result<(), String> {
        match self.pending.checked_add(count).filter(|pending| *pending <= MAX_COUNT) {
            Some(pending) => self.pending = pending,
            None => return Err(format!("more than {MAX_COUNT} pending arrivals at an mbarrier")),
        }
        Ok(())
    }

    /// This number of threads drop out of all later phases.
    pub fn drop(&mut self, count: u32) -> Result<(), String> {
        if count > self.expected {
            return Err(format!("{count} threads drop out of an mbarrier that expects {}", self.expected));
        }
        self.expected -= count;
        Ok(())
    }

    /// Expects more bytes or, for a negative number, has received some.
    pub fn transfer(&mut self, bytes: i64) -> Result<(), String> {
        let total = i64::from(self.transactions) + bytes;
        match i32::try_from(total).ok().filter(|total| total.unsigned_abs() <= MAX_COUNT) {
            Some(total) => self.transactions = total,
            None => {
                return Err(format!(
                    "a transaction count of {total} bytes at an mbarrier; the maximum is {MAX_COUNT}"
                ));
            }
        }
        Ok(())
    }

    /// Ends the phase if nothing is missing.
    pub fn settle(&mut self) {
        if self.pending == 0 && self.transactions == 0 {
            self.pending = self.expected;
            self.parity = !self.parity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_holds_all_fields() {
        for barrier in [
            Mbarrier { pending: 1, expected: MAX_COUNT, transactions: -1, parity: true },
            Mbarrier { pending: MAX_COUNT, expected: 3, transactions: (1 << 20) - 1, parity: false },
            Mbarrier { pending: 0, expected: 0, transactions: 1 - (1 << 20), parity: false },
        ] {
            assert_eq!(Mbarrier::unpack(barrier.pack()), Ok(barrier));
        }
        assert!(Mbarrier::unpack(0).is_err());
    }
}
