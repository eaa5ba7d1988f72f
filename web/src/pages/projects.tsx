import { A } from "@solidjs/router";
import { createVirtualizer } from "@tanstack/solid-virtual";
import { For, Show, createEffect, createMemo, createSignal } from "solid-js";
import { namespaces, projects } from "../api/collections";
import { type TreeRow, forest, rows } from "../budget/forest";
import { type Share, fullness } from "../budget/shares";
import { t } from "../i18n/messages";
import { AmountText, Bar, Fullness, Head, Living } from "../ui/parts";

const ROW = 52;
const STEP = 20;

/** All that somebody sees, as trees: the fullest first. */
export function Projects() {
  const all = projects();
  const inside = namespaces();
  const [search, setSearch] = createSignal("");
  const [closed, setClosed] = createSignal<ReadonlySet<string>>(new Set());
  const roots = createMemo(() => forest(all.objects().values(), inside.objects().values()));
  const shown = createMemo(() => rows(roots(), closed(), search()));
  const toggle = (name: string) => {
    const next = new Set(closed());
    if (!next.delete(name)) next.add(name);
    setClosed(next);
  };
  return (
    <>
      <Head title={t("projects.title")} under={t("projects.count", { count: all.objects().size })}>
        <input class="search" type="search" aria-label={t("projects.search")} placeholder={t("projects.search")}
          value={search()} onInput={(event) => setSearch(event.currentTarget.value)} />
        <A class="button main" href="/create/project">{t("projects.create")}</A>
      </Head>
      <Living states={[all.state(), inside.state()]}>
        <Show when={all.objects().size > 0} fallback={<Nothing title={t("projects.none")} text={t("projects.none.text")} />}>
          <Show when={shown().length > 0} fallback={<Nothing title={t("projects.nomatch")} text="" />}>
            <Tree rows={shown()} toggle={toggle} />
          </Show>
        </Show>
      </Living>
    </>
  );
}

function Nothing(props: { title: string; text: string }) {
  return <div class="card empty"><h2>{props.title}</h2><p>{props.text}</p></div>;
}

/** Only the rows that are in sight are in the document. */
function Tree(props: { rows: TreeRow[]; toggle: (name: string) => void }) {
  let place: HTMLDivElement | undefined;
  const virtual = createVirtualizer({
    get count() {
      return props.rows.length;
    },
    getScrollElement: () => place ?? null,
    estimateSize: () => ROW,
    overscan: 12,
  });
  return (
    <div class="tree" ref={place} role="tree" aria-label={t("projects.title")} tabindex="0">
      <div class="tree-inner" role="presentation" ref={(inner) => createEffect(() => (inner.style.height = `${virtual.getTotalSize()}px`))}>
        <For each={virtual.getVirtualItems()}>
          {(item) => (
            <Show when={props.rows[item.index]}>
              {(row) => <Row row={row()} top={item.start} toggle={props.toggle} />}
            </Show>
          )}
        </For>
      </div>
    </div>
  );
}

function Row(props: { row: TreeRow; top: number; toggle: (name: string) => void }) {
  const node = () => props.row.node;
  const fullest = (): Share | undefined =>
    node().shares.reduce<Share | undefined>((most, share) => (most && fullness(most) >= fullness(share) ? most : share), undefined);
  const twist = () => (props.row.open ? t("projects.close", { name: node().name }) : t("projects.open", { name: node().name }));
  const place = (element: HTMLDivElement) => createEffect(() => (element.style.transform = `translateY(${props.top}px)`));
  const indent = (element: HTMLSpanElement) => createEffect(() => (element.style.width = `${props.row.depth * STEP}px`));
  return (
    <div class="tree-row" ref={place} role="treeitem" aria-level={props.row.depth + 1}
      {...(node().children.length > 0 ? { "aria-expanded": props.row.open } : {})}>
      <span class="tree-name">
        <span class="indent" ref={indent} />
        <button class={`twist ${node().children.length > 0 ? "" : "none"}`} type="button" aria-label={twist()}
          onClick={() => props.toggle(node().name)}>
          {props.row.open ? "▾" : "▸"}
        </button>
        <span class="text">
          <A href={`/projects/${node().name}`}>{node().project.spec?.displayName || node().name}</A>
          <span class="quiet">{node().name} · {node().project.spec?.tenantID}</span>
        </span>
      </span>
      <Show when={fullest()} fallback={<span class="quiet">–</span>}>{(share) => <Bar share={share()} />}</Show>
      <span class="what number">
        <Show when={fullest()}>
          {(share) => (
            <>
              <AmountText amount={share().allocated} resource={share().resource} />{" / "}
              <AmountText amount={share().hard} resource={share().resource} />
              <span class="quiet">{" "}{share().resource}</span>
            </>
          )}
        </Show>
      </span>
      <Fullness thousandths={node().own} unlimited={node().shares.every((share) => share.hard === undefined)} />
    </div>
  );
}
