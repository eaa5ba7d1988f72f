import { useParams } from "@solidjs/router";
import { For, Show, batch, createEffect, createResource, createSignal, on, untrack } from "solid-js";
import { request } from "../api/client";
import { pathOfPlace } from "../api/collections";
import { type Conditioned, conditionsOf } from "../api/conditions";
import { instant, moment, t } from "../i18n/messages";
import type { ManagedFields, Resource } from "../live/feed";
import { partsOf } from "../live/recent";
import { CopyButton } from "../ui/copy";
import { AgainButton, Conditions, ErrorText, Head, Problem } from "../ui/parts";
import { yamlOf } from "../ui/yaml";

type Reviewed = Resource & Conditioned;

/** An object as it is stored. */
export function Review() {
  const params = useParams<{ plural: string; place: string }>();
  const path = () => pathOfPlace(params.plural, params.place);
  // No resource of Solid's: when it is read again, the page would give way to "Loading".
  const [object, setObject] = createSignal<{ found: Reviewed; read: number }>();
  const [problem, setProblem] = createSignal<unknown>();
  const read = async (path: string) => {
    const isWanted = () => path === here();
    try {
      const found = await request<Reviewed>(path);
      if (!isWanted()) return;
      batch(() => {
        setObject({ found, read: Date.now() });
        setProblem(undefined);
      });
    } catch (error) {
      if (isWanted()) setProblem(error);
    }
  };
  const here = () => untrack(path);
  const again = () => {
    setProblem(undefined);
    void read(here());
  };
  createEffect(on(path, (path) => {
    batch(() => {
      setObject(undefined);
      setProblem(undefined);
    });
    void read(path);
  }));
  return (
    <Show when={object()} fallback={<Unread problem={problem()} again={again} />}>
      {(one) => (
        <>
          <Show when={problem()}>{(is) => <p class="notice bad" role="alert"><ErrorText error={is()} /></p>}</Show>
          <Shown object={one().found} read={one().read} again={again} />
        </>
      )}
    </Show>
  );
}

/** Nothing was read yet. */
function Unread(props: { problem: unknown; again: () => void }) {
  return (
    <Show when={props.problem} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
      {(is) => <Problem error={is()}><AgainButton again={props.again} /></Problem>}
    </Show>
  );
}

/** So many parts stand beside a manager; more of them open. */
const PARTS = 6;

function Parts(props: { fields: ManagedFields }) {
  const all = () => partsOf(props.fields);
  const text = () => <code class="line">{all().join(", ")}</code>;
  return (
    <Show when={all().length > 0}>
      <Show when={all().length > PARTS} fallback={<div>{text()}</div>}>
        <details><summary>{t("review.parts", { count: all().length })}</summary>{text()}</details>
      </Show>
    </Show>
  );
}

function Shown(props: { object: Reviewed; read: number; again: () => void }) {
  const [yaml] = createResource(() => props.object, (object) => {
    const { managedFields: _, ...metadata } = object.metadata;
    return yamlOf({ ...object, metadata });
  });
  return (
    <>
      <Head title={t("review.title", { name: props.object.metadata.name })} under={props.object.kind ?? ""}>
        <CopyButton text={yaml.latest ?? ""} />
        <button class="button" type="button" onClick={() => props.again()}>{t("review.again")}</button>
      </Head>
      <p class="quiet" role="status">{t("review.read", { time: instant(props.read) })}</p>
      <div class="cards">
        <section class="card" aria-label={t("review.conditions")}>
          <h2>{t("review.conditions")}</h2>
          <Conditions all={conditionsOf(props.object)} />
        </section>
        <section class="card" aria-label={t("review.managers")}>
          <h2>{t("review.managers")}</h2>
          <ul class="stairs">
            <For each={props.object.metadata.managedFields}>
              {(fields) => (
                <li>
                  <span class="tag">{fields.operation}</span>{" "}{fields.manager}{fields.subresource ? ` · ${fields.subresource}` : ""}{" "}
                  <span class="quiet">{fields.time ? moment(fields.time) : ""}</span>
                  <Parts fields={fields} />
                </li>
              )}
            </For>
          </ul>
        </section>
      </div>
      <section class="card" aria-label={t("review.yaml")}>
        <h2>{t("review.yaml")}</h2>
        <pre tabindex="0">{yaml.latest}</pre>
      </section>
    </>
  );
}
