//! The nodes and workloads of the shop, and what they log.

/// A deployment of the shop.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) image: &'static str,
    pub(super) port: u16,
    /// The node of each of its pods.
    pub(super) nodes: &'static [&'static str],
    /// The lines that it logs at start.
    pub(super) startup_log: &'static [&'static str],
}

pub(super) const NAMESPACE: &str = "shop";

pub(super) const NAMESPACES: [&str; 3] = ["default", "kube-system", NAMESPACE];

/// Names and addresses.
pub(super) const NODES: [(&str, &str); 3] = [
    ("node-1", "10.0.1.11"),
    ("node-2", "10.0.1.12"),
    ("node-3", "10.0.1.13"),
];

pub(super) const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "frontend",
        image: "registry.shop.example/frontend:2.4.0",
        port: 8080,
        nodes: &["node-1", "node-2"],
        startup_log: &["listening on :8080", "catalog at http://catalog:8080 is up"],
    },
    Workload {
        name: "cart",
        image: "registry.shop.example/cart:3.1.4",
        port: 8080,
        nodes: &["node-1", "node-2"],
        startup_log: &["level=info msg=\"cart ready\" store=redis"],
    },
    Workload {
        name: "payment",
        image: "registry.shop.example/payment:1.8.3",
        port: 8443,
        nodes: &["node-1", "node-2"],
        startup_log: &[
            "level=info msg=\"payment starting\"",
            "level=info msg=\"connected to ledger\" host=ledger.shop.svc:5432",
        ],
    },
    Workload {
        name: "catalog",
        image: "registry.shop.example/catalog:5.0.1",
        port: 8080,
        nodes: &["node-3", "node-2"],
        startup_log: &["INFO catalog: 1842 products indexed", "INFO catalog: ready"],
    },
    Workload {
        name: "recommendations",
        image: "registry.shop.example/recommendations:0.9.2",
        port: 9000,
        nodes: &["node-3"],
        startup_log: &["model loaded in 2.1s", "serving on :9000"],
    },
];

/// The log of the payment service when it crashes.
pub(super) const PANIC_LOG: &[&str] = &[
    "level=info msg=\"payment starting\" version={tag}",
    "level=info msg=\"loading providers\" count=3",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x7d1c4e]",
    "",
    "goroutine 1 [running]:",
    "shop.example/payment/internal/provider.(*Registry).Default(...)",
    "\t/src/internal/provider/registry.go:41",
    "main.main()",
    "\t/src/cmd/payment/main.go:87 +0x2ae",
];

/// The requests that the frontend logs.
pub(super) const REQUESTS: [&str; 4] = [
    "GET /",
    "GET /products/1842",
    "POST /cart",
    "POST /checkout",
];
