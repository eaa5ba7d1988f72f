/** YAML, whose writer is loaded when something is first shown as such. */

export async function yamlOf(value: unknown): Promise<string> {
  try {
    return (await import("yaml")).stringify(value);
  } catch {
    // While nothing answers: JSON is YAML, too.
    return JSON.stringify(value, null, 2);
  }
}
