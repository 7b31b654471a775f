use proptest::prelude::*;

use super::*;

#[test]
fn an_empty_or_invalid_method_name_is_refused_with_the_reason() {
    let check = |name: &str, expected: fn(&MethodError) -> bool| {
        let error = Method::new(name).unwrap_err();
        assert!(expected(&error), "{name:?} gave {error:?}");
    };
    check("", |e| matches!(e, MethodError::Empty));
    check("tools/list", |e| matches!(e, MethodError::MissingPrefix(_)));
    check("Notifications/x", |e| {
        matches!(e, MethodError::MissingPrefix(_))
    });
    check("notifications/", |e| {
        matches!(e, MethodError::EmptySegment(_))
    });
    check("notifications/a//b", |e| {
        matches!(e, MethodError::EmptySegment(_))
    });
    check("notifications/a/", |e| {
        matches!(e, MethodError::EmptySegment(_))
    });
    check("notifications/a b", |e| {
        matches!(e, MethodError::Character { character: ' ', .. })
    });
    check("notifications/\"", |e| {
        matches!(e, MethodError::Character { character: '"', .. })
    });
    check("notifications/\n", |e| {
        matches!(
            e,
            MethodError::Character {
                character: '\n',
                ..
            }
        )
    });
    check("notifications/é/x", |e| {
        matches!(
            e,
            MethodError::Character {
                character: 'é', ..
            }
        )
    });
    check(&format!("notifications/{}", "x".repeat(200)), |e| {
        matches!(e, MethodError::TooLong(_))
    });
}

#[test]
fn a_custom_name_has_a_domain_and_an_event_and_stays_out_of_the_protocol() {
    for good in [
        "notifications/threshold/exceeded",
        "notifications/acme.io/build-done",
    ] {
        assert!(CustomMethod::new(good).is_ok(), "{good}");
    }
    for shape in [
        "notifications/message",
        "notifications/progress",
        "notifications/a/b/c",
    ] {
        assert!(
            matches!(CustomMethod::new(shape), Err(MethodError::NotCustom(_))),
            "{shape} has not the shape of a custom name"
        );
    }
    for domain in RESERVED_DOMAINS {
        let name = format!("notifications/{domain}/anything");
        assert!(matches!(
            CustomMethod::new(name),
            Err(MethodError::Reserved(_))
        ));
    }
}

#[test]
fn the_protocols_own_names_pass_their_own_check() {
    for method in [
        Method::RESOURCE_UPDATED,
        Method::MESSAGE,
        Method::PROGRESS,
        Method::TASKS,
        Method::CANCELLED,
        Method::TOOLS_LIST_CHANGED,
        Method::RESOURCES_LIST_CHANGED,
        Method::PROMPTS_LIST_CHANGED,
    ] {
        assert_eq!(Method::new(method.as_str()), Ok(method));
    }
}

proptest! {
    #[test]
    fn any_text_is_either_refused_or_safe_inside_json(text in any::<String>()) {
        for name in [text.clone(), format!("notifications/{text}")] {
            if let Ok(method) = Method::new(name) {
                let quoted = serde_json::to_string(method.as_str()).unwrap();
                prop_assert_eq!(quoted, format!("\"{method}\""));
            }
        }
    }
}
