//! The program over TLS, with a real PostgreSQL and no Kubernetes: what tenants, members and strangers get.

mod accounts;
mod interleavings;
mod main_job;
mod refusals;
mod support;
mod tenancy;
