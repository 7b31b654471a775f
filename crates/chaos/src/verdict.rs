//! Whether a subscriber got everything: at least once, in order, doubles with the same `eventId`.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    creating::Created,
    heard::{self, Gap, Heard, Trouble},
};

/// Clocks of the API server and of a gap are of one machine, and rounded.
const ROUNDING: u32 = 1000;

/// Ranges that a report names.
const RANGES_MAX: usize = 200;

/// The verdict on one subscriber.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict {
    pub(crate) name: String,
    pub(crate) got: usize,
    /// Events that are missing, and of which nothing was said.
    pub(crate) lost: Numbers,
    /// Events that are missing, and whose time is in a gap that was announced.
    pub(crate) announced: Numbers,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) doubles: u64,
    /// Doubles with another `eventId` than the first, and events with another than theirs.
    pub(crate) renamed: Numbers,
    /// Events that came after one with a higher resourceVersion.
    pub(crate) disordered: Numbers,
    pub(crate) trouble: Trouble,
}

/// Some numbers of events, and how many there are.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Numbers {
    pub(crate) count: usize,
    /// The first and the last number of each range, as far as there are not too many.
    pub(crate) ranges: Vec<(u32, u32)>,
}

// === impl Verdict ===

impl Verdict {
    pub(crate) fn of(name: String, heard: &Heard, created: &[Created]) -> Self {
        let by_number: HashMap<_, _> = created.iter().map(|one| (one.number, one)).collect();
        let mut verdict = Self {
            name,
            got: heard.order.len(),
            lost: Numbers::default(),
            announced: Numbers::default(),
            gaps: heard.gaps.clone(),
            doubles: heard.doubles,
            renamed: Numbers::default(),
            disordered: Numbers::default(),
            trouble: heard.trouble.clone(),
        };
        for number in &heard.renamed {
            verdict.renamed.push(*number);
        }
        for one in created {
            match heard.first(one.number) {
                Some(first) if first.id != heard::hash(&one.event_id) => {
                    verdict.renamed.push(one.number);
                }
                Some(_) => {}
                None if heard.gaps.iter().any(|gap| covers(gap, one)) => {
                    verdict.announced.push(one.number);
                }
                None => verdict.lost.push(one.number),
            }
        }
        let mut newest = 0;
        for number in &heard.order {
            let Some(one) = by_number.get(number) else {
                continue;
            };
            if one.version < newest {
                verdict.disordered.push(*number);
            }
            newest = newest.max(one.version);
        }
        verdict
    }

    /// Whether the promise held.
    pub(crate) fn holds(&self) -> bool {
        let broken = [&self.lost, &self.renamed, &self.disordered];
        broken.iter().all(|numbers| numbers.count == 0)
            && self.trouble.not_found.is_empty()
            && self.trouble.started_over.is_empty()
    }
}

fn covers(gap: &Gap, one: &Created) -> bool {
    gap.since <= one.accepted.saturating_add(ROUNDING) && one.sent <= gap.at
}

// === impl Numbers ===

impl Numbers {
    fn push(&mut self, number: u32) {
        self.count += 1;
        if let Some((_, last)) = self.ranges.last_mut()
            && *last + 1 == number
        {
            *last = number;
        } else if self.ranges.len() < RANGES_MAX {
            self.ranges.push((number, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        clock::Clock,
        wire::{Entry, EventText},
    };

    fn created() -> Vec<Created> {
        let numbers = 0..5;
        let created = numbers.map(|number| Created {
            number,
            version: 100 + u64::from(number),
            event_id: format!("u{number}:1"),
            sent: 0,
            accepted: 0,
        });
        created.collect()
    }

    fn heard(events: &[(u32, &str)]) -> Heard {
        let mut heard = Heard::new(Clock::start(), Arc::default());
        for (number, id) in events {
            heard.entry(&Entry {
                event_id: Some((*id).into()),
                event: Some(EventText {
                    message: format!("chaos n={number}").into(),
                }),
                gap: None,
            });
        }
        heard
    }

    type Ranges = Vec<(u32, u32)>;

    fn verdict(heard: &Heard) -> (bool, Ranges, Ranges, Ranges) {
        let verdict = Verdict::of("one".to_owned(), heard, &created());
        let holds = verdict.holds();
        let Verdict {
            lost,
            renamed,
            disordered,
            ..
        } = verdict;
        (holds, lost.ranges, renamed.ranges, disordered.ranges)
    }

    const ALL: [(u32, &str); 5] = [
        (0, "u0:1"),
        (1, "u1:1"),
        (2, "u2:1"),
        (3, "u3:1"),
        (4, "u4:1"),
    ];

    #[test]
    fn everything_in_order_with_doubles_is_what_was_promised() {
        let mut doubled = ALL[..4].to_vec();
        doubled.extend(&ALL[1..]);
        assert_eq!(verdict(&heard(&doubled)), (true, vec![], vec![], vec![]));
    }

    #[test]
    fn what_is_missing_is_lost_unless_it_was_announced() {
        let mut some = heard(&ALL[..3]);
        assert_eq!(verdict(&some), (false, vec![(3, 4)], vec![], vec![]));
        some.gap(Some(0), "a hole");
        assert_eq!(verdict(&some), (true, vec![], vec![], vec![]));
    }

    #[test]
    fn another_order_and_other_ids_are_seen() {
        let mut mixed = ALL.to_vec();
        mixed.swap(1, 2);
        assert_eq!(
            verdict(&heard(&mixed)),
            (false, vec![], vec![], vec![(1, 1)])
        );
        let mut renamed = ALL.to_vec();
        renamed.push((4, "u4:2"));
        renamed[2].1 = "u9:1";
        assert_eq!(
            verdict(&heard(&renamed)),
            (false, vec![], vec![(4, 4), (2, 2)], vec![])
        );
    }
}
