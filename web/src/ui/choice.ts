/** Projects and tenants as options of a field: pure functions. */

export interface Choice {
  metadata: { name: string };
  spec?: { displayName?: string | undefined } | undefined;
}

/** The text of an option: the display name first, as in the tree. */
export function choiceText({ metadata: { name }, spec }: Choice): string {
  const shown = spec?.displayName;
  return shown && shown !== name ? `${shown} · ${name}` : name;
}

/** The text for a name; the name itself while its object is not known. */
export function choiceNamed(all: ReadonlyMap<string, Choice>, name: string): string {
  return choiceText(all.get(name) ?? { metadata: { name } });
}

const inWords = new Intl.Collator();

/** The names, sorted by the text of the option. */
export function inChoiceOrder(all: Iterable<Choice>): string[] {
  return [...all].map((one) => ({ name: one.metadata.name, text: choiceText(one) }))
    .sort((a, b) => inWords.compare(a.text, b.text)).map(({ name }) => name);
}
