//! The public API: with rmcp clients and servers of both eras of the protocol, and with
//! a prometheus-client registry.

#[cfg(all(feature = "rmcp", feature = "observers", feature = "roots"))]
mod legacy;
#[cfg(all(feature = "rmcp", feature = "observers", feature = "roots"))]
mod listen;
#[cfg(feature = "prometheus")]
mod scrape;
#[cfg(all(feature = "rmcp", feature = "observers", feature = "roots"))]
mod server;
#[cfg(all(feature = "rmcp", feature = "observers", feature = "roots"))]
mod wire;
