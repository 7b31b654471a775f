//! Counts the bytes that the rules look at. Tests compare the count with the length of a
//! text: it tells more reliably than a clock that no text makes the rules slow.

#[cfg(test)]
thread_local! {
    static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Notes that a rule has looked at this many bytes. Costs nothing outside of tests.
#[cfg(not(test))]
pub(super) fn examined(_bytes: usize) {}

#[cfg(test)]
pub(super) fn examined(bytes: usize) {
    EXAMINED.with(|count| count.set(count.get() + bytes));
}

/// The number of bytes that were looked at while `work` ran.
#[cfg(test)]
pub(super) fn examined_by(work: impl FnOnce()) -> usize {
    EXAMINED.with(|count| count.set(0));
    work();
    EXAMINED.with(std::cell::Cell::get)
}
