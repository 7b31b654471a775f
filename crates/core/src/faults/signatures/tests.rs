use proptest::prelude::*;

use super::*;

#[track_caller]
fn crash(text: &str, kind: CrashKind, line: &str) {
    let found = detect(text).unwrap_or_else(|| panic!("no crash seen in: {text}"));
    assert_eq!((found.kind, found.line.as_str()), (kind, line), "{text}");
}

#[test]
fn crashes_are_seen_and_named() {
    let go = "starting\npanic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:7 +0x1d\nexit status 2";
    crash(
        go,
        CrashKind::Go,
        "panic: runtime error: index out of range [5] with length 3",
    );
    crash(
        "panic: boom [recovered]\n\tpanic: boom",
        CrashKind::Go,
        "panic: boom",
    );
    crash(
        "fatal error: all goroutines are asleep - deadlock!",
        CrashKind::Go,
        "fatal error: all goroutines are asleep - deadlock!",
    );
    crash(
        "fatal error: concurrent map writes",
        CrashKind::Go,
        "fatal error: concurrent map writes",
    );
    crash(
        "goroutine 17 [chan receive, 5 minutes]:",
        CrashKind::Go,
        "goroutine 17 [chan receive, 5 minutes]:",
    );
    crash(
        "2026-01-01T00:00:00Z stderr F panic: no config",
        CrashKind::Go,
        "2026-01-01T00:00:00Z stderr F panic: no config",
    );
    crash(
        "{\"level\":\"fatal\",\"msg\":\"panic: boom\"}",
        CrashKind::Go,
        "{\"level\":\"fatal\",\"msg\":\"panic: boom\"}",
    );
    crash(
        "thread 'main' panicked at src/main.rs:2:5:\nboom",
        CrashKind::Rust,
        "thread 'main' panicked at src/main.rs:2:5:",
    );
    crash(
        "thread 'tokio-1' (77) panicked at src/a.rs:1:1:",
        CrashKind::Rust,
        "thread 'tokio-1' (77) panicked at src/a.rs:1:1:",
    );
    crash(
        "Exception in thread \"main\" java.lang.NullPointerException: x\n\tat a.B.c(B.java:1)",
        CrashKind::Java,
        "Exception in thread \"main\" java.lang.NullPointerException: x",
    );
    crash(
        "java.io.IOException: disk\n\tat a.B.c(B.java:1)\nCaused by: java.nio.file.NoSuchFileException: /x",
        CrashKind::Java,
        "Caused by: java.nio.file.NoSuchFileException: /x",
    );
    crash(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nValueError: bad",
        CrashKind::Python,
        "ValueError: bad",
    );
    crash(
        "Traceback (most recent call last):\n  File \"a.py\"",
        CrashKind::Python,
        "Traceback (most recent call last):",
    );
    crash(
        "Fatal Python error: Segmentation fault",
        CrashKind::Python,
        "Fatal Python error: Segmentation fault",
    );
    crash(
        "node:internal/process/promises:288\n            triggerUncaughtException(err, true);\n\nTypeError: x is not a function\n    at f (/a.js:1:1)",
        CrashKind::Node,
        "TypeError: x is not a function",
    );
    crash(
        "[UnhandledPromiseRejection: This error originated]",
        CrashKind::Node,
        "[UnhandledPromiseRejection: This error originated]",
    );
    crash(
        "Uncaught Exception: boom",
        CrashKind::Node,
        "Uncaught Exception: boom",
    );
    crash(
        "sh: line 1: 7 Segmentation fault      (core dumped) ./a",
        CrashKind::Native,
        "sh: line 1: 7 Segmentation fault      (core dumped) ./a",
    );
    crash(
        "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0]\n\ngoroutine 1 [running]:",
        CrashKind::Go,
        "panic: runtime error: invalid memory address or nil pointer dereference",
    );
    crash(
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0]",
        CrashKind::Go,
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0]",
    );
    crash(
        "worker 7 got SIGSEGV",
        CrashKind::Native,
        "worker 7 got SIGSEGV",
    );
    crash(
        "a[1]: segfault at 0 ip 00005 sp 0007 error 4",
        CrashKind::Native,
        "a[1]: segfault at 0 ip 00005 sp 0007 error 4",
    );
    crash(
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  x\nAborted (core dumped)",
        CrashKind::Native,
        "Aborted (core dumped)",
    );
    crash(
        "a.out: a.c:3: main: Assertion `x > 0' failed.",
        CrashKind::Native,
        "a.out: a.c:3: main: Assertion `x > 0' failed.",
    );
    crash(
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address",
        CrashKind::Native,
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address",
    );
    crash(
        "*** stack smashing detected ***: terminated",
        CrashKind::Native,
        "*** stack smashing detected ***: terminated",
    );
    crash(
        "double free or corruption (out)",
        CrashKind::Native,
        "double free or corruption (out)",
    );
    crash(
        "app: fatal error: cannot go on",
        CrashKind::Native,
        "app: fatal error: cannot go on",
    );
    crash(
        "java.lang.OutOfMemoryError: Java heap space",
        CrashKind::OutOfMemory,
        "java.lang.OutOfMemoryError: Java heap space",
    );
    crash(
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        CrashKind::OutOfMemory,
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    );
    crash(
        "Memory cgroup out of memory: Killed process 7 (a)",
        CrashKind::OutOfMemory,
        "Memory cgroup out of memory: Killed process 7 (a)",
    );
    crash(
        "what():  std::bad_alloc",
        CrashKind::OutOfMemory,
        "what():  std::bad_alloc",
    );
    crash(
        "memory allocation of 128 bytes failed",
        CrashKind::OutOfMemory,
        "memory allocation of 128 bytes failed",
    );
    crash(
        "Unhandled exception. System.InvalidOperationException: x",
        CrashKind::Dotnet,
        "Unhandled exception. System.InvalidOperationException: x",
    );
    crash(
        "app.rb:3:in `main': undefined method `x' for nil (NoMethodError)",
        CrashKind::Ruby,
        "app.rb:3:in `main': undefined method `x' for nil (NoMethodError)",
    );
    crash(
        "PHP Fatal error:  Uncaught Error: x in /a.php:1",
        CrashKind::Php,
        "PHP Fatal error:  Uncaught Error: x in /a.php:1",
    );
}

#[test]
fn talk_of_crashes_is_none() {
    for line in [
        "non-fatal error: retrying",
        "a non-fatal error: x",
        "this was not a fatal error: go on",
        "panic=false",
        "panic: false",
        "no panic: all is well",
        "no panic",
        "panic",
        "the panic button was pressed",
        "recovered from panic: boom",
        "recovered panic: boom",
        "exception handled",
        "handled exception",
        "caught java.lang.IllegalStateException: x, retrying",
        "level=fatal_count value=0",
        "fatal errors: 0",
        "0 fatal errors",
        "on panic: abort",
        "installed SIGSEGV handler",
        "SIGSEGV handler installed",
        "ignoring SIGABRT",
        "uncaughtException handler registered",
        "Uncaught Exception handler installed",
        "unhandled rejection handler set",
        "goroutines: 17",
        "goroutine pool of 8 started",
        "error: retry in 5 s",
        "ERROR connection refused",
        "exit status 0",
        "tests: 3 panicked as expected",
        "threshold 'panic' reached",
        "assertion ok",
        "Assertion library loaded",
        "segment fault tolerance is on",
        "traceback disabled",
        "out of memory guard enabled",
        "oom_score_adj=0",
        "Aborted transaction 7, will retry",
        "the operation was aborted",
        "FATAL: password authentication failed for user \"joe\"",
        "ValueError: bad",
        "WARN java.net.SocketTimeoutException handled",
        "class a.b.MyException extends Exception",
        "",
    ] {
        assert_eq!(detect(line), None, "{line}");
    }
}

#[test]
fn a_value_that_begins_a_sentence_is_no_talk() {
    crash(
        "panic: nil map write",
        CrashKind::Go,
        "panic: nil map write",
    );
    crash("panic: false start", CrashKind::Go, "panic: false start");
}

#[test]
fn a_talk_does_not_hide_a_crash_beside_it() {
    crash(
        "recovered from panic: one; panic: two",
        CrashKind::Go,
        "recovered from panic: one; panic: two",
    );
    crash("non-fatal error: x\npanic: y", CrashKind::Go, "panic: y");
}

#[test]
fn the_line_that_is_shown_is_bounded() {
    let long = format!("panic: {}", "é".repeat(10_000));
    let found = detect(&long).unwrap();
    assert!(found.line.len() <= SHOW_BYTES && found.line.starts_with("panic: é"));
    let late = format!("{}panic: x", "a ".repeat(LOOK_BYTES));
    assert_eq!(
        detect(&late),
        None,
        "nobody starts a crash so far to the right"
    );
}

proptest! {
    #[test]
    fn any_text_is_looked_at_without_harm(text in "(.|\n|panic: |fatal error: |goroutine 1 \\[|Traceback \\(most recent call last\\):\n|Assertion `|FATAL ERROR: ){0,60}") {
        if let Some(found) = detect(&text) {
            prop_assert!(found.line.len() <= SHOW_BYTES);
            prop_assert!(text.contains(&found.line));
        }
    }

    #[test]
    fn a_crash_is_seen_wherever_it_stands(before in "([a-z ]{0,30}\n){0,5}", after in "(\n[a-z ]{0,30}){0,5}") {
        let text = format!("{before}panic: boom{after}");
        prop_assert!(detect(&text).is_some());
        let talk = format!("{before}non-fatal{after}");
        prop_assert_eq!(detect(&talk), None);
    }
}
