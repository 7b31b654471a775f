// The custom resources that the chart makes: their definitions are in these modules, pinned
// (see ../../src/crds.rs). Nothing of them is compiled.
module kubecrier.dev/testbed/tools/crds

go 1.26.0

require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.3
)
