//! The program over TLS, with a real PostgreSQL and no Kubernetes: what tenants, members and strangers get.

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod audits;
#[cfg(test)]
mod browser;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod compat;
#[cfg(test)]
mod config_maps;
#[cfg(test)]
mod console;
#[cfg(test)]
mod descriptions;
#[cfg(test)]
mod import;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod main_job;
#[cfg(test)]
mod matrix;
mod member_clusters;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod platforms;
#[cfg(test)]
mod portal;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod registry_tokens;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod service_accounts;
#[cfg(test)]
mod standby;
#[cfg(test)]
mod startup;
#[cfg(test)]
mod support;
#[cfg(test)]
mod templates;
#[cfg(test)]
mod tenancy;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod together;
#[cfg(test)]
mod transfers;
#[cfg(test)]
mod words;
