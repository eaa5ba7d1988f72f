/** What people type, as whoever has logged in at the provider: CONSOLE_PEOPLE has a kubeconfig for each of them. */

import { spawnSync } from "node:child_process";
import { join } from "node:path";

export interface Said {
  code: number | null;
  /** What it printed, complaints last. */
  text: string;
}

const DEADLINE_MILLISECONDS = 60_000;

function run(program: string, args: readonly string[], kubeconfig: string, input?: string): Said {
  const env = { ...process.env, KUBECONFIG: kubeconfig, NO_COLOR: "1" };
  const { status, stdout, stderr, error } = spawnSync(program, args, { env, encoding: "utf8", timeout: DEADLINE_MILLISECONDS, ...(input !== undefined && { input }) });
  if (error) throw error;
  return { code: status, text: stdout + stderr };
}

const of = (name: string) => join(process.env["CONSOLE_PEOPLE"] ?? "", `${name}.kubeconfig`);

/** `kubectl business`, as somebody. */
export const business = (name: string, ...args: string[]): Said => run("kubectl-business", args, of(name));

/** `kubectl`, as somebody. */
export const kubectl = (name: string, args: readonly string[], input?: string): Said => run("kubectl", args, of(name), input);

/** `kubectl` with a file that somebody was given. */
export const kubectlWith = (file: string, ...args: string[]): Said => run("kubectl", args, file);
