import { A, useNavigate, useSearchParams } from "@solidjs/router";
import { type Range, createVirtualizer, defaultRangeExtractor } from "@tanstack/solid-virtual";
import { For, Show, createEffect, createMemo, createSignal, createUniqueId, on, onCleanup, onMount, untrack } from "solid-js";
import { namespaces, projects } from "../api/collections";
import { linkOf } from "../api/links";
import type { Namespace } from "../api/types";
import { type TreeNode, type TreeRow, asBefore, forest, namespacesFound, rows } from "../budget/forest";
import { type Share, fullestFirst, fullness } from "../budget/shares";
import { type MessageKey, t } from "../i18n/messages";
import { isRead } from "../live/states";
import { keep, kept } from "../ui/back";
import { AmountsText, Bar, Fullness, Head, Legend, Living, phaseText } from "../ui/parts";
import { Listing } from "../ui/table";

/** A row, a limit of a row that is open, and a step inwards; where it is narrow, amounts stand below the name. */
const WIDE = { row: 52, limit: 30, step: 20 };
const NARROW = { row: 104, limit: 66, step: 12 };
/** What stands around all limits of a row. */
const AROUND = 10;
const FRAMES_MAX = 20;
const ALL = "all";
const NONE: ReadonlySet<string> = new Set();

/** As somebody has left it: whoever comes back finds it so. */
const [closed, setClosed] = createSignal(NONE);
/** Those whose limits are shown where others' are not, or the other way. */
const [others, setOthers] = createSignal({ of: false, names: NONE });
/** The row that Tab comes to. */
const [current, setCurrent] = createSignal("");
const SCROLLED = "tree";

const narrow = window.matchMedia("(max-width: 960px)");
const [isNarrow, setNarrow] = createSignal(narrow.matches);
narrow.addEventListener("change", () => setNarrow(narrow.matches));
const sizes = () => (isNarrow() ? NARROW : WIDE);

/** All that somebody sees, as trees: the fullest first. */
export function Projects() {
  const all = projects();
  const inside = namespaces();
  const [query, setQuery] = useSearchParams<{ q?: string; limits?: string }>();
  const [search, seek] = searched(() => query.q ?? "", (q) => setQuery({ q }, { replace: true }));
  /** While somebody points at the tree or is in it, rows stay where they are. */
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
    return isHeld ? asBefore(fresh, before) : fresh;
  }, []);
  const shown = createMemo(() => rows(roots(), closed(), search()));
  const found = createMemo(() => namespacesFound(inside.objects().values(), search()));
  /** What is found is shown with all that is above it: nothing of that closes. */
  const isFixed = () => search().trim() !== "";
  const turn = (name: string) => {
    if (!isFixed()) setClosed(turned(closed(), name));
  };
  const whole = () => query.limits === ALL;
  const unlike = () => (others().of === whole() ? others().names : NONE);
  const showsLimits = (name: string) => whole() !== unlike().has(name);
  const turnAll = () => setQuery({ limits: whole() ? undefined : ALL }, { replace: true });
  return (
    <>
      <Head title={t("projects.title")} under={isRead(all.state()) ? t("projects.count", { count: all.objects().size }) : ""}>
        <input class="search" type="search" aria-label={t("projects.search")} placeholder={t("projects.search")}
          value={search()} onInput={(event) => seek(event.currentTarget.value)} />
        <button class="button" type="button" aria-pressed={whole()} onClick={turnAll}>{t("projects.limits")}</button>
        <A class="button main" href="/create/project">{t("projects.create")}</A>
      </Head>
      <Living states={[all.state(), inside.state()]}>
        <Show when={all.objects().size > 0} fallback={<Nothing title={t("projects.none")} text={t("projects.none.text")} />}>
          <Show when={shown().length + found().length > 0} fallback={<Nothing title={t("projects.nomatch")} text="" />}>
            <Show when={shown().length > 0}>
              <Legend />
              <Tree rows={shown()} hold={hold} isFixed={isFixed()} showsLimits={showsLimits} turn={turn}
                turnLimits={(name) => setOthers({ of: whole(), names: turned(unlike(), name) })} />
            </Show>
            <Show when={found().length > 0}><Found namespaces={found()} /></Show>
          </Show>
        </Show>
      </Living>
    </>
  );
}

/** What is searched for, which the address has, too: what is typed does not wait for it. */
function searched(told: () => string, tell: (text: string) => void): [() => string, (text: string) => void] {
  const [search, setSearch] = createSignal(untrack(told));
  let last = search();
  createEffect(on(told, (text) => {
    if (text !== last) setSearch((last = text));
  }, { defer: true }));
  return [search, (text) => {
    last = text;
    setSearch(text);
    tell(text);
  }];
}

/** Namespaces that are searched for: the tree has projects alone. */
function Found(props: { namespaces: readonly Namespace[] }) {
  const all = () => props.namespaces.map(({ metadata: { name, namespace = "" }, spec, status }) =>
    ({ name, project: namespace, cluster: spec?.clusterName ?? "", phase: status?.phase }));
  return (
    <Listing label={t("cluster.namespaces")} none={t("projects.nomatch")} rows={all()}
      columns={["column.name", "column.project", "form.cluster", "column.phase"]}>
      {({ name, project, cluster, phase }) => (
        <tr>
          <td><A href={linkOf(name, project)}>{name}</A></td>
          <td><A href={linkOf(project)}>{project}</A></td>
          <td>{cluster}</td>
          <td>{phaseText(phase)}</td>
        </tr>
      )}
    </Listing>
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
  /** Whether rows neither open nor close. */
  isFixed: boolean;
  showsLimits: (name: string) => boolean;
  turn: (name: string) => void;
  turnLimits: (name: string) => void;
}

/** Only the rows that are in sight are in the document, and the one that Tab comes to. */
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
    // Another one for another row: what one has answered is kept.
    get rangeExtractor() {
      const kept = at();
      return (range: Range) => {
        const inSight = defaultRangeExtractor(range);
        return kept < range.count && !inSight.includes(kept) ? [...inSight, kept].sort((a, b) => a - b) : inSight;
      };
    },
  });
  createEffect(on(heights, () => virtual.measure(), { defer: true }));
  const before = kept<number>(SCROLLED) ?? 0;
  // Its height is there with the next frame.
  onMount(() => requestAnimationFrame(() => place?.scrollTo({ top: before })));
  let isPointedAt = false;
  let isEntered = false;
  const tellHold = () => props.hold(isPointedAt || isEntered);
  const point = (isAt: boolean) => {
    isPointedAt = isAt;
    tellHold();
  };
  const enter = (event: FocusEvent) => {
    const name = rowOf(event)?.node.name;
    if (name !== undefined) setCurrent(name);
    isEntered = true;
    tellHold();
  };
  const leave = (event: FocusEvent) => {
    isEntered = place?.contains(event.relatedTarget as Node | null) ?? false;
    tellHold();
  };
  onCleanup(() => props.hold(false));
  const indexOf = (event: Event) => Number((event.target as Element).closest<HTMLElement>("[data-row]")?.dataset["row"] ?? -1);
  const rowOf = (event: Event): TreeRow | undefined => props.rows[indexOf(event)];
  /** A row that is out of sight is in the document some frames after it is scrolled to. */
  const focus = (index: number, frames = FRAMES_MAX) => {
    const row = place?.querySelector<HTMLElement>(`[data-row="${index}"]`);
    if (row) row.focus();
    else if (frames > 0) requestAnimationFrame(() => focus(index, frames - 1));
  };
  // Rows that come or go above do not take the focus elsewhere.
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
  /** As trees are walked everywhere. */
  const walk = (event: KeyboardEvent) => {
    const index = indexOf(event);
    const row = props.rows[index];
    const opens = row !== undefined && row.node.children.length > 0;
    const steps: Record<string, () => void> = {
      ArrowDown: () => go(index + 1),
      ArrowUp: () => go(index - 1),
      Home: () => go(0),
      End: () => go(props.rows.length - 1),
      ArrowRight: () => (opens && !row.open ? props.turn(row.node.name) : opens && go(index + 1)),
      ArrowLeft: () => (opens && row.open && !props.isFixed ? props.turn(row.node.name) : row && row.depth > 0 && go(parentOf(props.rows, index))),
      // A button or a link in a row has its own.
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
        onScroll={(event) => keep(SCROLLED, event.currentTarget.scrollTop)}>
        <div class="tree-inner" role="presentation" ref={(inner) => createEffect(() => (inner.style.height = `${virtual.getTotalSize()}px`))}>
          <For each={virtual.getVirtualItems()}>
            {(item) => (
              <Show when={props.rows[item.index]}>
                {(row) => (
                  <Row row={row()} index={item.index} isCurrent={item.index === at()} top={item.start}
                    isFixed={props.isFixed} showsLimits={props.showsLimits} turn={props.turn} turnLimits={props.turnLimits} />
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

/** The row above that this one belongs to. */
function parentOf(rows: readonly TreeRow[], at: number): number {
  const depth = rows[at]?.depth ?? 0;
  return rows.slice(0, at).findLastIndex((row) => row.depth < depth);
}

/** Of all rows one is reached by Tab, and from it its own button: the others by arrows. */
function Row(props: TreeProps & { row: TreeRow; index: number; isCurrent: boolean; top: number }) {
  const node = () => props.row.node;
  const fullest = () => fullestFirst(node().shares)[0];
  const twist = () => (props.row.open ? t("projects.close", { name: node().name }) : t("projects.open", { name: node().name }));
  const place = (element: HTMLDivElement) => createEffect(() => (element.style.transform = `translateY(${props.top}px)`));
  const indent = (element: HTMLSpanElement) => createEffect(() => (element.style.width = `${props.row.depth * sizes().step}px`));
  const limitsOf = () => t("projects.limits.of", { count: node().shares.length, name: node().name });
  const isOpen = () => props.showsLimits(node().name);
  // What buttons and bars in it are called is no part of its name.
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
            onClick={() => props.turn(node().name)}>
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
          {(share) => <><Bar share={share()} /><Given share={share()} isTold={!isOpen()} /></>}
        </Show>
        <Fullness id={full} thousandths={node().own} unlimited={node().shares.every((share) => share.hard === undefined)} />
        <button class={`twist more ${node().shares.length > 0 ? "" : "none"}`} type="button" tabindex={props.isCurrent ? 0 : -1} aria-expanded={isOpen()}
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
      <span class="limit-name">
        {props.share.resource}<span class="quiet">{" · "}{props.share.cluster}</span>
      </span>
      <Bar share={props.share} />
      <Given share={props.share} isTold={false} />
      <Fullness thousandths={fullness(props.share)} unlimited={props.share.hard === undefined} />
    </div>
  );
}

/** What is used, and given of what. */
function Given(props: { share: Share; isTold: boolean }) {
  return (
    <span class="what">
      <AmountsText share={props.share} />
      <Show when={props.isTold}><span class="quiet">{props.share.resource} · {props.share.cluster}</span></Show>
    </span>
  );
}
