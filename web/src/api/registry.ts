/** The kinds that have their place in the registry. The budget counts them by these names, too. */
export const REGISTRY_PLURALS = ["imagenamespaces", "chartgroups"] as const;
export type RegistryPlural = (typeof REGISTRY_PLURALS)[number];
/** The name of the registry where a budget names clusters. */
export const REGISTRY = "registry";
