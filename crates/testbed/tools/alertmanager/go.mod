// Alertmanager, which the tests of sinks send alerts to, pinned; built once per machine (see ../../src/go_tool.rs).
module kubecrier.dev/testbed/tools/alertmanager

go 1.26.0

require github.com/prometheus/alertmanager v0.34.0
