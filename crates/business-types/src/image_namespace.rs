use crate::registry::{self, ChargedRegistryObject, RegistryKind};
use meta::schema::Schema;

/// The kind of image namespaces: prefixes for a project's repositories of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageNamespace;

/// The part of an image namespace from which its account is computed.
pub type ChargedImageNamespace = ChargedRegistryObject<ImageNamespace>;

impl RegistryKind for ImageNamespace {
    const KIND: &'static str = crate::names::IMAGE_NAMESPACE_KIND;
    const PLURAL: &'static str = crate::names::IMAGE_NAMESPACES;
    const SINGULAR: &'static str = "imagenamespace";
    const SHORT_NAMES: &'static [&'static str] = &["imn"];
    const FINALIZER: &'static str = crate::names::IMAGE_NAMESPACE_FINALIZER;
    const NAME_PREFIX: &'static str = "imn-";
    const DISPLAY_NAME: &'static str = "image namespace";

    fn schema() -> Schema {
        Schema::kind(
            "io.tkestack.business.v1.ImageNamespace",
            "A prefix of the registry, TENANT/NAME, below which a project keeps repositories of images. \
             metadata.namespace is the project.",
            [
                ("spec", registry::spec_schema("io.tkestack.business.v1.ImageNamespaceSpec").optional()),
                (
                    "status",
                    registry::status_schema("io.tkestack.business.v1.ImageNamespaceStatus").optional(),
                ),
            ],
        )
    }
}
