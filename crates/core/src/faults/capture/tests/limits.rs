//! How many captures run at once.

use super::*;

/// S3-68, S3-69: document 3's own numbers.
#[tokio::test(start_paused = true)]
async fn by_default_five_of_a_cluster_and_twenty_in_all_run_at_once() {
    // So long that no permit becomes free in time.
    let fake = Fake::new(&[("a", false)], 1100 * MS);
    let throttled = async |clusters: &[&str], count: usize| {
        let (captures, _) = captures(CaptureLimits::default());
        let pods: Vec<_> = (0..count)
            .map(|n| fault(clusters[n % clusters.len()], &format!("web-{n}")))
            .collect();
        let all = join_all(pods.iter().map(|one| run(&captures, &fake, one))).await;
        all.iter()
            .filter(|one| errors(one) == [CaptureError::Throttled])
            .count()
    };
    assert_eq!(throttled(&["dev"], 5).await, 0);
    assert_eq!(throttled(&["dev"], 6).await, 1);
    let five = ["dev", "prod", "test", "eu", "us"];
    assert_eq!(throttled(&five, 20).await, 0);
    assert_eq!(throttled(&five, 21).await, 1);
}
