//! Label selectors match the same objects as in the API server, which is the oracle.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use kubecrier_k8s_api::LabelSelector;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::json;
use testbed::{User, namespace};

/// What people write, and what they should not.
const WRITTEN: [&str; 34] = [
    "",
    "a=1",
    "a==1",
    "a!=1",
    "a",
    "!a",
    "a in (1,2)",
    "a notin (1)",
    "a in ()",
    "a=",
    "a!=",
    "a>0",
    "a<2",
    "a>b",
    "a,b",
    "a,",
    ",a",
    "a=1,!b",
    "a in (1",
    "a in 1",
    "a =1",
    "a= 1",
    " a ",
    "a=1=2",
    "a=b/c",
    "x/a=1",
    "x.io/a",
    "X.io/a",
    "/a",
    "a/",
    "-a",
    "a-=1",
    "a=-1",
    "in=1",
];

/// Pieces that make selectors, good and bad ones.
fn anything() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[abx]",
        "[12]",
        Just("=".to_owned()),
        Just("!=".to_owned()),
        Just("==".to_owned()),
        Just("!".to_owned()),
        Just(",".to_owned()),
        Just(" in ".to_owned()),
        Just(" notin ".to_owned()),
        Just("(".to_owned()),
        Just(")".to_owned()),
        Just(">".to_owned()),
        Just("<".to_owned()),
        Just(" ".to_owned()),
        Just("x.io/a".to_owned()),
    ];
    let well = ("[abx]", "(=|!=|==| in | notin )", "[12]").prop_map(|(key, sign, value)| {
        if sign.contains("in") {
            format!("{key}{sign}({value},2)")
        } else {
            format!("{key}{sign}{value}")
        }
    });
    prop_oneof![
        prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(well, 1..4).prop_map(|parts| parts.join(",")),
    ]
}

#[tokio::test]
async fn a_selector_selects_what_the_api_server_selects() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create_cluster_wide(&namespace("selectors"))
        .await
        .unwrap();
    let all: [&[(&str, &str)]; 6] = [
        &[],
        &[("a", "1")],
        &[("a", "2"), ("b", "1")],
        &[("b", "2"), ("x", "1")],
        &[("a", ""), ("x.io/a", "1")],
        &[("a", "b")],
    ];
    let mut labels: Vec<BTreeMap<String, String>> = Vec::new();
    for (number, pairs) in all.iter().enumerate() {
        let own: BTreeMap<_, _> = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let object: ConfigMap = serde_json::from_value(json!({
            "metadata": {"namespace": "selectors", "name": format!("c-{number}"), "labels": own},
        }))
        .unwrap();
        bed.dev().create(&object).await.unwrap();
        labels.push(own);
    }
    let client = bed.dev().client(User::Admin).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "selectors");
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let made = (0..300).map(|_| anything().new_tree(&mut runner).unwrap().current());
    let written = WRITTEN.iter().map(ToString::to_string);
    let (mut accepted, mut refused) = (0, 0);
    for text in written.chain(made) {
        let params = ListParams::default().labels(&text);
        let theirs = match api.list(&params).await {
            Ok(found) => Some(found.items.len()),
            Err(kube::Error::Api(status)) if status.code == 400 => None,
            Err(error) => panic!("{text:?}: {error}"),
        };
        let ours = text.parse::<LabelSelector>().ok();
        // There is no controller manager, so nothing else is in the namespace.
        let ours = ours.map(|selector| {
            let selected = |one: &&BTreeMap<String, String>| {
                selector.matches(|key| one.get(key).map(String::as_str))
            };
            labels.iter().filter(selected).count()
        });
        match theirs {
            Some(_) => accepted += 1,
            None => refused += 1,
        }
        assert_eq!(ours, theirs, "`{text}`");
    }
    assert!(
        accepted > 50 && refused > 50,
        "{accepted} accepted, {refused} refused"
    );
}
