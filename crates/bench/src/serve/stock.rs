//! rmcp with its own session manager, used as its documentation shows.

use std::{net::SocketAddr, ops::Range, sync::Arc};

use anyhow::Result;
use axum::{Router, serve::ListenerExt};
use parking_lot::Mutex;
use rmcp::{
    Peer, RoleServer, ServerHandler,
    model::{ServerCapabilities, ServerConfig},
    service::NotificationContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::task::JoinSet;

use super::{Publisher, listen};
use crate::message;

pub(super) struct Stock {
    peers: Peers,
    _serving: JoinSet<()>,
}

type Peers = Arc<Mutex<Vec<Peer<RoleServer>>>>;

#[derive(Clone)]
struct Handler {
    peers: Peers,
}

pub(super) async fn start() -> Result<(SocketAddr, Stock)> {
    let (listener, address) = listen().await?;
    let peers = Peers::default();
    let handler = Handler {
        peers: Arc::clone(&peers),
    };
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = Router::new().route_service("/mcp", service);
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let mut serving = JoinSet::new();
    serving.spawn(async move { drop(axum::serve(listener, router).await) });
    let stock = Stock {
        peers,
        _serving: serving,
    };
    Ok((address, stock))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::default())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.peers.lock().push(context.peer);
    }
}

impl Publisher for Stock {
    /// One task per session: each session receives its messages in order, and no session
    /// waits for another.
    #[expect(deprecated, reason = "the protocol versions with streams have it")]
    async fn publish(&mut self, numbers: Range<u64>) -> Result<()> {
        use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam as Params};
        let messages: Arc<[Params]> = numbers
            .map(|number| {
                Params::new(LoggingLevel::Warning, message::data(number)).with_logger("bench")
            })
            .collect();
        let mut sending = JoinSet::new();
        for peer in self.peers.lock().iter() {
            let (peer, messages) = (peer.clone(), Arc::clone(&messages));
            sending.spawn(async move {
                for message in messages.iter() {
                    peer.notify_logging_message(message.clone()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(sent) = sending.join_next().await {
            sent??;
        }
        Ok(())
    }
}
