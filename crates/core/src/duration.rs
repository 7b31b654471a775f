//! Durations as people write them: `90s`, `15m`, `1h30m`, `2d`.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a length of time; write for example 90s, 15m, 1h30m or 2d")]
pub struct ParseDurationError(String);

/// Parses a duration.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let refuse = || ParseDurationError(text.to_owned());
    let mut rest = text.trim();
    let mut seconds: u64 = 0;
    if rest.is_empty() {
        return Err(refuse());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(refuse)?;
        let number: u64 = rest[..digits].parse().map_err(|_| refuse())?;
        let unit = rest[digits..].chars().next().ok_or_else(refuse)?;
        let scale = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(refuse()),
        };
        seconds = number
            .checked_mul(scale)
            .and_then(|more| seconds.checked_add(more))
            // A larger duration would leave the range of the calendar.
            .filter(|seconds| *seconds <= 100 * 365 * 86400)
            .ok_or_else(refuse)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    Ok(Duration::from_secs(seconds))
}

/// Formats a duration as kubectl shows ages: the two largest units at most.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 && !seconds.is_multiple_of(60) => format!("{minutes}m{}s", seconds % 60),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 && !minutes.is_multiple_of(60) => format!("{hours}h{}m", minutes % 60),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 && !hours.is_multiple_of(24) => format!("{days}d{}h", hours % 24),
        () => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, seconds: u64) {
        assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
    }

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        check("90s", 90);
        check("15m", 900);
        check("1h30m", 5400);
        check("2d", 172_800);
        check(" 5m ", 300);
        check("0s", 0);
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "5",
            "m",
            "5x",
            "-5m",
            "1.5h",
            "5 m",
            "99999999999999999999s",
            "9999999d",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("15m"),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,20}") {
            let _answer = parse(&text);
        }

        #[test]
        fn what_is_shown_can_be_read_again(seconds in 0..100_000_000_u64) {
            let shown = short(Duration::from_secs(seconds));
            let read = parse(&shown).unwrap().as_secs();
            prop_assert!(read <= seconds && seconds - read <= seconds / 8, "{shown}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_length_of_time_or_named(
            text in prop_oneof![any::<String>(), "[0-9]{0,25}[smhdµ ]{0,3}[0-9]{0,25}[smhd]?"],
        ) {
            match parse(&text) {
                Ok(time) => prop_assert!(time <= Duration::from_hours(100 * 365 * 24)),
                Err(error) => prop_assert!(error.to_string().contains(&text)),
            }
        }
    }
}
