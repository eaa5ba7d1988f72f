use crate::fixture::{WAIT_MAX, kinds};
use runtime::Tasks;
use store::Store;
use store::cache::{Cache, CacheConfig};
use store::testing::Server;
use tokio::time::timeout;

/// A session that fails while its connection is well is left at once, and another one is begun.
#[tokio::test]
async fn a_database_with_a_certificate_that_has_no_schema_yet_is_followed_when_it_has_one() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let server =
        Server::start_with_certificate(&[], &cert.pem(), &signing_key.serialize_pem()).await.unwrap();
    let url = format!("{}?sslmode=require", server.empty_database().await.unwrap().url);
    let cache = Cache::open(&url, kinds(), CacheConfig::default()).unwrap();
    let tasks = Tasks::new();
    cache.start(&tasks);
    Store::migrate(&url).await.unwrap();
    timeout(WAIT_MAX, cache.until_synced()).await.expect("it is followed");
    tasks.cancel();
    tasks.join(WAIT_MAX).await.unwrap();
}
