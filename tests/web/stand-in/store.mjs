/** Objects with revisions and a short history, as the API has them. */

const HISTORY = 20_000;
const key = ({ namespace = "", name }) => `${namespace}/${name}`;

export class Store {
  #revision = 100;
  #kinds = new Map();
  #events = [];
  #followers = new Set();

  constructor(objects) {
    for (const [plural, items] of Object.entries(objects)) {
      this.#kinds.set(plural, new Map());
      for (const item of items) this.put(plural, item);
    }
    this.#events = [];
  }

  get revision() {
    return String(this.#revision);
  }

  has(plural) {
    return this.#kinds.has(plural);
  }

  get(plural, name, namespace) {
    return this.#kinds.get(plural)?.get(key({ namespace, name }));
  }

  list(plural) {
    return [...(this.#kinds.get(plural)?.values() ?? [])];
  }

  put(plural, object) {
    const kind = this.#kinds.get(plural);
    const before = kind.get(key(object.metadata));
    const metadata = { ...object.metadata, uid: object.metadata.uid ?? before?.metadata.uid ?? `uid-${plural}-${key(object.metadata)}`, resourceVersion: String(++this.#revision) };
    const after = { ...object, metadata };
    kind.set(key(metadata), after);
    this.#tell(plural, before ? "MODIFIED" : "ADDED", after);
    return after;
  }

  remove(plural, object) {
    this.#kinds.get(plural).delete(key(object.metadata));
    const gone = { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#revision) } };
    this.#tell(plural, "DELETED", gone);
    return gone;
  }

  /** Calls with each event of a kind after a revision; `undefined` where that is too long ago. Answers how to stop. */
  follow(plural, after, call) {
    const [oldest] = this.#events;
    if (oldest && Number(after) < oldest.revision - 1 && this.#events.length === HISTORY) return undefined;
    for (const event of this.#events) if (event.plural === plural && event.revision > Number(after)) call(event);
    const follower = { plural, call };
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  #tell(plural, type, object) {
    const event = { revision: this.#revision, plural, type, object };
    this.#events.push(event);
    if (this.#events.length > HISTORY) this.#events.shift();
    for (const follower of this.#followers) if (follower.plural === plural) follower.call(event);
  }
}
