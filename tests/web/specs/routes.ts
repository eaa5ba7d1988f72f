/** Where the pages are. */

export const PAGES = {
  projects: "/console/",
  project: "/console/projects/shop",
  namespace: "/console/projects/shop/namespaces/local-web",
  newProject: "/console/create/project",
  newNamespace: "/console/create/namespace?project=shop",
  change: "/console/change/projects/shop",
  review: "/console/review/projects/shop",
  tenants: "/console/tenants",
  tenant: "/console/tenants/acme",
  clusters: "/console/clusters",
  findings: "/console/findings",
} as const;

export type PageName = keyof typeof PAGES;

/** Whose page it is. */
export const VISITOR: Partial<Record<PageName, string>> = { clusters: "operator", findings: "operator", tenants: "operator" };
