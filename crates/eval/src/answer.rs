//! What an answer in text says: which object each line is about.

use kubecrier_incidents::eval::{Answer, Line};

/// Words that begin the name of an object, as in `shop/deployment/cart` and `node/worker-1`.
const KINDS: [&str; 27] = [
    "apiservice",
    "configmap",
    "cronjob",
    "daemonset",
    "deployment",
    "endpointslice",
    "gateway",
    "horizontalpodautoscaler",
    "httproute",
    "ingress",
    "job",
    "limitrange",
    "mutatingwebhookconfiguration",
    "namespace",
    "node",
    "persistentvolume",
    "persistentvolumeclaim",
    "pod",
    "poddisruptionbudget",
    "priorityclass",
    "replicaset",
    "resourcequota",
    "secret",
    "service",
    "serviceaccount",
    "statefulset",
    "storageclass",
];

/// Kinds of which only the answers know.
const OTHERS: [&str; 4] = ["image", "registry", "hpa", "validatingwebhookconfiguration"];

/// The lines of an answer. Those about an object come first, in their order.
pub(crate) fn read(text: &str) -> Answer {
    let mut columns = None;
    let mut about = Vec::new();
    let mut others = Vec::new();
    for text in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(header) = Columns::of(text) {
            columns = Some(header);
        }
        let in_column = columns.as_ref().and_then(|columns| columns.object(text));
        let named = in_column.or_else(|| named(text));
        // What is indented belongs to the line above.
        let is_detail = text.starts_with(char::is_whitespace);
        let is_headline = named.is_some() && !is_detail;
        let line = Line {
            is_warning: is_headline && !is_hint(text),
            object: named.filter(|_| !is_detail).unwrap_or_default(),
            text: text.to_owned(),
        };
        if is_headline {
            about.push(line);
        } else {
            others.push(line);
        }
    }
    about.append(&mut others);
    Answer { lines: about }
}

/// Whether a line says itself that it is no warning: `... [info i-4f2]`, or `info ...`.
fn is_hint(line: &str) -> bool {
    let before = line.split('/').next().unwrap_or_default();
    let behind = line.rsplit('[').next().unwrap_or_default();
    let behind = if behind.ends_with(']') { behind } else { "" };
    let letters = |letter: char| !letter.is_alphanumeric();
    let mut words = before.split(letters).chain(behind.split(letters));
    words.any(|word| word.eq_ignore_ascii_case("info"))
}

/// The first `namespace/kind/name` or `kind/name` of a line.
fn named(line: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || "-./_".contains(letter);
    let tokens = line.split(|letter: char| !is_part(letter));
    let object = |token: &str| {
        let token = token.trim_end_matches(['.', '/', '-']);
        let parts: Vec<_> = token.split('/').collect();
        let (kind, name) = match &*parts {
            [kind, name] | [_, kind, name] => (kind.to_lowercase(), name),
            _ => return None,
        };
        let is_kind = KINDS.contains(&&*kind) || OTHERS.contains(&&*kind);
        (is_kind && !name.is_empty()).then(|| token.to_owned())
    };
    tokens.into_iter().find_map(object)
}

/// Where a table has the names of its objects.
struct Columns {
    namespace: usize,
    pod: usize,
}

// === impl Columns ===

impl Columns {
    fn of(header: &str) -> Option<Self> {
        let cells = cells(header);
        let at = |wanted: &str| cells.iter().position(|cell| *cell == wanted);
        Some(Self {
            namespace: at("NAMESPACE")?,
            pod: at("POD")?,
        })
    }

    fn object(&self, row: &str) -> Option<String> {
        let cells = cells(row);
        let (namespace, pod) = (cells.get(self.namespace)?, cells.get(self.pod)?);
        let is_of_a_name = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter)
        };
        let is_name = |text: &str| text.chars().all(is_of_a_name);
        (is_name(namespace) && is_name(pod)).then(|| format!("{namespace}/pod/{pod}"))
    }
}

/// The cells of a row, which are two spaces apart at least.
fn cells(row: &str) -> Vec<&str> {
    row.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Vec<(String, bool)> {
        let lines = read(text).lines.into_iter();
        lines.map(|line| (line.object, line.is_warning)).collect()
    }

    #[test]
    fn a_table_of_pods_names_pods() {
        let text = "FAULT  LAST SEEN  COUNT  REASON  NAMESPACE  POD  WHAT\n\
                    f-1    2m         3      BackOff  shop      cart-1  Back-off restarting pod/cart-1\n\
                    f-2    3m         1      Failed   shop      web-2   no such host";
        let found = objects(text);
        assert_eq!(found[0], ("shop/pod/cart-1".to_owned(), true));
        assert_eq!(found[1], ("shop/pod/web-2".to_owned(), true));
        assert_eq!(found[2], (String::new(), false));
    }

    #[test]
    fn a_headline_names_its_object_first_whatever_stands_before() {
        let text = "2 incidents in dev\n\
                    i-4f2 critical shop/deployment/cart: crashes, says registry.example/pod/x, for 3 min\n  \
                      shop/service/cart: has no address\n\
                    i-99 info node/worker-1: was cordoned\n\
                    shop/pod/crawl: was preempted, for 3 min [info i-12]\n";
        let found = objects(text);
        let expected = [
            ("shop/deployment/cart", true),
            ("node/worker-1", false),
            ("shop/pod/crawl", false),
            ("", false),
            ("", false),
        ];
        assert_eq!(
            found,
            expected.map(|(object, is_warning)| (object.to_owned(), is_warning))
        );
    }

    #[test]
    fn an_answer_without_objects_accuses_nobody() {
        assert_eq!(objects("no faults found"), [(String::new(), false)]);
        assert!(objects("").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn fuzz_every_line_is_kept(text in "[ a-z/\n]{0,80}") {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            proptest::prop_assert_eq!(read(&text).lines.len(), lines);
        }
    }
}
