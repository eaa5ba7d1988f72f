//! A server that starts while its database is away, or newer than itself.

use crate::support::{World, project, until};
use serde_json::json;
use store::testing::postgres::NOT_DURABLE;
use store::testing::{Database, Server};

/// A database that is made, empty, and then away with its server.
async fn absent_database() -> (Server, Database) {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    sqlx::query("CREATE DATABASE early").execute(&mut server.admin().await.unwrap()).await.unwrap();
    let database = Database { url: server.url("early") };
    server.stop().unwrap();
    (server, database)
}

#[tokio::test]
async fn a_server_that_starts_before_its_database_answers_at_once_and_migrates_it_later() {
    let (mut server, database) = absent_database().await;
    let world = World::started(database, &["--migrate"]).await;
    let operator = world.operator();
    until("discovery is served", async || operator.get("").await.code == 200).await;
    operator.get("/readyz").await.expect(500);
    operator.post("/projects", project("early", json!({"cpu": "1"}))).await.expect(503);
    server.launch().await.unwrap();
    world.until_ready().await;
    operator.post("/projects", project("early", json!({"cpu": "1"}))).await.expect(201);
}
