//! Pages of a list. A cursor is bound to the list it came from and to its content: after a
//! change it is stale, so that it never silently skips an item.

use std::ops::Range;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// The default number of items on a page.
pub const PAGE_DEFAULT: usize = 50;
/// The maximum number of items on a page.
const PAGE_MAX: usize = 200;

/// The length of the hash in a cursor: long enough that two contents never share it.
const HASH_CHARS: usize = 32;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The indexes of its items.
    pub range: Range<usize>,
    /// The cursor of the next page; the last page has none.
    pub next: Option<String>,
}

/// Says why a cursor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// It was not made by this server, or for another list.
    #[error("the cursor is not one of this list; start again without a cursor")]
    Foreign,
    /// The list has changed since the cursor was made.
    #[error("the list has changed since that cursor was made; start again without a cursor")]
    Stale,
}

/// The page at `cursor` of a list with `total` items whose content has this hash.
pub fn page(
    collection: &str,
    hash: &str,
    total: usize,
    size: usize,
    cursor: Option<&str>,
) -> Result<Page, CursorError> {
    let hash = hash.get(..HASH_CHARS).unwrap_or(hash);
    let start = match cursor {
        None => 0,
        Some(cursor) => start_of(collection, hash, total, cursor)?,
    };
    let end = start.saturating_add(size.clamp(1, PAGE_MAX)).min(total);
    let next =
        (end < total).then(|| URL_SAFE_NO_PAD.encode(format!("1\n{collection}\n{hash}\n{end}")));
    Ok(Page {
        range: start..end,
        next,
    })
}

fn start_of(
    collection: &str,
    hash: &str,
    total: usize,
    cursor: &str,
) -> Result<usize, CursorError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(cursor)
        .map_err(|_| CursorError::Foreign)?;
    let text = String::from_utf8(bytes).map_err(|_| CursorError::Foreign)?;
    let parts: Vec<_> = text.split('\n').collect();
    let ["1", of, fingerprint, start] = parts[..] else {
        return Err(CursorError::Foreign);
    };
    let start: usize = start.parse().map_err(|_| CursorError::Foreign)?;
    if of != collection {
        return Err(CursorError::Foreign);
    }
    if fingerprint != hash {
        return Err(CursorError::Stale);
    }
    // No cursor is made for the beginning, and none past the end.
    if start == 0 || start >= total {
        return Err(CursorError::Foreign);
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123";

    fn cursor() -> String {
        page("tools", HASH, 120, PAGE_DEFAULT, None)
            .unwrap()
            .next
            .unwrap()
    }

    #[test]
    fn a_default_page_has_fifty_items_and_the_last_no_cursor() {
        let first = page("tools", HASH, 120, PAGE_DEFAULT, None).unwrap();
        assert_eq!(first.range, 0..50);
        let second = page("tools", HASH, 120, PAGE_DEFAULT, first.next.as_deref()).unwrap();
        assert_eq!(second.range, 50..100);
        let third = page("tools", HASH, 120, PAGE_DEFAULT, second.next.as_deref()).unwrap();
        assert_eq!((third.range, third.next), (100..120, None));
        assert_eq!(page("tools", HASH, 0, 50, None).unwrap().next, None);
        assert_eq!(
            page("tools", HASH, 900, 900, None).unwrap().range,
            0..PAGE_MAX
        );
    }

    #[test]
    fn a_cursor_is_bound_to_its_list_and_its_content() {
        let cursor = Some(cursor());
        let at = |list, hash, total| page(list, hash, total, 50, cursor.as_deref());
        assert!(at("tools", HASH, 120).is_ok());
        assert_eq!(at("prompts", HASH, 120), Err(CursorError::Foreign));
        assert_eq!(at("tools", "another", 120), Err(CursorError::Stale));
        assert_eq!(at("tools", HASH, 50), Err(CursorError::Foreign));
    }

    #[test]
    fn a_forged_cursor_is_rejected() {
        let forged = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let short = &HASH[..HASH_CHARS];
        for bad in [
            String::new(),
            "50".to_owned(),
            "%%%".to_owned(),
            format!("{}x", cursor()),
            forged(&format!("1\ntools\n{short}\n0")),
            forged(&format!("1\ntools\n{short}\n-1")),
            forged(&format!("1\ntools\n{short}\n99999999999999999999999")),
            forged(&format!("2\ntools\n{short}\n50")),
            forged(&format!("1\ntools\n{short}\n50\n")),
        ] {
            let answer = page("tools", HASH, 120, 50, Some(&bad));
            assert_eq!(answer, Err(CursorError::Foreign), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_pages_are_the_list(total in 0_usize..1000, size in 1_usize..300) {
            let (mut seen, mut cursor) = (0, None);
            loop {
                let Page { range, next } = page("x", HASH, total, size, cursor.as_deref()).unwrap();
                prop_assert_eq!(range.start, seen);
                prop_assert!(range.len() <= size.min(PAGE_MAX));
                prop_assert!(next.is_none() || !range.is_empty());
                seen = range.end;
                cursor = next;
                if cursor.is_none() { break; }
            }
            prop_assert_eq!(seen, total);
        }
    }
}
