/** What the server says beside an answer. */

const WARNING = /\b299 \S+ "((?:[^"\\]|\\.)*)"/g;

/** The texts of `Warning` headers, which a browser hands out as one line with a character for each byte. */
export function warningsOf(line: string | null): string[] {
  return [...(line ?? "").matchAll(WARNING)].map(([, quoted = ""]) => ofBytes(quoted.replace(/\\(.)/g, "$1")));
}

function ofBytes(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(text, (character) => character.charCodeAt(0)));
}
