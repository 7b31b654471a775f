use serde_json::json;

use super::*;

fn request(given: serde_json::Value, is_task: bool) -> Result<WaitRequest, ToolError> {
    let args: FaultsWaitArgs = arguments(given.as_object().unwrap().clone())?;
    args.request(is_task)
}

#[test]
fn a_wait_has_the_filters_of_a_subscription_and_a_time() {
    let plain = request(json!({}), false).unwrap();
    assert_eq!(plain.timeout, Duration::from_mins(4));
    assert_eq!((plain.until, plain.cursor), (WaitUntil::Opened, None));
    let task = request(json!({}), true).unwrap();
    assert_eq!(task.timeout, Duration::from_hours(12));
    assert_eq!(task_timeout(&JsonObject::new()), task.timeout);
    let all = json!({"until": "any", "cursor": "w-0.1", "timeoutSeconds": 43_200, "context": "dev",
        "namespaces": ["a", "b"], "involvedKind": "deploy", "involvedName": "web"});
    let all = request(all, false).unwrap();
    assert_eq!(all.timeout, task.timeout);
    assert_eq!(all.filters.involved(), (Some("Deployment"), Some("web")));
    for wrong in [
        json!({"timeoutSeconds": 0}),
        json!({"timeoutSeconds": 43_201}),
        json!({"timeoutSeconds": -1}),
        json!({"until": "fixed"}),
        json!({"for": "web"}),
        json!({"reason": "Fail"}),
        json!({"mode": "events"}),
    ] {
        let refused = request(wrong.clone(), false);
        assert!(
            matches!(
                refused,
                Err(ToolError::Arguments(_) | ToolError::Cluster(_))
            ),
            "{wrong}"
        );
    }
}
