/** Projects and tenants as they are chosen from: pure functions. */

export interface Choice {
  metadata: { name: string };
  spec?: { displayName?: string | undefined } | undefined;
}

/** As the tree has them: the name for people first. */
export function choiceText({ metadata: { name }, spec }: Choice): string {
  const shown = spec?.displayName;
  return shown && shown !== name ? `${shown} · ${name}` : name;
}

/** The same of a name, which is all there is to read while its object is not known. */
export function choiceNamed(all: ReadonlyMap<string, Choice>, name: string): string {
  return choiceText(all.get(name) ?? { metadata: { name } });
}

const inWords = new Intl.Collator();

/** Names, in the order of what is read. */
export function inChoiceOrder(all: Iterable<Choice>): string[] {
  return [...all].map((one) => ({ name: one.metadata.name, text: choiceText(one) }))
    .sort((a, b) => inWords.compare(a.text, b.text)).map(({ name }) => name);
}
