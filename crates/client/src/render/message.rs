//! The useful part of an event's message, for people. Kubelet, runtime and scheduler write
//! for a log: they repeat the object, quote every layer of an error, and put the cause last.

use std::borrow::Cow;

/// What the runtime's errors begin with, each in the middle of the kubelet's.
const RPC_ERROR: &str = "rpc error: code = ";

/// The message without what is repeated in it, and with the cause where it is read.
pub(super) fn useful_part(message: &str) -> Cow<'_, str> {
    let message = without_pod(message);
    let message = message.split(" preemption: ").next().unwrap_or(message);
    let Some((before, after)) = message.split_once(RPC_ERROR) else {
        return Cow::Borrowed(message);
    };
    let (code, chain) = after.split_once(" desc = ").unwrap_or(("", after));
    match cause(chain) {
        "" => Cow::Owned(format!("{before}{code}")),
        cause => Cow::Owned(format!("{before}{cause}")),
    }
}

/// ` in pod NAME_NAMESPACE(UID)` says again what the line of the event says.
fn without_pod(message: &str) -> &str {
    match message.rsplit_once(" in pod ") {
        Some((before, pod)) if pod.ends_with(')') && !pod.contains(' ') => before,
        _ => message,
    }
}

/// The innermost cause in a chain of errors: `cannot a: cannot b: no such host`. What is
/// before the last colon is kept if it is not an image or a path that was named already.
fn cause(chain: &str) -> &str {
    let Some((before, last)) = chain.rsplit_once(": ") else {
        return chain;
    };
    let start = before.rfind(": ").map_or(0, |at| at + 2);
    let outer = &before[start..];
    let is_said = outer.contains('"') || before[..start].contains(outer);
    if is_said { last } else { &chain[start..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_comes_first_and_nothing_twice() {
        let check = |message: &str, useful: &str| assert_eq!(useful_part(message), useful);
        check(
            "Back-off restarting failed container payment in pod payment-7d4f9c-x2k4v_shop(47a9dc67)",
            "Back-off restarting failed container payment",
        );
        check(
            "Failed to pull image \"reg.example/cart:3\": rpc error: code = NotFound desc = failed \
             to pull and unpack image \"reg.example/cart:3\": failed to resolve reference \
             \"reg.example/cart:3\": reg.example/cart:3: not found",
            "Failed to pull image \"reg.example/cart:3\": not found",
        );
        check(
            "Failed to pull image \"x/y\": rpc error: code = Unknown desc = failed to do request: \
             Head \"https://x/v2/y\": dial tcp: lookup x on 10.96.0.10:53: no such host",
            "Failed to pull image \"x/y\": lookup x on 10.96.0.10:53: no such host",
        );
        check(
            "0/3 nodes are available: 2 Insufficient cpu. preemption: 0/3 nodes are available: 2 No \
             preemption victims found.",
            "0/3 nodes are available: 2 Insufficient cpu.",
        );
        check("rpc error: code = Unavailable desc = ", "Unavailable");
        for whole in [
            "",
            "it ran in pod five",
            "a: b: c",
            "Error: ImagePullBackOff",
        ] {
            check(whole, whole);
        }
    }
}
