import { A } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { GROUP, request } from "../api/client";
import { problemsOf } from "../api/conditions";
import { messageOf } from "../api/status";
import { t } from "../i18n/messages";
import type { ObjectWithConditions } from "../live/recent";
import { ConditionLine } from "./parts";

type Plural = "platforms" | "namespacetemplates" | "imagenamespaces" | "chartgroups" | "registrycredentials";

type ListedObject = ObjectWithConditions & { spec?: { tenantID?: string } };

interface ListResult {
  plural: Plural;
  items: ListedObject[];
  problem: string;
}

interface MoreProps {
  kinds: readonly Plural[];
  /** The project of the objects. */
  project?: string;
  /** Lists only Platforms of this tenant. */
  tenant?: string;
}

/** Objects without a page of their own, with links to their reviews. They are listed when the user opens the section. */
export function MoreObjects(props: MoreProps) {
  const [isOpen, setOpen] = createSignal(false);
  // Not createResource: it would suspend the whole page.
  const [all, setAll] = createSignal<ListResult[]>();
  // Compared as text, since events of the feed set equal props again, which must not start a request.
  const place = createMemo(() => JSON.stringify([props.kinds, props.project, props.tenant]));
  createEffect(on([place, isOpen], ([, isOpen]) => {
    const { kinds, project, tenant } = props;
    setAll(undefined);
    if (!isOpen) return;
    let isWanted = true;
    onCleanup(() => (isWanted = false));
    void Promise.all(kinds.map((plural) => list(plural, project, tenant))).then((read) => isWanted && setAll(read));
  }));
  return (
    <section class="card" aria-label={t("more.title")}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{t("more.title")}: {props.kinds.map((plural) => t(`more.${plural}`)).join(", ")}</summary>
        <Show when={all()} fallback={<p class="quiet" role="status">{isOpen() ? t("state.loading") : ""}</p>}>
          <For each={all()}>{(read) => <Kind read={read} project={props.project} />}</For>
        </Show>
      </details>
    </section>
  );
}

async function list(plural: Plural, project: string | undefined, tenant: string | undefined): Promise<ListResult> {
  const place = project === undefined ? GROUP : `${GROUP}/namespaces/${encodeURIComponent(project)}`;
  try {
    const { items } = await request<{ items: ListedObject[] }>(`${place}/${plural}`);
    return { plural, items: items.filter(({ spec }) => plural !== "platforms" || tenant === undefined || spec?.tenantID === tenant), problem: "" };
  } catch (error) {
    return { plural, items: [], problem: messageOf(error) };
  }
}

function Kind(props: { read: ListResult; project: string | undefined }) {
  const link = (name: string) => `/review/${props.read.plural}/${props.project === undefined ? name : `${props.project}/${name}`}`;
  return (
    <div class="stairs">
      <h3>{t(`more.${props.read.plural}`)}</h3>
      <Show when={!props.read.problem} fallback={<p class="notice">{props.read.problem}</p>}>
        <ul class="stairs">
          <For each={props.read.items} fallback={<li class="quiet">{t("more.none")}</li>}>
            {(object) => (
              <li>
                <A href={link(object.metadata.name)}>{object.metadata.name}</A>
                <For each={problemsOf(object)}>{(wrong) => <>{" "}<ConditionLine one={wrong} /></>}</For>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </div>
  );
}
