import type { FullResult, Reporter, TestCase, TestResult } from "@playwright/test/reporter";

const COLOURS = /\u001b\[[0-9;]*m/g;
const LINES = 4;

/** Says at the end, in a few lines, why each test has failed: a log is often read from there. */
export default class Failures implements Reporter {
  readonly #why = new Map<string, string>();

  onTestEnd(test: TestCase, { errors }: TestResult): void {
    if (test.ok()) return;
    const linesOf = (message: string) => message.replace(COLOURS, "").split("\n").map((line) => line.trim()).filter((line) => line !== "");
    const said = errors.flatMap(({ message = "" }) => linesOf(message).slice(0, LINES));
    this.#why.set(`${test.location.file.split("/").at(-1) ?? ""}: ${test.title}`, said.join(" | "));
  }

  onEnd(_result: FullResult): void {
    for (const [title, why] of this.#why) console.log(`failed: ${title}: ${why}`);
  }

  printsToStdio(): boolean {
    return true;
  }
}
