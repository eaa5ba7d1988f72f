use crate::{AUDIENCE, Authority, ISSUER, Replica, Signer, start};
use business_api::serve::Program;
use runtime::Tasks;
use std::path::PathBuf;
use store::testing::Database;

/// What replicas on one database share: certificates, the keys of their issuer, and an end.
#[derive(Debug)]
pub struct Installation {
    /// It goes with this.
    pub directory: PathBuf,
    pub database: Database,
    pub authority: Authority,
    pub signer: Signer,
    tasks: Tasks,
}

impl Drop for Installation {
    fn drop(&mut self) {
        self.tasks.cancel();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

impl Installation {
    pub fn new(database: Database) -> Self {
        let directory = std::env::temp_dir().join(format!("business-test-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        let (authority, signer) = (Authority::new("test-ca"), Signer::default());
        let server = authority.server("server", &["127.0.0.1"]);
        let keys = signer.key_set().to_string();
        for (name, text) in [
            ("tls.crt", &server.certificate),
            ("tls.key", &server.key),
            ("ca.crt", &authority.pem),
            ("jwks.json", &keys),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        Self { directory, database, authority, signer, tasks: Tasks::new() }
    }

    /// A replica with these flags beside the usual ones, without a Kubernetes.
    pub async fn serve(&self, program: Program, flags: &[&str]) -> Replica {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let mut line = vec![
            "--no-kubernetes".to_owned(),
            format!("--database-url={}", self.database.url),
            format!("--tls-cert-file={}", file("tls.crt")),
            format!("--tls-private-key-file={}", file("tls.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--jwt-issuer={ISSUER}"),
            format!("--jwt-audience={AUDIENCE}"),
            format!("--jwt-jwks-file={}", file("jwks.json")),
        ];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        start(line, program, self.tasks.clone()).await
    }
}
