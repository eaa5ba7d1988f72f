/** Refusals as the API words them, for one level: what a page makes of them is tried with these. */

const FACTORS = { m: 1n, "": 1000n, k: 10n ** 6n, Ki: 1000n * 2n ** 10n, Mi: 1000n * 2n ** 20n, Gi: 1000n * 2n ** 30n, Ti: 1000n * 2n ** 40n };

/** In thousandths. */
export function amount(text = "0") {
  const [, whole, fraction = "", suffix] = /^(\d*)(?:\.(\d+))?(m|k|Ki|Mi|Gi|Ti)?$/.exec(text) ?? [];
  if (whole === undefined) return undefined;
  return (BigInt(whole + fraction) * FACTORS[suffix ?? ""]) / 10n ** BigInt(fraction.length);
}

const said = (thousandths, like) => {
  const unit = /(Ki|Mi|Gi|Ti)$/.exec(like)?.[1] ?? "";
  const factor = FACTORS[unit];
  return thousandths % factor === 0n ? `${thousandths / factor}${unit}` : thousandths % 1000n === 0n ? `${thousandths / 1000n}` : `${thousandths}m`;
};

/** The Status of a write that does not fit, or nothing. */
export function refusal(store, plural, object) {
  if (plural === "namespaces") return ofNamespace(store, object);
  if (plural === "projects") return ofProject(store, object);
  return undefined;
}

function ofNamespace(store, { metadata, spec }) {
  const project = store.get("projects", metadata.namespace);
  if (!project) return status(404, "NotFound", `projects.business.tkestack.io "${metadata.namespace}" not found`, []);
  if (project.status.locked) {
    return status(403, "Forbidden", `namespaces.business.tkestack.io "${metadata.name}" is forbidden: project "${metadata.namespace}" has been locked by an operator`,
      [{ reason: "ProjectLocked", field: "metadata.namespace", message: `project=${metadata.namespace}` }]);
  }
  const hard = project.spec.clusters[spec.clusterName]?.hard ?? {};
  const used = project.status.clusters[spec.clusterName]?.used ?? {};
  const before = store.get("namespaces", metadata.name, metadata.namespace)?.spec.hard ?? {};
  const level = { word: "project", name: metadata.namespace, cluster: spec.clusterName, hard, used, before };
  return refused("namespaces", metadata.name, level, spec.hard ?? {}, (resource) => `spec.hard[${resource}]`);
}

function ofProject(store, { metadata, spec }) {
  for (const [cluster, { hard: asked = {} }] of Object.entries(spec.clusters ?? {})) {
    const parent = spec.parentProjectName ? store.get("projects", spec.parentProjectName) : store.get("tenants", spec.tenantID);
    const before = store.get("projects", metadata.name)?.spec.clusters[cluster]?.hard ?? {};
    const level = {
      word: spec.parentProjectName ? "project" : "tenant", name: parent?.metadata.name ?? "", cluster, before,
      hard: parent?.spec.clusters?.[cluster]?.hard ?? {}, used: parent?.status.clusters?.[cluster]?.used ?? {},
    };
    const answer = refused("projects", metadata.name, level, asked, (resource) => `spec.clusters[${cluster}].hard[${resource}]`);
    if (answer) return answer;
  }
  return undefined;
}

function refused(plural, name, { word, name: of, cluster, hard, used, before }, asked, field) {
  const texts = [];
  const causes = [];
  for (const [resource, requested] of Object.entries(asked)) {
    const [want, limit, allocated, own] = [requested, hard[resource] ?? "0", used[resource] ?? "0", before[resource] ?? "0"].map(amount);
    if (want === undefined) return status(422, "Invalid", `${field(resource)}: Invalid value: "${requested}": is no quantity`, [{ reason: "FieldValueInvalid", field: field(resource), message: `Invalid value: "${requested}": is no quantity` }]);
    if (allocated - own + want <= limit) continue;
    const fits = said(limit - allocated + own, limit >= 2n ** 30n * 1000n ? "Gi" : "");
    const remaining = said(limit - allocated, "");
    texts.push(`exceeded quota of ${word} "${of}" on cluster "${cluster}": requested ${resource}=${requested}, hard ${hard[resource]}, allocated ${used[resource]}, remaining ${remaining}; the largest that fits is ${fits}`);
    causes.push({ reason: "QuotaExceeded", field: field(resource), message: `${word}=${of} cluster=${cluster} resource=${resource} requested=${requested} hard=${hard[resource] ?? 0} allocated=${used[resource] ?? 0} remaining=${remaining} fits=${fits}` });
  }
  return causes.length === 0 ? undefined : status(403, "Forbidden", `${plural}.business.tkestack.io "${name}" is forbidden: ${texts.join("; ")}`, causes);
}

export const status = (code, reason, message, causes = []) =>
  ({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", code, reason, message, details: { causes } });
