import { A } from "@solidjs/router";
import { createVirtualizer } from "@tanstack/solid-virtual";
import { For, Show, createEffect, createMemo, createSignal, on } from "solid-js";
import { namespaces, projects } from "../api/collections";
import { type TreeRow, forest, rows } from "../budget/forest";
import { type Share, fullestFirst, fullness } from "../budget/shares";
import { t } from "../i18n/messages";
import { AmountText, Bar, Fullness, Head, Legend, Living } from "../ui/parts";

const ROW = 52;
/** A limit of a row that is open, and what stands around all of them. */
const LIMIT = 30;
const AROUND = 10;
const STEP = 20;

/** All that somebody sees, as trees: the fullest first. */
export function Projects() {
  const all = projects();
  const inside = namespaces();
  const [search, setSearch] = createSignal("");
  const [closed, setClosed] = createSignal<ReadonlySet<string>>(new Set());
  const roots = createMemo(() => forest(all.objects().values(), inside.objects().values()));
  const shown = createMemo(() => rows(roots(), closed(), search()));
  const [whole, setWhole] = createSignal(false);
  /** Those that are not as `whole` says. */
  const [others, setOthers] = createSignal<ReadonlySet<string>>(new Set());
  const showsLimits = (name: string) => whole() !== others().has(name);
  const turnAll = () => {
    setWhole(!whole());
    setOthers(new Set<string>());
  };
  return (
    <>
      <Head title={t("projects.title")} under={t("projects.count", { count: all.objects().size })}>
        <input class="search" type="search" aria-label={t("projects.search")} placeholder={t("projects.search")}
          value={search()} onInput={(event) => setSearch(event.currentTarget.value)} />
        <button class="button" type="button" aria-pressed={whole()} onClick={turnAll}>{t("projects.limits")}</button>
        <A class="button main" href="/create/project">{t("projects.create")}</A>
      </Head>
      <Living states={[all.state(), inside.state()]}>
        <Show when={all.objects().size > 0} fallback={<Nothing title={t("projects.none")} text={t("projects.none.text")} />}>
          <Show when={shown().length > 0} fallback={<Nothing title={t("projects.nomatch")} text="" />}>
            <Legend />
            <Tree rows={shown()} showsLimits={showsLimits} turn={(name) => setClosed(turned(closed(), name))}
              turnLimits={(name) => setOthers(turned(others(), name))} />
          </Show>
        </Show>
      </Living>
    </>
  );
}

function Nothing(props: { title: string; text: string }) {
  return <div class="card empty"><h2>{props.title}</h2><p>{props.text}</p></div>;
}

function turned(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}

interface TreeProps {
  showsLimits: (name: string) => boolean;
  turn: (name: string) => void;
  turnLimits: (name: string) => void;
}

/** Only the rows that are in sight are in the document. */
function Tree(props: TreeProps & { rows: TreeRow[] }) {
  let place: HTMLDivElement | undefined;
  const heights = createMemo(
    () => props.rows.map(({ node }) => (props.showsLimits(node.name) ? ROW + AROUND + LIMIT * node.shares.length : ROW)),
    [], { equals: (before, after) => before.length === after.length && before.every((height, index) => height === after[index]) },
  );
  const virtual = createVirtualizer({
    get count() {
      return heights().length;
    },
    getScrollElement: () => place ?? null,
    estimateSize: (index) => heights()[index] ?? ROW,
    overscan: 12,
  });
  createEffect(on(heights, () => virtual.measure(), { defer: true }));
  return (
    <div class="tree" ref={place} role="tree" aria-label={t("projects.title")} tabindex="0">
      <div class="tree-inner" role="presentation" ref={(inner) => createEffect(() => (inner.style.height = `${virtual.getTotalSize()}px`))}>
        <For each={virtual.getVirtualItems()}>
          {(item) => (
            <Show when={props.rows[item.index]}>
              {(row) => <Row row={row()} top={item.start} showsLimits={props.showsLimits} turn={props.turn} turnLimits={props.turnLimits} />}
            </Show>
          )}
        </For>
      </div>
    </div>
  );
}

function Row(props: TreeProps & { row: TreeRow; top: number }) {
  const node = () => props.row.node;
  const fullest = () => fullestFirst(node().shares)[0];
  const twist = () => (props.row.open ? t("projects.close", { name: node().name }) : t("projects.open", { name: node().name }));
  const place = (element: HTMLDivElement) => createEffect(() => (element.style.transform = `translateY(${props.top}px)`));
  const indent = (element: HTMLSpanElement) => createEffect(() => (element.style.width = `${props.row.depth * STEP}px`));
  const limitsOf = () => t("projects.limits.of", { count: node().shares.length, name: node().name });
  const isOpen = () => props.showsLimits(node().name);
  return (
    <div class="tree-row" ref={place} role="treeitem" aria-level={props.row.depth + 1}
      {...(node().children.length > 0 ? { "aria-expanded": props.row.open } : {})}>
      <div class="tree-line">
        <span class="tree-name">
          <span class="indent" ref={indent} />
          <button class={`twist ${node().children.length > 0 ? "" : "none"}`} type="button" aria-label={twist()}
            onClick={() => props.turn(node().name)}>
            {props.row.open ? "▾" : "▸"}
          </button>
          <span class="text">
            <A href={`/projects/${node().name}`} title={node().project.spec?.displayName || node().name}>{node().project.spec?.displayName || node().name}</A>
            <span class="quiet">{node().name} · {node().project.spec?.tenantID}</span>
          </span>
        </span>
        <Show when={fullest()} fallback={<span class="quiet">{t("projects.nolimits")}</span>}>
          {(share) => <><Bar share={share()} /><Given share={share()} isTold={!isOpen()} /></>}
        </Show>
        <Fullness thousandths={node().own} unlimited={node().shares.every((share) => share.hard === undefined)} />
        <button class={`twist more ${node().shares.length > 0 ? "" : "none"}`} type="button" aria-expanded={isOpen()}
          aria-label={limitsOf()} title={limitsOf()}
          onClick={() => props.turnLimits(node().name)}>
          {isOpen() ? "−" : node().shares.length}
        </button>
      </div>
      <Show when={isOpen()}>
        <For each={fullestFirst(node().shares)}>{(share) => <Limit share={share} />}</For>
      </Show>
    </div>
  );
}

/** A limit below its project's line, in the same columns. */
function Limit(props: { share: Share }) {
  return (
    <div class="tree-line limit">
      <span class="limit-name" title={`${props.share.cluster} · ${props.share.resource}`}>
        {props.share.resource}<span class="quiet">{" · "}{props.share.cluster}</span>
      </span>
      <Bar share={props.share} />
      <Given share={props.share} isTold={false} />
      <Fullness thousandths={fullness(props.share)} unlimited={props.share.hard === undefined} />
    </div>
  );
}

/** What is given of what. */
function Given(props: { share: Share; isTold: boolean }) {
  return (
    <span class="what number">
      <span>
        <AmountText amount={props.share.allocated} resource={props.share.resource} />{" / "}
        <AmountText amount={props.share.hard} resource={props.share.resource} />
      </span>
      <Show when={props.isTold}><span class="quiet">{props.share.resource} · {props.share.cluster}</span></Show>
    </span>
  );
}
