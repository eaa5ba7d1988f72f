/** Where the pages are. */

export const PAGES = {
  projects: "/console/",
  project: "/console/projects/shop",
  namespace: "/console/projects/shop/namespaces/local-web",
  newProject: "/console/create/project",
  newNamespace: "/console/create/namespace?project=shop",
  change: "/console/change/projects/shop",
  changeTenant: "/console/change/tenants/acme",
  people: "/console/people/projects/shop",
  tenantPeople: "/console/people/platforms/acme-platform",
  move: "/console/move/namespaces/shop/local-batch",
  moveProject: "/console/move/projects/shop-eu",
  releasing: "/console/projects/data",
  leaving: "/console/projects/data/namespaces/member-2-reports",
  review: "/console/review/projects/shop",
  tenants: "/console/tenants",
  tenant: "/console/tenants/acme",
  clusters: "/console/clusters",
  findings: "/console/findings",
  nowhere: "/console/nowhere",
} as const;

export type PageName = keyof typeof PAGES;

/** Pages of operators. */
export const OPERATORS: ReadonlySet<PageName> = new Set(["changeTenant", "clusters", "findings"]);
