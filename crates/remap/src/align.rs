//! Alignment: padding between control information and data, and what an application does to avoid a copy.

/// What is known about the place where a PDU's data are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Octets of control information that the receiver keeps before a PDU, in the same pages.
    pub control: usize,
    /// Octets of protocol headers before the data.
    pub headers: usize,
    /// Where the application's buffer begins in its page.
    pub placement: usize,
}

impl Wanted {
    /// Octets of padding between control information and PDU, so that the data lie in a page as they do in the
    /// application's buffer: less than a page.
    pub const fn padding(&self, page: usize) -> usize {
        (self.placement % page + page - (self.control + self.headers) % page) % page
    }

    /// Where the PDU begins, from the start of its first page on.
    pub const fn pdu_at(&self, page: usize) -> usize {
        self.control + self.padding(page)
    }
}

/// What an application is told: how to place its buffers so that nothing is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Octets of a page: only whole pages change hands.
    pub page: usize,
    /// A buffer begins so many octets behind a multiple of the page.
    pub offset: usize,
}

impl Alignment {
    /// Octets of a buffer of `octets` octets at `address` that are passed without a copy.
    pub const fn whole(&self, address: u64, octets: usize) -> usize {
        if address as usize % self.page != self.offset % self.page {
            return 0;
        }
        let before = (self.page - address as usize % self.page) % self.page;
        if octets < before { 0 } else { (octets - before) / self.page * self.page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn with_its_padding_data_lie_where_the_application_wants_them(control in 0usize..200, headers in 0usize..9000, placement in 0usize..9000) {
            let wanted = Wanted { control, headers, placement };
            prop_assert!(wanted.padding(4096) < 4096);
            prop_assert_eq!((wanted.pdu_at(4096) + headers) % 4096, placement % 4096);
        }
    }

    #[test]
    fn only_whole_pages_of_an_aligned_buffer_pass_without_a_copy() {
        let told = Alignment { page: 4096, offset: 0 };
        assert_eq!([4095, 4096, 9188].map(|octets| told.whole(0x2000, octets)), [0, 4096, 8192]);
        assert_eq!(told.whole(0x2004, 9188), 0);
        let odd = Alignment { page: 4096, offset: 36 };
        assert_eq!([4059, 4060, 8156, 8155].map(|octets| odd.whole(0x2024, octets)), [0, 0, 4096, 0]);
    }
}
