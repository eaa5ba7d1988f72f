import { useParams } from "@solidjs/router";
import { For, Show, batch, createEffect, createSignal, on, untrack } from "solid-js";
import { request } from "../api/client";
import { pathOfRoute } from "../api/collections";
import { conditionsOf } from "../api/conditions";
import { formatDateTime, formatTimeOfDay, t } from "../i18n/messages";
import type { ManagedFields } from "../live/feed";
import { type ObjectWithConditions, fieldPathsOf } from "../live/recent";
import { PeopleLink } from "../ui/access";
import { CopyButton } from "../ui/copy";
import { createLatest } from "../ui/lookup";
import { Conditions, ErrorCard, ErrorText, PageHeader, RetryButton } from "../ui/parts";
import { yamlOf } from "../ui/yaml";

/** An object as stored, as YAML. */
export function Review() {
  const params = useParams<{ plural: string; place: string }>();
  const path = () => pathOfRoute(params.plural, params.place);
  // Not createResource: on a reload it would suspend the whole page.
  const [object, setObject] = createSignal<{ found: ObjectWithConditions; read: number }>();
  const [problem, setProblem] = createSignal<unknown>();
  const read = async (path: string) => {
    const isWanted = () => path === here();
    try {
      const found = await request<ObjectWithConditions>(path);
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
  const retry = () => {
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
    <Show when={object()} fallback={<Unread problem={problem()} retry={retry} />}>
      {(one) => (
        <>
          <Show when={problem()}>{(is) => <p class="notice bad" role="alert"><ErrorText error={is()} /></p>}</Show>
          <Shown object={one().found} plural={params.plural} read={one().read} retry={retry} />
        </>
      )}
    </Show>
  );
}

/** Nothing was read yet. */
function Unread(props: { problem: unknown; retry: () => void }) {
  return (
    <Show when={props.problem} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
      {(is) => <ErrorCard error={is()}><RetryButton retry={props.retry} /></ErrorCard>}
    </Show>
  );
}

/** How many field paths are listed beside a manager; more are in a collapsed element. */
const PARTS = 6;

function Parts(props: { fields: ManagedFields }) {
  const all = () => fieldPathsOf(props.fields);
  const text = () => <code class="line">{all().join(", ")}</code>;
  return (
    <Show when={all().length > 0}>
      <Show when={all().length > PARTS} fallback={<div>{text()}</div>}>
        <details><summary>{t("review.parts", { count: all().length })}</summary>{text()}</details>
      </Show>
    </Show>
  );
}

function Shown(props: { object: ObjectWithConditions; plural: string; read: number; retry: () => void }) {
  const yaml = createLatest(() => props.object, (object) => {
    const { managedFields: _, ...metadata } = object.metadata;
    return yamlOf({ ...object, metadata });
  });
  return (
    <>
      <PageHeader title={t("review.title", { name: props.object.metadata.name })} under={props.object.kind ?? ""}>
        {/* A platform has no page of its own, and that of its tenant is there only if the tenant has an object. */}
        <Show when={props.plural === "platforms"}><PeopleLink plural="platforms" name={props.object.metadata.name} /></Show>
        <CopyButton text={yaml() ?? ""} />
        <button class="button" type="button" onClick={() => props.retry()}>{t("review.again")}</button>
      </PageHeader>
      <p class="quiet" role="status">{t("review.read", { time: formatTimeOfDay(props.read) })}</p>
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
                  <span class="quiet">{fields.time ? formatDateTime(fields.time) : ""}</span>
                  <Parts fields={fields} />
                </li>
              )}
            </For>
          </ul>
        </section>
      </div>
      <section class="card" aria-label={t("review.yaml")}>
        <h2>{t("review.yaml")}</h2>
        <pre tabindex="0">{yaml()}</pre>
      </section>
    </>
  );
}
