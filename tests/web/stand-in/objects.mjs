/** Objects such as a platform with three clusters and two tenants has: every state that a page tells apart is there once. */

const API = "business.tkestack.io/v1";
const BORN = "2026-03-02T08:15:00Z";
const CLUSTERS = ["local", "member-1", "member-2"];

export const condition = (type, status, reason, message = "") =>
  ({ type, status, reason, message, lastTransitionTime: BORN, observedGeneration: 1 });

const amounts = (cpu, memory, pods) => ({ "requests.cpu": String(cpu), "requests.memory": memory, pods: String(pods) });

/** Who wrote what. */
const MANAGED = [
  { manager: "kubectl-client-side-apply", operation: "Update", apiVersion: API, time: BORN, fieldsType: "FieldsV1", fieldsV1: { "f:spec": { "f:clusters": {}, "f:hard": {} }, "f:metadata": { "f:labels": {} } } },
  { manager: "business-controller", operation: "Apply", apiVersion: API, subresource: "status", time: "2026-03-02T08:15:04Z", fieldsType: "FieldsV1", fieldsV1: { "f:status": { "f:phase": {} } } },
];

export const object = (kind, metadata, spec, status) => ({
  apiVersion: API, kind,
  metadata: { creationTimestamp: BORN, generation: 1, labels: {}, managedFields: MANAGED, ...metadata },
  spec, ...(status ? { status } : {}),
});

export function project(name, { tenant = "acme", parent = "", displayName = "", clusters, used = {}, ...more }) {
  const { access = [], members = [], phase = "Active", locked, conditions, orphans, ledger } = more;
  const spec = {
    finalizers: ["project"], tenantID: tenant, members, clusters,
    ...(displayName && { displayName }), ...(parent && { parentProjectName: parent }), ...(access.length > 0 && { access }),
  };
  const status = {
    phase, clusters: used, observedGeneration: 1, conditions: conditions ?? [condition("Ready", "True", "Ready")],
    ...(locked && { locked }), ...(orphans && { orphans }), ...(ledger && { ledger }),
  };
  return object("Project", { name }, spec, status);
}

export function namespace(projectName, cluster, name, { tenant = "acme", hard, used, charged = hard, ...more }) {
  const { phase = "Available", conditions, deleted } = more;
  const spec = {
    finalizers: ["namespace"], tenantID: tenant, clusterName: cluster, clusterType: "Imported", clusterVersion: "v1.36.1",
    clusterDisplayName: cluster, namespace: name, hard,
  };
  const status = {
    phase, resourceQuotaName: `quota-${name}`, used, cachedSpecHard: charged, observedGeneration: 1,
    clusterNamespace: { uid: `in-${cluster}-${name}`, provenance: "Made" },
    template: { name: "standard", digest: "4f1c0a" },
    conditions: conditions ?? ["Ready", "Provisioned", "QuotaEnforced", "AccessReady", "TemplateApplied"].map((type) => condition(type, "True", "Ready")),
  };
  return object("Namespace", { name: `${cluster}-${name}`, namespace: projectName, ...(deleted && { deletionTimestamp: deleted }) }, spec, status);
}

function clusters() {
  const healthy = [condition("Reachable", "True", "Answers"), condition("Registered", "True", "Registered"), condition("Bounded", "True", "Bounded")];
  const lost = [condition("Reachable", "False", "NoAnswer", "connect: connection timed out"), condition("Registered", "True", "Registered")];
  const of = (name, spec, status) => object("MemberCluster", { name }, { displayName: name, type: "Imported", tenants: ["*"], identity: "Certificates", ...spec }, {
    uid: `uid-${name}`, version: "v1.36.1", granted: amounts(40, "80Gi", 200), consumed: amounts(9, "21Gi", 61), namespaces: 5, ...status,
  });
  return [
    of("local", { hard: amounts(48, "128Gi", 400) }, { conditions: healthy, comparison: { revision: 96, unreported: 0, homeless: 0, strange: 0 } }),
    of("member-1", { hard: amounts(44, "96Gi", 300), cordoned: true }, { conditions: healthy, comparison: {
      revision: 90, unreported: 1, homeless: 1, strange: 1, strangers: [{ clusterName: "member-1", namespace: "legacy", uid: "s-1", project: "shop", hard: amounts(1, "1Gi", 5) }],
    } }),
    of("member-2", {}, { conditions: lost, comparison: { revision: 0, missing: "connect: connection timed out", unreported: 0, homeless: 0, strange: 0 } }),
  ];
}

function tenants() {
  const ceilings = { local: { hard: amounts(20, "40Gi", 100) }, "member-1": { hard: amounts(20, "40Gi", 100) } };
  const of = (name, displayName, administrators, counts) => object("Tenant", { name },
    { displayName, administrators, clusters: ceilings, contacts: [`${name}@example.org`] },
    { clusters: { local: { used: amounts(18, "30Gi", 80) } }, ...counts, conditions: [condition("WithinCeilings", "True", "Within")] });
  return [of("acme", "Acme", [{ kind: "User", name: "alice" }], { projects: 5, namespaces: 7 }), of("globex", "Globex", [{ kind: "Group", name: "globex-administrators" }], { projects: 1, namespaces: 1 })];
}

function projects() {
  const budget = (cpu, memory, pods) => ({ hard: amounts(cpu, memory, pods) });
  const used = (cpu, memory, pods) => ({ used: amounts(cpu, memory, pods) });
  return [
    project("shop", {
      displayName: "Web shop", clusters: { local: budget(10, "20Gi", 50), "member-1": budget(10, "20Gi", 50) },
      used: { local: used("8.5", "14Gi", 30), "member-1": used(4, "4Gi", 10) },
      access: [{ kind: "Group", name: "shop-developers", role: "edit" }, { kind: "User", name: "dave", role: "view" }],
    }),
    project("shop-eu", { parent: "shop", displayName: "Web shop, Europe", clusters: { local: budget(4, "8Gi", 20) }, used: { local: used("3.9", "4Gi", 9) } }),
    project("data", {
      displayName: "数据平台", clusters: { local: budget(6, "10Gi", 30) }, used: { local: used(1, "1Gi", 3) },
      conditions: [condition("Ready", "False", "Orphaned", "1 namespace of a cluster belongs to no object"), condition("QuotaConsistent", "False", "Held", "amounts are held")],
      orphans: [{ clusterName: "member-1", namespace: "old-etl", uid: "o-1", state: "Lost", hard: amounts(1, "2Gi", 5) }],
      ledger: { held: [{ uid: "o-1", state: "orphaned", clusterName: "member-1", namespace: "old-etl", hard: amounts(1, "2Gi", 5), reason: "lost with a restore" }] },
    }),
    project("platform-engineering-shared-continuous-integration-and-delivery", {
      displayName: "Platform engineering: shared continuous integration, delivery, artefacts and everything else that teams ask for",
      clusters: { local: { hard: { ...amounts("1200", "3Pi", 40000), "requests.storage": "7Ei", "limits.cpu": "1m", "requests.example.com/accelerator": "8" } }, registry: { hard: { imagenamespaces: "5" } } },
      used: { local: { used: { ...amounts("1199.999", "2Ti", 39999), "requests.storage": "1", "limits.cpu": "1m" } }, registry: { used: { imagenamespaces: "1" } } },
    }),
    project("frozen", { clusters: { local: budget(2, "2Gi", 20) }, used: {}, locked: true, conditions: [condition("Ready", "True", "Ready")] }),
    project("globex-web", { tenant: "globex", clusters: { local: budget(5, "10Gi", 20) }, used: { local: used(2, "2Gi", 4) } }),
  ];
}

function namespaces() {
  const failed = [condition("Ready", "False", "ClusterUnreachable", "member-1 does not answer"), condition("ClusterReachable", "False", "NoAnswer", "connect: connection timed out")];
  return [
    namespace("shop", "local", "web", { hard: amounts(2, "4Gi", 10), used: amounts("1.9", "2Gi", 9) }),
    namespace("shop", "local", "batch", { hard: amounts("2.5", "2Gi", 10), used: amounts("0.1", "128Mi", 1) }),
    namespace("shop", "member-1", "search", { hard: amounts(4, "4Gi", 10), used: amounts(1, "1Gi", 2), phase: "Failed", conditions: failed }),
    namespace("shop-eu", "local", "eu-web", { hard: amounts("3.9", "4Gi", 9), used: amounts(2, "3Gi", 8) }),
    namespace("data", "member-2", "reports", {
      hard: amounts(1, "1Gi", 3), used: amounts("0", "0", 0), phase: "Terminating", deleted: "2026-03-05T21:40:00Z",
      conditions: [
        condition("Terminating", "True", "ContentRemains", "2 pods, 1 persistentvolumeclaim remain; finalizer kubernetes.io/pvc-protection"),
        condition("ClusterReachable", "False", "NoAnswer", "connect: connection timed out"),
      ],
    }),
    namespace("data", "local", "archive", {
      hard: amounts("0.5", "1Gi", 2), charged: amounts(2, "1Gi", 2), used: amounts("0.9", "300Mi", 2),
      conditions: [condition("Ready", "True", "Ready"), condition("QuotaEnforced", "False", "Waiting", "the quota in the cluster still lets requests.cpu=2 in")],
    }),
    namespace("data", "local", "etl", { hard: amounts(1, "1Gi", 3), used: amounts("0.2", "300Mi", 1) }),
    namespace("globex-web", "local", "globex", { tenant: "globex", hard: amounts(2, "2Gi", 4), used: amounts(1, "1Gi", 2) }),
  ];
}

/** A template that is rolling out. */
function templates() {
  return [object("NamespaceTemplate", { name: "standard" }, { default: true, rollout: { batch: 20, paused: false } },
    { namespaces: 6, upToDate: 5, conditions: [condition("RolledOut", "False", "RollingOut", "5 of 6")] })];
}

/** By plural; with `more` projects beside those that are told apart, and as many namespaces in each of them as `each`. */
export function platform(more = 0, each = 0) {
  const crowd = Array.from({ length: more }, (_, n) => project(`team-${String(n).padStart(4, "0")}`, {
    ...(n % 10 === 0 ? {} : { parent: `team-${String(n - (n % 10)).padStart(4, "0")}` }),
    displayName: `Team ${n}`, clusters: { [CLUSTERS[n % 2]]: { hard: amounts(10, "20Gi", 50) } },
    used: { [CLUSTERS[n % 2]]: { used: amounts((n * 37) % 10, `${(n * 13) % 20}Gi`, (n * 7) % 50) } },
  }));
  const inside = crowd.flatMap(({ metadata: { name }, spec: { clusters } }) => Array.from({ length: each }, (_, n) =>
    namespace(name, Object.keys(clusters)[0], `${name}-${n}`, { hard: amounts(1, "2Gi", 5), used: amounts("0.5", "1Gi", n) })));
  return {
    memberclusters: clusters(), tenants: tenants(), projects: [...projects(), ...crowd], namespaces: [...namespaces(), ...inside],
    namespacetemplates: templates(), platforms: [object("Platform", { name: "acme-platform" }, { tenantID: "acme", administrators: ["alice"] })], configmaps: [], nsemigrations: [], imagenamespaces: [], chartgroups: [], registrycredentials: [],
  };
}

/** What is read alone: made of the clusters. */
export const offer = ({ metadata, spec, status }, tenants) => ({
  apiVersion: API, kind: "ClusterOffer", metadata: { name: metadata.name },
  displayName: spec.displayName, type: spec.type, version: status.version, cordoned: spec.cordoned ?? false,
  reachable: status.conditions.some(({ type, status: is }) => type === "Reachable" && is === "True"),
  tenants: tenants.filter((tenant) => tenant.spec.clusters[metadata.name]).map((tenant) =>
    ({ tenantID: tenant.metadata.name, hard: tenant.spec.clusters[metadata.name].hard, left: amounts(2, "10Gi", 20) })),
});
