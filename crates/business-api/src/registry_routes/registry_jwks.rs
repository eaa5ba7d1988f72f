use crate::token_server::keys::TokenKeys;
use apiserver::authz::RouteAccess;
use apiserver::routes::Route;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

/// The public keys that verify tokens for the registry, for everybody.
pub fn route(keys: TokenKeys) -> Route {
    Route::document("/registry/jwks", RouteAccess::Public, move |_, _| {
        ([(CONTENT_TYPE, "application/jwk-set+json")], keys.jwks()).into_response()
    })
}
