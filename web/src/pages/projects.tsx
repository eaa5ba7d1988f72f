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
const FRAMES_MAX = 20;

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
  /** A row that is out of sight is in the document some frames after it is scrolled to. */
  const focus = (index: number, frames = FRAMES_MAX) => {
    const link = place?.querySelector<HTMLElement>(`[data-row="${index}"] a`);
    if (link) link.focus();
    else if (frames > 0) requestAnimationFrame(() => focus(index, frames - 1));
  };
  const go = (index: number) => {
    const row = Math.max(0, Math.min(index, props.rows.length - 1));
    virtual.scrollToIndex(row);
    focus(row);
  };
  /** As trees are walked everywhere. */
  const walk = (event: KeyboardEvent) => {
    const at = Number((event.target as Element).closest<HTMLElement>("[data-row]")?.dataset["row"] ?? -1);
    const row = props.rows[at];
    const opens = row !== undefined && row.node.children.length > 0;
    const steps: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(props.rows.length - 1),
      ArrowRight: () => (opens && !row.open ? props.turn(row.node.name) : opens && go(at + 1)),
      ArrowLeft: () => (opens && row.open ? props.turn(row.node.name) : row && row.depth > 0 && go(parentOf(props.rows, at))),
    };
    const step = steps[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step();
  };
  return (
    <div class="tree" ref={place} role="tree" aria-label={t("projects.title")} tabindex="0" onKeyDown={walk}>
      <div class="tree-inner" role="presentation" ref={(inner) => createEffect(() => (inner.style.height = `${virtual.getTotalSize()}px`))}>
        <For each={virtual.getVirtualItems()}>
          {(item) => (
            <Show when={props.rows[item.index]}>
              {(row) => <Row row={row()} index={item.index} top={item.start} showsLimits={props.showsLimits} turn={props.turn} turnLimits={props.turnLimits} />}
            </Show>
          )}
        </For>
      </div>
    </div>
  );
}

/** The row above that this one belongs to. */
function parentOf(rows: readonly TreeRow[], at: number): number {
  const depth = rows[at]?.depth ?? 0;
  return rows.slice(0, at).findLastIndex((row) => row.depth < depth);
}

function Row(props: TreeProps & { row: TreeRow; index: number; top: number }) {
  const node = () => props.row.node;
  const fullest = () => fullestFirst(node().shares)[0];
  const twist = () => (props.row.open ? t("projects.close", { name: node().name }) : t("projects.open", { name: node().name }));
  const place = (element: HTMLDivElement) => createEffect(() => (element.style.transform = `translateY(${props.top}px)`));
  const indent = (element: HTMLSpanElement) => createEffect(() => (element.style.width = `${props.row.depth * STEP}px`));
  const limitsOf = () => t("projects.limits.of", { count: node().shares.length, name: node().name });
  const isOpen = () => props.showsLimits(node().name);
  return (
    <div class="tree-row" ref={place} role="treeitem" data-row={props.index} aria-level={props.row.depth + 1}
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
