import { A, useNavigate, useSearchParams } from "@solidjs/router";
import { type Range, createVirtualizer, defaultRangeExtractor } from "@tanstack/solid-virtual";
import { For, Show, createEffect, createMemo, createSignal, createUniqueId, on, onCleanup, onMount, untrack } from "solid-js";
import { namespaces, projects } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace } from "../api/types";
import { type TreeNode, type TreeRow, forest, keepOrder, searchNamespaces, visibleRows } from "../budget/forest";
import { type Share, fullestFirst, fullness } from "../budget/shares";
import { type MessageKey, t } from "../i18n/messages";
import { hasBeenRead } from "../live/states";
import { saveState, savedState } from "../ui/restore";
import { AmountsText, Bar, FeedBoundary, Fullness, Legend, PageHeader, phaseText } from "../ui/parts";
import { SearchableTable } from "../ui/table";

/** Heights of a row and of a limit below it, and the indent of a level, in pixels. On a narrow screen amounts are below the name. */
const WIDE = { row: 52, limit: 30, step: 20 };
const NARROW = { row: 104, limit: 66, step: 12 };
/** The padding around the limits of a row. */
const AROUND = 10;
const FRAMES_MAX = 20;
const ALL = "all";
const NONE: ReadonlySet<string> = new Set();

/** Collapsed projects. Kept outside of the component, so that a user who comes back finds the tree as it was. */
const [closed, setClosed] = createSignal(NONE);
/** Projects that differ from the setting for all: their limits are shown if `of` is false, and hidden if it is true. */
const [others, setOthers] = createSignal({ of: false, names: NONE });
/** The row with tabindex 0. */
const [current, setCurrent] = createSignal("");
const SCROLLED = "tree";

const narrow = window.matchMedia("(max-width: 960px)");
const [isNarrow, setNarrow] = createSignal(narrow.matches);
narrow.addEventListener("change", () => setNarrow(narrow.matches));
const sizes = () => (isNarrow() ? NARROW : WIDE);

/** All projects that the user sees, as trees, the fullest first. */
export function Projects() {
  const all = projects();
  const inside = namespaces();
  const [query, setQuery] = useSearchParams<{ q?: string; limits?: string }>();
  const [search, seek] = createSearch(() => query.q ?? "", (q) => setQuery({ q }, { replace: true }));
  /** While the pointer or the focus is in the tree, rows keep their order. */
  let isHeld = false;
  const [released, release] = createSignal(undefined, { equals: false });
  const hold = (is: boolean) => {
    const wasHeld = isHeld;
    isHeld = is;
    if (wasHeld && !is) release();
  };
  const roots = createMemo<TreeNode[]>((before) => {
    released();
    const fresh = forest(all.objects().values(), inside.objects().values());
    return isHeld ? keepOrder(fresh, before) : fresh;
  }, []);
  const shown = createMemo(() => visibleRows(roots(), closed(), search()));
  const found = createMemo(() => searchNamespaces(inside.objects().values(), search()));
  /** A search shows all ancestors of a match, so rows cannot be collapsed. */
  const isFixed = () => search().trim() !== "";
  const toggle = (name: string) => {
    if (!isFixed()) setClosed(toggled(closed(), name));
  };
  const whole = () => query.limits === ALL;
  const unlike = () => (others().of === whole() ? others().names : NONE);
  const showsLimits = (name: string) => whole() !== unlike().has(name);
  const toggleAllLimits = () => setQuery({ limits: whole() ? undefined : ALL }, { replace: true });
  return (
    <>
      <PageHeader title={t("projects.title")} under={hasBeenRead(all.state()) ? t("projects.count", { count: all.objects().size }) : ""}>
        <input class="search" type="search" aria-label={t("projects.search")} placeholder={t("projects.search")}
          value={search()} onInput={(event) => seek(event.currentTarget.value)} />
        <button class="button" type="button" aria-pressed={whole()} onClick={toggleAllLimits}>{t("projects.limits")}</button>
        <A class="button main" href="/create/project">{t("projects.create")}</A>
      </PageHeader>
      <FeedBoundary states={[all.state(), inside.state()]}>
        <Show when={all.objects().size > 0} fallback={<EmptyCard title={t("projects.none")} text={t("projects.none.text")} />}>
          <Show when={shown().length + found().length > 0} fallback={<EmptyCard title={t("projects.nomatch")} text="" />}>
            <Show when={shown().length > 0}>
              <Legend />
              <Tree rows={shown()} hold={hold} isFixed={isFixed()} showsLimits={showsLimits} toggle={toggle}
                toggleLimits={(name) => setOthers({ of: whole(), names: toggled(unlike(), name) })} />
            </Show>
            <Show when={found().length > 0}><FoundNamespaces namespaces={found()} /></Show>
          </Show>
        </Show>
      </FeedBoundary>
    </>
  );
}

/** The search text, mirrored in the URL. Typing does not wait for the router. */
function createSearch(fromUrl: () => string, toUrl: (text: string) => void): [() => string, (text: string) => void] {
  const [search, setSearch] = createSignal(untrack(fromUrl));
  let last = search();
  createEffect(on(fromUrl, (text) => {
    if (text !== last) setSearch((last = text));
  }, { defer: true }));
  return [search, (text) => {
    last = text;
    setSearch(text);
    toUrl(text);
  }];
}

/** Namespaces that match the search; the tree only has projects. */
function FoundNamespaces(props: { namespaces: readonly Namespace[] }) {
  const all = () => props.namespaces.map(({ metadata: { name, namespace = "" }, spec, status }) =>
    ({ name, project: namespace, cluster: spec?.clusterName ?? "", phase: status?.phase }));
  return (
    <SearchableTable label={t("cluster.namespaces")} none={t("projects.nomatch")} rows={all()}
      columns={["column.name", "column.project", "form.cluster", "column.phase"]}>
      {({ name, project, cluster, phase }) => (
        <tr>
          <td><A href={linkOf(name, project)}>{name}</A></td>
          <td><A href={linkOf(project)}>{project}</A></td>
          <td>{cluster}</td>
          <td>{phaseText(phase)}</td>
        </tr>
      )}
    </SearchableTable>
  );
}

function EmptyCard(props: { title: string; text: string }) {
  return <div class="card empty"><h2>{props.title}</h2><p>{props.text}</p></div>;
}

function toggled(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}

interface TreeProps {
  /** Whether rows can neither be expanded nor collapsed. */
  isFixed: boolean;
  showsLimits: (name: string) => boolean;
  toggle: (name: string) => void;
  toggleLimits: (name: string) => void;
}

/** A virtual list: only the rows in sight are in the DOM, and the row with tabindex 0. */
function Tree(props: TreeProps & { rows: TreeRow[]; hold: (isHeld: boolean) => void }) {
  let place: HTMLDivElement | undefined;
  const navigate = useNavigate();
  const at = createMemo(() => Math.max(0, props.rows.findIndex(({ node }) => node.name === current())));
  const heights = createMemo(
    () => {
      const { row, limit } = sizes();
      return props.rows.map(({ node }) => (props.showsLimits(node.name) ? row + AROUND + limit * node.shares.length : row));
    },
    [], { equals: (before, after) => before.length === after.length && before.every((height, index) => height === after[index]) },
  );
  const virtual = createVirtualizer({
    get count() {
      return heights().length;
    },
    getScrollElement: () => place ?? null,
    estimateSize: (index) => heights()[index] ?? sizes().row,
    overscan: 12,
    // A new function for each focusable row, since the virtualizer memoizes the result of one function.
    get rangeExtractor() {
      const focusable = at();
      return (range: Range) => {
        const inSight = defaultRangeExtractor(range);
        return focusable < range.count && !inSight.includes(focusable) ? [...inSight, focusable].sort((a, b) => a - b) : inSight;
      };
    },
  });
  createEffect(on(heights, () => virtual.measure(), { defer: true }));
  const before = savedState<number>(SCROLLED) ?? 0;
  // The tree has its height only in the next frame.
  onMount(() => requestAnimationFrame(() => place?.scrollTo({ top: before })));
  let isPointedAt = false;
  let isEntered = false;
  const updateHold = () => props.hold(isPointedAt || isEntered);
  const point = (isAt: boolean) => {
    isPointedAt = isAt;
    updateHold();
  };
  const enter = (event: FocusEvent) => {
    const name = rowOf(event)?.node.name;
    if (name !== undefined) setCurrent(name);
    isEntered = true;
    updateHold();
  };
  const leave = (event: FocusEvent) => {
    isEntered = place?.contains(event.relatedTarget as Node | null) ?? false;
    updateHold();
  };
  onCleanup(() => props.hold(false));
  const indexOf = (event: Event) => Number((event.target as Element).closest<HTMLElement>("[data-row]")?.dataset["row"] ?? -1);
  const rowOf = (event: Event): TreeRow | undefined => props.rows[indexOf(event)];
  /** Focuses a row. One that was out of sight is in the DOM only some frames after it is scrolled to. */
  const focus = (index: number, frames = FRAMES_MAX) => {
    const row = place?.querySelector<HTMLElement>(`[data-row="${index}"]`);
    if (row) row.focus();
    else if (frames > 0) requestAnimationFrame(() => focus(index, frames - 1));
  };
  // Keeps the focus on the same project when rows above it appear or disappear.
  createEffect(on(at, (index) => {
    const { activeElement: focused } = document;
    if (!isEntered || focused?.getAttribute("role") !== "treeitem" || props.rows[index]?.node.name !== current()) return;
    if (focused.getAttribute("data-row") !== String(index)) focus(index);
  }, { defer: true }));
  const go = (index: number) => {
    const row = Math.max(0, Math.min(index, props.rows.length - 1));
    virtual.scrollToIndex(row);
    focus(row);
  };
  /** The keys of the ARIA tree pattern. */
  const walk = (event: KeyboardEvent) => {
    const index = indexOf(event);
    const row = props.rows[index];
    const opens = row !== undefined && row.node.children.length > 0;
    const steps: Record<string, () => void> = {
      ArrowDown: () => go(index + 1),
      ArrowUp: () => go(index - 1),
      Home: () => go(0),
      End: () => go(props.rows.length - 1),
      ArrowRight: () => (opens && !row.open ? props.toggle(row.node.name) : opens && go(index + 1)),
      ArrowLeft: () => (opens && row.open && !props.isFixed ? props.toggle(row.node.name) : row && row.depth > 0 && go(parentOf(props.rows, index))),
      // Enter on a button or a link in a row is its own.
      ...(row && (event.target as Element).getAttribute("role") === "treeitem" ? { Enter: () => navigate(`/projects/${row.node.name}`) } : {}),
    };
    const step = steps[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step();
  };
  return (
    <>
      <div class="tree" ref={place} role="tree" aria-label={t("projects.title")} aria-describedby="tree-keys" onKeyDown={walk}
        onFocusIn={enter} onFocusOut={leave} onPointerEnter={() => point(true)} onPointerLeave={() => point(false)}
        onScroll={(event) => saveState(SCROLLED, event.currentTarget.scrollTop)}>
        <div class="tree-inner" role="presentation" ref={(inner) => createEffect(() => (inner.style.height = `${virtual.getTotalSize()}px`))}>
          <For each={virtual.getVirtualItems()}>
            {(item) => (
              <Show when={props.rows[item.index]}>
                {(row) => (
                  <Row row={row()} index={item.index} isCurrent={item.index === at()} top={item.start}
                    isFixed={props.isFixed} showsLimits={props.showsLimits} toggle={props.toggle} toggleLimits={props.toggleLimits} />
                )}
              </Show>
            )}
          </For>
        </div>
      </div>
      <p class="keys" id="tree-keys">{t("projects.keys")}</p>
    </>
  );
}

/** The index of the parent row. */
function parentOf(rows: readonly TreeRow[], at: number): number {
  const depth = rows[at]?.depth ?? 0;
  return rows.slice(0, at).findLastIndex((row) => row.depth < depth);
}

/** A row. Tab reaches only the current one and then its button; arrow keys reach the others. */
function Row(props: TreeProps & { row: TreeRow; index: number; isCurrent: boolean; top: number }) {
  const node = () => props.row.node;
  const fullest = () => fullestFirst(node().shares)[0];
  const twist = () => (props.row.open ? t("projects.close", { name: node().name }) : t("projects.open", { name: node().name }));
  const place = (element: HTMLDivElement) => createEffect(() => (element.style.transform = `translateY(${props.top}px)`));
  const indent = (element: HTMLSpanElement) => createEffect(() => (element.style.width = `${props.row.depth * sizes().step}px`));
  const limitsOf = () => t("projects.limits.of", { count: node().shares.length, name: node().name });
  const isOpen = () => props.showsLimits(node().name);
  // The labels of buttons and bars in a row are not part of its accessible name.
  const [called, full] = [createUniqueId(), createUniqueId()];
  const state = (): MessageKey | undefined => {
    const { metadata, status } = node().project;
    return metadata.deletionTimestamp ? "release.leaving" : status?.locked ? "phase.Locked" : undefined;
  };
  return (
    <div class="tree-row" ref={place} role="treeitem" aria-labelledby={`${called} ${full}`} data-row={props.index} tabindex={props.isCurrent ? 0 : -1}
      aria-level={props.row.depth + 1} aria-posinset={props.row.position} aria-setsize={props.row.siblings}
      {...(node().children.length > 0 ? { "aria-expanded": props.row.open } : {})}>
      <div class="tree-line">
        <span class="tree-name">
          <span class="indent" ref={indent} />
          <button class={`twist ${node().children.length > 0 ? "" : "none"}`} type="button" tabindex="-1" aria-label={twist()} disabled={props.isFixed}
            onClick={() => props.toggle(node().name)}>
            {props.row.open ? "▾" : "▸"}
          </button>
          <span class="text" id={called}>
            <A href={`/projects/${node().name}`} tabindex="-1" title={node().project.spec?.displayName || node().name}>{node().project.spec?.displayName || node().name}</A>
            <span class="quiet">
              <Show when={state()}>{(is) => <><strong>{t(is())}</strong>{" · "}</>}</Show>
              {node().name} · {node().project.spec?.tenantID}
            </span>
          </span>
        </span>
        <Show when={fullest()} fallback={<span class="quiet">{t("projects.nolimits")}</span>}>
          {(share) => <><Bar share={share()} /><UsageText share={share()} showsName={!isOpen()} /></>}
        </Show>
        <Fullness id={full} thousandths={node().own} unlimited={node().shares.every((share) => share.hard === undefined)} />
        <button class={`twist more ${node().shares.length > 0 ? "" : "none"}`} type="button" tabindex={props.isCurrent ? 0 : -1} aria-expanded={isOpen()}
          aria-label={limitsOf()} title={limitsOf()}
          onClick={() => props.toggleLimits(node().name)}>
          {isOpen() ? "−" : node().shares.length}
        </button>
      </div>
      <Show when={isOpen()}>
        <For each={fullestFirst(node().shares)}>{(share) => <Limit share={share} />}</For>
      </Show>
    </div>
  );
}

/** A limit below the row of its project, in the same columns. */
function Limit(props: { share: Share }) {
  return (
    <div class="tree-line limit">
      <span class="limit-name">
        {props.share.resource}<span class="quiet">{" · "}{props.share.cluster}</span>
      </span>
      <Bar share={props.share} />
      <UsageText share={props.share} showsName={false} />
      <Fullness thousandths={fullness(props.share)} unlimited={props.share.hard === undefined} />
    </div>
  );
}

/** What is used and allocated, with the name of the limit if it is not shown elsewhere. */
function UsageText(props: { share: Share; showsName: boolean }) {
  return (
    <span class="what">
      <AmountsText share={props.share} />
      <Show when={props.showsName}><span class="quiet">{props.share.resource} · {props.share.cluster}</span></Show>
    </span>
  );
}
