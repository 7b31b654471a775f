//! Isolation of the two clusters, and the permissions of users.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod},
};
use kube::{Api, api::ListParams, config::KubeConfigOptions};
use testbed::{Testbed, User, Validity, namespace};

#[tokio::test]
async fn clusters_share_nothing() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create_cluster_wide(&namespace("only-in-dev"))
        .await
        .unwrap();
    let there = |client| async move {
        let namespaces: Api<Namespace> = Api::all(client);
        namespaces.get_opt("only-in-dev").await.unwrap().is_some()
    };
    assert!(there(bed.dev().client(User::Admin).await.unwrap()).await);
    assert!(!there(bed.prod().client(User::Admin).await.unwrap()).await);
    assert_ne!(bed.dev().authority_pem(), bed.prod().authority_pem());
}

/// 0 for allowed, else the HTTP status.
async fn list_pods(bed: &Testbed, user: User, namespace: &str) -> u16 {
    let pods: Api<Pod> = Api::namespaced(bed.dev().client(user).await.unwrap(), namespace);
    match pods.list(&ListParams::default()).await {
        Ok(_) => 0,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn rbac_decides() {
    let Some(bed) = testbed::shared() else { return };
    assert_eq!(list_pods(bed, User::Reader, "default").await, 0);
    assert_eq!(list_pods(bed, User::TeamA, "team-a").await, 0);
    assert_eq!(list_pods(bed, User::TeamA, "default").await, 403);
    assert_eq!(list_pods(bed, User::Unprivileged, "default").await, 403);
    assert_eq!(list_pods(bed, User::Unknown, "default").await, 401);
}

#[tokio::test]
async fn an_expired_client_certificate_is_not_accepted() {
    let Some(bed) = testbed::shared() else { return };
    let answer = |when| async move {
        let issued = bed
            .dev()
            .authority()
            .client("eve", "system:masters", when)
            .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        testbed::Kubeconfig::new()
            .certificate_context("dev", bed.dev(), &issued)
            .current("dev")
            .write(file.path())
            .unwrap();
        let read = kube::config::Kubeconfig::read_from(file.path()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .unwrap();
        let client = kube::Client::try_from(config).unwrap();
        Api::<Namespace>::all(client)
            .list(&ListParams::default())
            .await
            .is_ok()
    };
    assert!(answer(Validity::Current).await);
    assert!(!answer(Validity::Expired).await);
}

#[tokio::test]
async fn a_deployment_can_be_made_and_read_by_who_may() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&testbed::deployment("default", "web"))
        .await
        .unwrap();
    let read = |user| async move {
        let client = bed.dev().client(user).await.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(client, "default");
        deployments.get("web").await.is_ok()
    };
    assert!(read(User::Reader).await);
    assert!(!read(User::TeamA).await);
}
