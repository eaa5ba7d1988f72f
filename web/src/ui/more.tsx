import { A } from "@solidjs/router";
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { GROUP, request } from "../api/client";
import { type Conditioned, wrongOf } from "../api/conditions";
import { messageOf } from "../api/status";
import { t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { ConditionWords } from "./parts";

type Plural = "platforms" | "namespacetemplates" | "imagenamespaces" | "chartgroups" | "registrycredentials";

type Listed = Resource & Conditioned & { spec?: { tenantID?: string } };

interface Read {
  plural: Plural;
  items: Listed[];
  problem: string;
}

interface MoreProps {
  kinds: readonly Plural[];
  /** The project that they are in. */
  project?: string;
  /** Of platforms, whose. */
  tenant?: string;
}

/** Objects without a page of their own: what they are, their reviews say. They are read when somebody asks for them. */
export function MoreObjects(props: MoreProps) {
  const [isOpen, setOpen] = createSignal(false);
  // No resource of Solid's: while one is read, the whole page gives way to "Loading".
  const [all, setAll] = createSignal<Read[]>();
  // By value: each event of the feed brings the same place once more, and nothing is read for that.
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

async function list(plural: Plural, project: string | undefined, tenant: string | undefined): Promise<Read> {
  const place = project === undefined ? GROUP : `${GROUP}/namespaces/${encodeURIComponent(project)}`;
  try {
    const { items } = await request<{ items: Listed[] }>(`${place}/${plural}`);
    return { plural, items: items.filter(({ spec }) => plural !== "platforms" || tenant === undefined || spec?.tenantID === tenant), problem: "" };
  } catch (error) {
    return { plural, items: [], problem: messageOf(error) };
  }
}

function Kind(props: { read: Read; project: string | undefined }) {
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
                <For each={wrongOf(object)}>{(wrong) => <>{" "}<ConditionWords one={wrong} /></>}</For>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </div>
  );
}
