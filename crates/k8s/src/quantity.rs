//! Kubernetes quantities: `250m`, `1536Mi`, `12345678n`, `1e3`.

/// The quantity as a number of whole units; `None` for a text that is no quantity.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    // `1e3` and `1E3` are numbers, `1E` has the suffix exa: only digits follow an exponent.
    if let Ok(number) = text.parse::<f64>() {
        let is_number_byte = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        return Some(number)
            .filter(|number| number.is_finite() && text.bytes().all(is_number_byte));
    }
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at(digits);
    let scale = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some(number * scale).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_what_kubernetes_means() {
        for (text, expected) in [
            ("0", 0.0),
            ("250m", 0.25),
            ("1.5", 1.5),
            ("1500000000n", 1.5),
            ("128Mi", 134_217_728.0),
            ("1k", 1000.0),
            ("2E", 2e18),
            ("1e3", 1000.0),
            ("1Ei", 1_152_921_504_606_846_976.0),
        ] {
            let amount = parse(text).unwrap();
            assert!(
                (amount - expected).abs() <= expected * 1e-9,
                "{text}: {amount}"
            );
        }
        for text in [
            "", "m", "1 m", "1mm", "inf", "NaN", "1KI", "-", "--1", "1e999",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn fuzz_any_text_is_a_finite_amount_or_none(text in "\\PC{0,20}|-?[0-9.]{0,6}[eE]?[a-zA-Z]{0,3}") {
            proptest::prop_assert!(parse(&text).is_none_or(f64::is_finite));
        }
    }
}
