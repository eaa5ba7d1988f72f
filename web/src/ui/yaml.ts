/** YAML; its library is loaded on first use. */

export async function yamlOf(value: unknown): Promise<string> {
  try {
    return (await import("yaml")).stringify(value);
  } catch {
    // The library could not be loaded: JSON is YAML, too.
    return JSON.stringify(value, null, 2);
  }
}
