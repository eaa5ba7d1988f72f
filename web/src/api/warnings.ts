/** The `Warning` headers of a response. */

const WARNING = /\b299 \S+ "((?:[^"\\]|\\.)*)"/g;

/** The texts of `Warning` headers. A browser joins them into one line, with one character for each byte. */
export function warningsOf(line: string | null): string[] {
  return [...(line ?? "").matchAll(WARNING)].map(([, quoted = ""]) => decodeUtf8(quoted.replace(/\\(.)/g, "$1")));
}

function decodeUtf8(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(text, (character) => character.charCodeAt(0)));
}
