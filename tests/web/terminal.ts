/** What people type, each in a terminal of his own. CONSOLE_PEOPLE is the platform's directory, which says where they log in, and at which server. */

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Page } from "@playwright/test";
import { fillIn } from "./platform";

export interface Said {
  code: number | null;
  /** What it printed, complaints last. */
  text: string;
}

interface LoginServer {
  server: string;
  authority: string;
}

const DEADLINE_MILLISECONDS = 120_000;
const PROGRAM = "kubectl-business";
/** Where the provider sends a browser back to. */
const LISTENER = /^http:\/\/127\.0\.0\.1:\d+\/callback\?/;

function provided<T>(file: string): T {
  return JSON.parse(readFileSync(join(process.env["CONSOLE_PEOPLE"] ?? "", "oidc", file), "utf8")) as T;
}

/** What an operator tells people to type. */
function loginArgs(): string[] {
  const { issuer, authority } = provided<{ issuer: string; authority: string }>("config.json");
  const [door] = provided<LoginServer[]>("doors.json");
  if (!door) throw new Error("people come to no server");
  return [
    "login", "--print-url", "--scope=profile", "--client-id=kubernetes", `--issuer=${issuer}`, `--issuer-ca=${authority}`,
    `--server=${door.server}`, `--certificate-authority=${door.authority}`,
  ];
}

export class Terminal {
  private readonly env: NodeJS.ProcessEnv;

  /** `home` is somebody's: kubeconfig and session are kept in it. */
  constructor(home: string) {
    mkdirSync(home, { recursive: true });
    this.env = { ...process.env, HOME: home, KUBECONFIG: join(home, ".kube", "config"), NO_COLOR: "1" };
  }

  /** `kubectl business login`: it prints an address, which is opened in a browser, and ends when the browser has come back. */
  async logsIn(page: Page, name: string): Promise<Said> {
    const child = spawn(PROGRAM, loginArgs(), { env: this.env, stdio: ["ignore", "ignore", "pipe"], timeout: DEADLINE_MILLISECONDS });
    const told: string[] = [];
    const ended = new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve));
    const printed = new Promise<string>((resolve, reject) => {
      createInterface(child.stderr).on("line", (line) => {
        told.push(line);
        if (line.trim().startsWith("https://")) resolve(line.trim());
      });
      ended.then(() => reject(new Error(`no address: ${told.join("\n")}`)), reject);
    });
    try {
      await page.goto(await printed);
      await fillIn(page, name);
      await page.waitForURL(LISTENER);
      return { code: await ended, text: told.join("\n") };
    } finally {
      child.kill();
    }
  }

  /** `kubectl business` */
  business(...args: string[]): Said {
    return this.run(PROGRAM, args);
  }

  kubectl(...args: string[]): Said {
    return this.run("kubectl", args);
  }

  /** `kubectl` with a file that he was given. */
  kubectlWith(file: string, ...args: string[]): Said {
    return this.run("kubectl", ["--kubeconfig", file, ...args]);
  }

  private run(program: string, args: readonly string[]): Said {
    const { status, stdout, stderr, error } = spawnSync(program, args, { env: this.env, encoding: "utf8", timeout: DEADLINE_MILLISECONDS });
    if (error) throw error;
    return { code: status, text: stdout + stderr };
  }
}
