import { useParams } from "@solidjs/router";
import { For, Show, createResource } from "solid-js";
import { request } from "../api/client";
import { pathOf } from "../api/collections";
import type { Condition } from "../api/types";
import { moment, t } from "../i18n/messages";
import type { Resource } from "../live/feed";
import { CopyButton } from "../ui/copy";
import { Conditions, Head, Problem } from "../ui/parts";

type Reviewed = Resource & { status?: { conditions?: Condition[] } };

/** An object as it is stored. */
export function Review() {
  const params = useParams<{ plural: string; place: string }>();
  const path = () => {
    const [first = "", second] = params.place.split("/");
    return second === undefined ? pathOf(params.plural, first) : pathOf(params.plural, second, first);
  };
  const [object] = createResource(path, (path) => request<Reviewed>(path));
  return (
    <Show when={object.error === undefined} fallback={<Problem error={object.error} />}>
      <Show when={object()} fallback={<p class="empty" role="status">{t("state.loading")}</p>}>
        {(found) => <Shown object={found()} />}
      </Show>
    </Show>
  );
}

function Shown(props: { object: Reviewed }) {
  const [yaml] = createResource(() => props.object, async (object) => {
    const { managedFields: _, ...metadata } = object.metadata;
    return (await import("yaml")).stringify({ ...object, metadata });
  });
  return (
    <>
      <Head title={t("review.title", { name: props.object.metadata.name })} under={props.object.kind ?? ""}>
        <CopyButton text={yaml() ?? ""} />
      </Head>
      <div class="cards">
        <section class="card" aria-label={t("review.conditions")}>
          <h2>{t("review.conditions")}</h2>
          <Conditions all={props.object.status?.conditions} />
        </section>
        <section class="card" aria-label={t("review.managers")}>
          <h2>{t("review.managers")}</h2>
          <ul class="stairs">
            <For each={props.object.metadata.managedFields}>
              {({ manager, operation, time, subresource }) => (
                <li>
                  <span class="tag">{operation}</span>{" "}{manager}{subresource ? ` · ${subresource}` : ""}{" "}
                  <span class="quiet">{time ? moment(time) : ""}</span>
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
