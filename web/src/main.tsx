import { Route, Router, useLocation } from "@solidjs/router";
import { ErrorBoundary, Match, type ParentProps, Show, Suspense, Switch, createEffect, on, onCleanup } from "solid-js";
import { render } from "solid-js/web";
import { type Session, look, sessionState } from "./api/session";
import { language, t } from "./i18n/messages";
import { Login } from "./pages/login";
import { Projects } from "./pages/projects";
import "./styles/main.css";
import { followHistory } from "./ui/back";
import { Layout } from "./ui/layout";
import { NotLoaded, page } from "./ui/page";
import { AgainButton, AwayText, Problem, missing } from "./ui/parts";
import { apply } from "./ui/theme";

const Project = page(async () => (await import("./pages/project")).Project);
const Namespace = page(async () => (await import("./pages/namespace")).Namespace);
const Create = page(async () => (await import("./pages/create")).Create);
const Change = page(async () => (await import("./pages/change")).Change);
const Move = page(async () => (await import("./pages/move")).Move);
const People = page(async () => (await import("./pages/people")).People);
const Tenants = page(async () => (await import("./pages/tenants")).Tenants);
const Tenant = page(async () => (await import("./pages/tenants")).Tenant);
const Clusters = page(async () => (await import("./pages/clusters")).Clusters);
const Findings = page(async () => (await import("./pages/findings")).Findings);
const Review = page(async () => (await import("./pages/review")).Review);

/** So long after a page could not be loaded it is asked for again. */
const AGAIN_MS = 5_000;

let last: Session | undefined;

/** Nobody logs in; somebody works, also while the server is away. */
function Frame(props: ParentProps) {
  const location = useLocation();
  followHistory();
  createEffect(on(() => location.pathname, () => document.getElementById("content")?.focus({ preventScroll: true }), { defer: true }));
  const somebody = (): Session | undefined => {
    const state = sessionState();
    if (state.is === "somebody") last = state.session;
    if (state.is === "nobody" || state.is === "unknown") last = undefined;
    return last;
  };
  const away = () => {
    const state = sessionState();
    return state.is === "offline" ? state : undefined;
  };
  const Failed = (props: { error: unknown; reset: () => void }) => {
    // Another page may well work.
    createEffect(on(() => location.pathname, () => props.reset(), { defer: true }));
    if (props.error instanceof NotLoaded) askAgain(props.error, props.reset);
    const error = () => (props.error instanceof NotLoaded ? new Error(t("state.notloaded")) : props.error);
    // After an upgrade the parts of the page that are not loaded yet have other names: only a page that is loaded anew knows them.
    return <Problem error={error()}><AgainButton again={() => window.location.reload()} /></Problem>;
  };
  return (
    <ErrorBoundary fallback={(error, reset) => <main class="content"><Failed error={error} reset={reset} /></main>}>
      <Switch fallback={<p class="empty" role="status"><Show when={away()} fallback={t("state.loading")}>{(is) => <AwayText away={is()} />}</Show></p>}>
        <Match when={sessionState().is === "nobody"}><Login /></Match>
        <Match when={somebody()}>
          {(session) => (
            <Layout session={session()} away={away()}>
              <ErrorBoundary fallback={(error, reset) => <Failed error={error} reset={reset} />}>
                <Suspense fallback={<p class="empty" role="status">{t("state.loading")}</p>}>{props.children}</Suspense>
              </ErrorBoundary>
            </Layout>
          )}
        </Match>
      </Switch>
    </ErrorBoundary>
  );
}

/** Whoever was offline goes on by himself. */
function askAgain({ again }: NotLoaded, reset: () => void): void {
  let isHere = true;
  const ask = () => void again().then(() => isHere && reset(), () => undefined);
  const timer = setInterval(ask, AGAIN_MS);
  addEventListener("online", ask);
  onCleanup(() => {
    isHere = false;
    clearInterval(timer);
    removeEventListener("online", ask);
  });
}

function Nowhere() {
  const location = useLocation();
  return <Problem error={missing(location.pathname)} />;
}

apply();
createEffect(() => (document.documentElement.lang = language()));
void look();
// Somebody may have logged out before the browser showed a page again that it had put aside.
addEventListener("pageshow", ({ persisted }) => persisted && void look());
const place = document.getElementById("page");
if (place) {
  render(() => (
    <Router base="/console" root={Frame}>
      <Route path="/" component={Projects} />
      <Route path="/projects/:name" component={Project} />
      <Route path="/projects/:project/namespaces/:name" component={Namespace} />
      <Route path="/create/:what" component={Create} />
      <Route path="/change/:plural/*place" component={Change} />
      <Route path="/move/:plural/*place" component={Move} />
      <Route path="/people/:plural/:name" component={People} />
      <Route path="/tenants" component={Tenants} />
      <Route path="/tenants/:name" component={Tenant} />
      <Route path="/clusters" component={Clusters} />
      <Route path="/findings" component={Findings} />
      <Route path="/review/:plural/*place" component={Review} />
      <Route path="*" component={Nowhere} />
    </Router>
  ), place);
}
