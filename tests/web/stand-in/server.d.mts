export class StandIn {
  constructor(options: { dist: string; projects?: number; namespaces?: number });
  readonly store: { list(plural: string): object[]; put(plural: string, object: object): object };
  start(port?: number): Promise<string>;
  stop(): Promise<void>;
  change(plural: string, namespace: string | undefined, name: string, patch: object): void;
}
