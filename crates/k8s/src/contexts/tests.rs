use std::{fs, time::SystemTime};

use super::*;
use crate::AllowedNames;

/// Watches are opened anew for each change, so what is none must not count.
#[test]
fn a_kubeconfig_counts_as_changed_when_something_else_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let mut turn = 0;
    let mut write = |context: &str| {
        let text = format!("contexts: [{{name: {context}, context: {{cluster: c}}}}]");
        fs::write(&path, text).unwrap();
        turn += 1;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(turn);
        let times = fs::FileTimes::new().set_modified(time);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_times(times).unwrap();
    };
    write("one");
    let contexts = Contexts::new(Config {
        kubeconfig: Some(path.clone()),
        context: None,
        request_timeout: Duration::from_secs(1),
        redactor: Redactor::default(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: ClusterIdentity::default(),
    });
    let now = |name: &str| {
        assert_eq!(contexts.list().unwrap()[0].name, name);
        contexts.generation()
    };
    assert_eq!(now("one"), 0);
    write("one");
    assert_eq!(now("one"), 0);
    write("two");
    assert_eq!(now("two"), 1);
    write("two");
    write("two");
    assert_eq!((now("two"), now("two")), (1, 1));
    fs::remove_file(&path).unwrap();
    assert!(contexts.list().is_err());
    assert_eq!(contexts.generation(), 2);
    write("two");
    assert_eq!(now("two"), 3, "it can be read again");
}

/// Who may read what is asked again in another cluster, and only there.
#[test]
fn another_cluster_is_told_from_another_user_of_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let contexts = Contexts::new(Config {
        kubeconfig: Some(path.clone()),
        context: None,
        request_timeout: Duration::from_secs(1),
        redactor: Redactor::default(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: ClusterIdentity::default(),
    });
    let now = |clusters: &str, contexts_text: &str| {
        let text = format!("{{clusters: [{clusters}], contexts: [{contexts_text}]}}");
        fs::write(&path, text).unwrap();
        contexts.state.lock().stamp = Vec::new();
        contexts.named_clusters().unwrap()
    };
    let one = "{name: one, cluster: {server: 'https://one'}}";
    let two = "{name: two, cluster: {server: 'https://two'}}";
    let both = format!("{one}, {two}");
    let dev = "{name: dev, context: {cluster: one, user: ann}}";
    let first = now(&both, dev);
    let same = now(
        &both,
        "{name: dev, context: {cluster: one, user: bob, namespace: shop}}",
    );
    assert_eq!(same.renamed_since(&first), [""; 0]);
    let more = now(
        &both,
        &format!("{dev}, {{name: prod, context: {{cluster: two}}}}"),
    );
    assert_eq!(
        more.renamed_since(&first),
        [""; 0],
        "a new one was never asked"
    );
    let moved = now(&both, "{name: dev, context: {cluster: two}}");
    assert_eq!(moved.renamed_since(&first), ["dev"]);
    let anew = "{name: one, cluster: {server: 'https://one', certificate-authority-data: eA==}}";
    assert_eq!(
        now(anew, dev).renamed_since(&first),
        ["dev"],
        "recreated at its address"
    );
    // One that was gone meanwhile is compared with what it was.
    let gone = now(&both, "").over(first);
    assert_eq!(moved.renamed_since(&gone), ["dev"]);
}

/// Nothing asks for a context here: the poll alone has to notice.
#[tokio::test(start_paused = true)]
async fn a_changed_kubeconfig_is_noticed_without_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let contexts = Contexts::new(Config {
        kubeconfig: Some(path.clone()),
        context: None,
        request_timeout: Duration::from_secs(1),
        redactor: Redactor::default(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: ClusterIdentity::default(),
    });
    assert!(contexts.list().is_err(), "there is no file yet");
    let noticed = async {
        fs::write(&path, "contexts: [{name: one, context: {cluster: c}}]").unwrap();
        contexts.changed_since(0).await;
        fs::write(&path, "contexts: [{name: another, context: {cluster: c}}]").unwrap();
        contexts.changed_since(1).await;
    };
    tokio::select! {
        _never = contexts.watch_kubeconfig() => {}
        () = noticed => {}
    }
    assert_eq!(contexts.list().unwrap()[0].name, "another");
    assert_eq!(contexts.generation(), 2, "the list found no further change");
}

/// One kubeconfig with these contexts, of which some are allowed.
fn with_contexts(names: &[&str], allowed: &[&str]) -> (tempfile::TempDir, Contexts) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let contexts: Vec<_> = names
        .iter()
        .map(|name| format!("{{name: {name}, context: {{cluster: c, namespace: own}}}}"))
        .collect();
    let text = format!(
        "current-context: {}\ncontexts: [{}]",
        names[0],
        contexts.join(", ")
    );
    fs::write(&path, text).unwrap();
    let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    let contexts = Contexts::new(Config {
        kubeconfig: Some(path),
        context: None,
        request_timeout: Duration::from_secs(1),
        redactor: Redactor::default(),
        demo: None,
        denied: DeniedKinds::default(),
        allowed: Allowed {
            contexts: AllowedNames::contexts(&allowed).unwrap(),
            namespaces: AllowedNames::namespaces(&["shop".to_owned()]).unwrap(),
            ..Allowed::default()
        },
        identity: ClusterIdentity::default(),
    });
    (dir, contexts)
}

/// A caller cannot tell a context that is not allowed from one that does not exist.
#[tokio::test]
async fn a_context_that_is_not_allowed_does_not_exist() {
    let (_dir, contexts) = with_contexts(&["prod", "dev-a", "dev-b"], &["dev-*"]);
    let listed = contexts.list().unwrap();
    let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["dev-a", "dev-b"]);
    assert!(
        listed
            .iter()
            .all(|one| !one.default && one.namespace == "shop")
    );
    assert_eq!(contexts.resolve(Some("dev-b")).unwrap(), "dev-b");
    let text = |name: &str| {
        let error = contexts.resolve(Some(name)).unwrap_err();
        let cluster = format!("{error:?}");
        cluster.replace(name, "NAME")
    };
    assert_eq!(text("prod"), text("none"));
    assert!(!text("none").contains("prod"), "{}", text("none"));
    assert!(
        contexts
            .cluster(&Actor::Server, Some("prod"))
            .await
            .is_err()
    );
    // The current context is not allowed, so a call has to name one.
    let error = contexts.resolve(None).unwrap_err();
    assert_eq!(error.hint().map(|hint| hint.contains("prod")), Some(false));
    let (_dir, contexts) = with_contexts(&["prod", "dev"], &["dev"]);
    assert_eq!(contexts.resolve(None).unwrap(), "dev", "the only one");
}

#[tokio::test]
async fn a_caller_without_a_user_asks_no_cluster() {
    let cluster = demo_cluster::DemoCluster::new(demo_cluster::Options::default());
    let contexts = |identity| {
        let demo = Some(Demo::new(&cluster));
        let config = Contexts::of_demo(&cluster).config.clone();
        Contexts::new(Config {
            demo,
            identity,
            ..config
        })
    };
    let user = Arc::new(KubernetesUser::new("ann", ["dev"]).unwrap());
    let (server, nobody) = (Actor::Server, Actor::Caller(None));
    let caller = Actor::Caller(Some(user));
    let shared = contexts(ClusterIdentity::Shared);
    for actor in [&server, &nobody, &caller] {
        assert!(shared.cluster(actor, None).await.is_ok());
    }
    let acting = contexts(ClusterIdentity::Impersonate);
    assert!(acting.cluster(&server, None).await.is_ok());
    assert!(acting.cluster(&caller, None).await.is_ok());
    let refused = acting.cluster(&nobody, None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    assert!(
        refused.to_string().contains("no Kubernetes user"),
        "{refused}"
    );
    assert_eq!(acting.connected(), 1, "one client for all");
}

/// Two users at once would be a third one.
#[tokio::test]
async fn a_context_that_acts_as_another_user_cannot_act_as_callers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let text = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n\
                clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: u, user: {token: t, as: admin}}]\n";
    fs::write(&path, text).unwrap();
    let contexts = |identity| {
        Contexts::new(Config {
            kubeconfig: Some(path.clone()),
            context: None,
            request_timeout: Duration::from_secs(5),
            redactor: Redactor::default(),
            demo: None,
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity,
        })
    };
    let shared = contexts(ClusterIdentity::Shared);
    assert!(shared.cluster(&Actor::Server, None).await.is_ok());
    let refused = contexts(ClusterIdentity::Impersonate);
    let refused = refused.cluster(&Actor::Server, None).await.unwrap_err();
    assert!(
        refused.to_string().contains("`as` in the kubeconfig"),
        "{refused}"
    );
}
