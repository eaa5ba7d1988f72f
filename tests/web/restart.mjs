/** `node restart.mjs STATE NAME`: ends a process of a local platform, whose supervisor starts it again, and waits for the new one. */

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

const [state, name] = process.argv.slice(2);
const DEADLINE_MILLISECONDS = 120_000;

function pid() {
  const child = JSON.parse(readFileSync(state, "utf8")).children.find((child) => child.name === name);
  return child?.pid;
}

const before = pid();
if (before === undefined) throw new Error(`${name} is not in ${state}`);
process.kill(before, "SIGTERM");
const end = Date.now() + DEADLINE_MILLISECONDS;
while ((pid() ?? before) === before) {
  if (Date.now() > end) throw new Error(`${name} was not started again`);
  await pause(50);
}
