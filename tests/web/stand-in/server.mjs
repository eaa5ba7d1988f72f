/**
 * A small stand-in for business-api's console, for whoever writes the page and for its fast tests: one origin with the page, its headers,
 * a session cookie and the API's lists, watches, dry runs and refusals, from memory. What it decides is simulated: the same tests
 * run against a real platform.
 */

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { WebSocketServer } from "ws";
import { refusal, status } from "./budget.mjs";
import { object, offer, platform } from "./objects.mjs";
import { providerPage } from "./provider.mjs";
import { Store } from "./store.mjs";

const API = "/apis/business.tkestack.io/v1/";
const SESSION_SECONDS = 3600;
/** The cookie of a session whose token has ended: nobody is known by it until it is refreshed. */
const ENDED = "stand-in-ended=1";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json", ".woff2": "font/woff2" };
const KINDS = {
  projects: "Project", namespaces: "Namespace", tenants: "Tenant", memberclusters: "MemberCluster", clusteroffers: "ClusterOffer", namespacetemplates: "NamespaceTemplate",
  platforms: "Platform", configmaps: "ConfigMap", nsemigrations: "NsEmigration", imagenamespaces: "ImageNamespace", chartgroups: "ChartGroup", registrycredentials: "RegistryCredential",
};

/** Who there is: a tenant, or the one project of it that he is known in; `*` is an operator. */
const PEOPLE = {
  alice: { groups: [], tenant: "acme", role: "admin" },
  bob: { groups: ["shop-developers"], tenant: "acme", project: "shop", role: "edit" },
  dave: { groups: [], tenant: "acme", project: "shop", role: "view" },
  carol: { groups: ["globex-administrators"], tenant: "globex", role: "admin" },
  oscar: { groups: ["platform-operators"], tenant: "*", role: "admin" },
};

export class StandIn {
  #sockets = new Set();
  #watches = new Set();

  constructor({ dist, projects = 0, namespaces = 0 }) {
    this.dist = dist;
    this.store = new Store(platform(projects, namespaces));
  }

  /** Answers its origin. */
  async start(port = 0) {
    this.server = createServer((request, response) => void this.#answer(request, response).catch((error) => this.#send(response, status(500, "InternalError", String(error)))));
    const watches = new WebSocketServer({ noServer: true });
    this.server.on("upgrade", (request, socket, head) => {
      this.#sockets.add(socket);
      watches.handleUpgrade(request, socket, head, (webSocket) => this.#watch(request, webSocket));
    });
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}`;
  }

  /** Ends at once, as a server that is replaced. Its objects stay. */
  async stop() {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** As kubectl would: a merge patch by an operator. Where roles change, watches end as expired. */
  change(plural, namespace, name, patch) {
    this.store.put(plural, merged(this.store.get(plural, name, namespace), patch));
    if (patch.spec?.access) for (const watch of [...this.#watches]) expire(watch);
  }

  async #answer(request, response) {
    const url = new URL(request.url, "http://stand-in");
    if (url.pathname.startsWith("/console")) return this.#console(request, response, url);
    if (url.pathname === "/stand-in/provider") return providerPage(request, response, url, PEOPLE);
    const who = this.#who(request);
    if (!who) return this.#send(response, status(401, "Unauthorized", "Unauthorized"));
    if (request.method !== "GET" && request.headers["x-business-console"] !== "1") return this.#send(response, status(403, "Forbidden", "forbidden: no X-Business-Console"));
    if (!url.pathname.startsWith(API)) return this.#send(response, status(404, "NotFound", "the server could not find the requested resource"));
    const place = placeOf(url.pathname);
    const body = request.method === "GET" ? undefined : await read(request);
    this.#send(response, this.#api(who, request.method, place, url.searchParams, body));
  }

  #api(who, method, place, query, body) {
    const { plural, name, namespace, subresource } = place;
    if (!KINDS[plural]) return status(404, "NotFound", "the server could not find the requested resource");
    if (plural === "memberclusters" && who.tenant !== "*") return status(403, "Forbidden", `memberclusters.business.tkestack.io is forbidden: User "${who.name}" cannot ${method.toLowerCase()} resource "memberclusters": this is for operators`);
    if (method === "GET") return name ? (this.#find(who, place) ?? missing(place)) : this.#list(who, place, query);
    if (who.role === "view") return status(403, "Forbidden", `${plural}.business.tkestack.io is forbidden: User "${who.name}" cannot do this: this needs the role edit in project "${namespace ?? name}"`);
    const dry = query.get("dryRun") === "All";
    if (who.role === "edit" && (plural !== "namespaces" || subresource)) return status(403, "Forbidden", `${plural}.business.tkestack.io "${name}" is forbidden: User "${who.name}" cannot do this: this needs the role admin in project "${namespace ?? name}"`);
    if (who.tenant !== "*" && plural === "tenants") return status(403, "Forbidden", `${plural}.business.tkestack.io "${name}" is forbidden: User "${who.name}" cannot ${method.toLowerCase()} resource "tenants": this is for operators`);
    if (method === "POST" && !name) return this.#write(plural, { ...body, metadata: { ...body.metadata, ...(namespace && { namespace }) } }, dry, 201);
    const found = this.#find(who, place);
    if (!found) return missing(place);
    if (subresource) return this.#act(who, found, place, body, dry);
    if (method === "DELETE") return otherThan(body, plural, found) ?? (dry ? found : this.#delete(plural, found));
    if (body.metadata?.resourceVersion && body.metadata.resourceVersion !== found.metadata.resourceVersion) {
      return status(409, "Conflict", `Operation cannot be fulfilled on ${plural}.business.tkestack.io "${name}": the object has been modified; please apply your changes to the latest version and try again`);
    }
    const answer = this.#write(plural, method === "PUT" ? body : merged(found, body), dry, 200);
    if (!dry && body.spec?.access) for (const watch of [...this.#watches]) expire(watch);
    return answer;
  }

  #list(who, { plural, namespace }, query) {
    const everything = plural === "clusteroffers" ? this.#offers(who) : this.store.list(plural);
    const all = everything.filter((item) => (!namespace || item.metadata.namespace === namespace) && this.#sees(who, plural, item));
    const from = Number(query.get("continue") ?? 0);
    const to = Math.min(from + Number(query.get("limit") ?? all.length), all.length);
    const metadata = { resourceVersion: this.store.revision, ...(to < all.length && { continue: String(to) }) };
    return { kind: `${KINDS[plural]}List`, apiVersion: "business.tkestack.io/v1", metadata, items: all.slice(from, to) };
  }

  #offers(who) {
    const own = this.store.list("tenants").filter((tenant) => who.tenant === tenant.metadata.name);
    return this.store.list("memberclusters").map((cluster) => offer(cluster, own));
  }

  #find(who, { plural, name, namespace }) {
    const found = plural === "clusteroffers" ? this.#offers(who).find(({ metadata }) => metadata.name === name) : this.store.get(plural, name, namespace);
    return found && this.#sees(who, plural, found) ? found : undefined;
  }

  #sees({ name, groups, tenant, project }, plural, { metadata, spec }) {
    if (tenant === "*" || plural === "clusteroffers" || plural === "namespacetemplates") return true;
    if (plural === "memberclusters") return false;
    if (plural === "tenants") return metadata.name === tenant;
    if (spec?.tenantID !== tenant) return false;
    if (project && !this.store.get("projects", project).spec.access?.some((entry) => [name, ...groups].includes(entry.name))) return false;
    return !project || this.#lies(plural === "projects" ? metadata.name : metadata.namespace, project);
  }

  /** Whether a project is another or below it. */
  #lies(name, above) {
    for (let at = name; at; at = this.store.get("projects", at)?.spec.parentProjectName) if (at === above) return true;
    return false;
  }

  #write(plural, given, dry, code) {
    if (plural === "namespaces" && !given.metadata.name) given.metadata.name = `${given.spec.clusterName}-${given.spec.namespace}`;
    const no = refusal(this.store, plural, given);
    if (no) return no;
    if (code === 201 && this.store.get(plural, given.metadata.name, given.metadata.namespace)) {
      return status(409, "AlreadyExists", `${plural}.business.tkestack.io "${given.metadata.name}" already exists`);
    }
    const tenantID = given.spec.tenantID ?? this.store.get("projects", given.metadata.namespace ?? given.spec.parentProjectName)?.spec.tenantID;
    const fresh = code === 201 ? object(KINDS[plural], given.metadata, { ...given.spec, tenantID }, { phase: "Pending", clusters: {}, conditions: [] }) : given;
    const written = dry ? fresh : this.store.put(plural, fresh);
    return { ...written, code };
  }

  #delete(plural, found) {
    this.store.put(plural, { ...found, metadata: { ...found.metadata, deletionTimestamp: new Date().toISOString() }, status: { ...found.status, phase: "Terminating" } });
    setTimeout(() => this.store.remove(plural, found), 500);
    return { kind: "Status", status: "Success", code: 200 };
  }

  #act({ tenant }, found, { plural, subresource }, body, dry) {
    if (subresource === "transfer") return this.#transfer(found, body, dry);
    if (tenant !== "*" && ["lock", "unlock", "abandon"].includes(subresource)) return status(403, "Forbidden", `${plural}.business.tkestack.io "${found.metadata.name}" is forbidden: cannot ${subresource}`);
    if (subresource === "lock" || subresource === "unlock") this.store.put(plural, { ...found, 
      metadata: { ...found.metadata, annotations: subresource === "lock" ? { "business.tkestack.io/lock-reason": body.reason } : {} }, status: { ...found.status, locked: subresource === "lock" } });
    else if (subresource === "abandon") this.#abandon(plural, found, body.reason);
    else return status(404, "NotFound", "the server could not find the requested resource");
    return { kind: "Status", status: "Success", code: 201 };
  }

  /** The namespace goes, its charge stays with the project. */
  #abandon(plural, found, reason) {
    const { metadata: { name, namespace, uid }, spec, status: is } = found;
    const project = this.store.get("projects", namespace);
    const held = [...(project.status.ledger?.held ?? []), { uid, state: "abandoned", clusterName: spec.clusterName, namespace: spec.namespace, hard: is.cachedSpecHard, reason }];
    this.store.remove(plural, this.store.get(plural, name, namespace));
    this.store.put("projects", { ...project, status: { ...project.status, ledger: { ...project.status.ledger, held } } });
  }

  #transfer(found, { project, reason = "", uid }, dry) {
    const { metadata, spec } = found;
    if (uid && uid !== metadata.uid) return status(409, "Conflict", `namespaces.business.tkestack.io "${metadata.name}" is another one`);
    const moved = { ...found, metadata: { ...metadata, namespace: project, annotations: { ...metadata.annotations, "business.tkestack.io/transfer-reason": reason } } };
    const target = this.store.get("projects", project);
    if (target && !target.spec.clusters[spec.clusterName]) {
      return status(422, "Invalid", `namespaces.business.tkestack.io "${metadata.name}" is invalid: project: Invalid value: "${project}": does not list the cluster "${spec.clusterName}"`);
    }
    const no = refusal(this.store, "namespaces", moved);
    if (no) return no;
    if (!dry) {
      this.store.remove("namespaces", found);
      this.store.put("namespaces", moved);
    }
    return { ...moved, code: 201 };
  }

  #watch(request, socket) {
    const who = this.#who(request);
    const url = new URL(request.url, "http://stand-in");
    const { plural, namespace } = placeOf(url.pathname);
    if (!who || !this.store.has(plural)) return socket.close();
    const send = ({ type, object: item }) => {
      if ((!namespace || item.metadata.namespace === namespace) && this.#sees(who, plural, item)) socket.send(JSON.stringify({ type, object: item }));
    };
    const stop = this.store.follow(plural, url.searchParams.get("resourceVersion") ?? this.store.revision, send);
    if (!stop) return expire(socket);
    this.#watches.add(socket);
    return socket.on("close", () => {
      stop();
      this.#watches.delete(socket);
    });
  }

  async #console(request, response, url) {
    const { pathname, searchParams } = url;
    if (pathname === "/console/config") return this.#send(response, { issuers: [{ name: "local", displayName: "This machine" }, { name: "partner", displayName: "Partner GmbH" }], version: "0.0.0-stand-in" });
    if (pathname === "/console/login") return redirect(response, `/stand-in/provider?return=${encodeURIComponent(searchParams.get("return") ?? "/console/")}`);
    if (pathname === "/console/logout") {
      response.setHeader("Set-Cookie", "stand-in=; Path=/; Max-Age=0");
      return this.#send(response, { location: "/console/" });
    }
    if (pathname === "/console/session" || pathname === "/console/refresh") {
      if (pathname === "/console/refresh") {
        response.setHeader("Set-Cookie", `${ENDED}; Path=/; Max-Age=0`);
        request.headers.cookie = request.headers.cookie?.replace(ENDED, "");
      }
      const who = this.#who(request);
      const ends = new Date(Date.now() + SESSION_SECONDS * 1000).toISOString();
      return this.#send(response, who ? { username: who.name, groups: who.groups, issuer: "local", expires: ends, ends } : status(401, "Unauthorized", "there is no session"));
    }
    return this.#page(response, pathname.slice("/console/".length));
  }

  #page(response, path) {
    const wanted = join(this.dist, normalize(`/${path}`));
    const isFile = existsSync(wanted) && statSync(wanted).isFile();
    if (!isFile && path.startsWith("assets/")) return this.#send(response, status(404, "NotFound", "not found"));
    const file = isFile ? wanted : join(this.dist, "index.html");
    response.writeHead(200, { ...this.#headers(), "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    return createReadStream(file).pipe(response);
  }

  #send(response, body) {
    const code = body.kind === "Status" || body.code ? (body.code ?? 200) : 200;
    response.writeHead(code, { ...this.#headers(), "Content-Type": "application/json" });
    response.end(JSON.stringify(body.kind === "Status" ? body : { ...body, code: undefined }));
  }

  #headers() {
    return {
      "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
        `connect-src 'self' ws://127.0.0.1:${this.port}; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`,
      "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
    };
  }

  #who({ headers: { cookie = "" } }) {
    if (cookie.includes(ENDED)) return undefined;
    const name = /(?:^|; )stand-in=(\w+)/.exec(cookie)?.[1];
    return PEOPLE[name] ? { name, ...PEOPLE[name] } : undefined;
  }
}

function placeOf(pathname) {
  const parts = pathname.slice(API.length).split("/").filter(Boolean).map(decodeURIComponent);
  if (parts[0] === "namespaces" && parts.length > 2) {
    const [, namespace, plural, name, subresource] = parts;
    return { plural, name, namespace, subresource };
  }
  const [plural, name, subresource] = parts;
  return { plural, name, subresource };
}

function expire(watch) {
  watch.send(JSON.stringify({ type: "ERROR", object: status(410, "Expired", "too old resource version") }));
  watch.close();
}

/** A deletion that names another object than the one that is there. */
function otherThan(options, plural, { metadata: { name, uid } }) {
  const wanted = options?.preconditions?.uid;
  return wanted === undefined || wanted === uid ? undefined : status(409, "Conflict", `Operation cannot be fulfilled on ${KINDS[plural]}.business.tkestack.io "${name}": ` +
    `the UID in the precondition (${wanted}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`);
}

const missing = ({ plural, name }) => status(404, "NotFound", `${plural}.business.tkestack.io "${name}" not found`);

function merged(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = typeof value === "object" && !Array.isArray(value) ? merged(result[name] ?? {}, value) : value;
  }
  return result;
}

function redirect(response, location) {
  response.writeHead(302, { Location: location });
  response.end();
}

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const text = Buffer.concat(parts).toString();
  return text === "" ? undefined : JSON.parse(text);
}
