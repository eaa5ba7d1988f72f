import { Route, Router, useLocation } from "@solidjs/router";
import { ErrorBoundary, Match, type ParentProps, Show, Suspense, Switch, createEffect, on, onCleanup } from "solid-js";
import { render } from "solid-js/web";
import { type Session, checkSession, sessionState } from "./api/session";
import { language, t } from "./i18n/messages";
import { Login } from "./pages/login";
import { Projects } from "./pages/projects";
import "./styles/main.css";
import { trackHistory } from "./ui/restore";
import { Layout } from "./ui/layout";
import { PageLoadError, lazyPage } from "./ui/page";
import { ErrorCard, OfflineText, RetryButton, notFoundError } from "./ui/parts";
import { apply } from "./ui/theme";

const Project = lazyPage(async () => (await import("./pages/project")).Project);
const Namespace = lazyPage(async () => (await import("./pages/namespace")).Namespace);
const Create = lazyPage(async () => (await import("./pages/create")).Create);
const Change = lazyPage(async () => (await import("./pages/change")).Change);
const Move = lazyPage(async () => (await import("./pages/move")).Move);
const People = lazyPage(async () => (await import("./pages/people")).People);
const Tenants = lazyPage(async () => (await import("./pages/tenants")).Tenants);
const Tenant = lazyPage(async () => (await import("./pages/tenants")).Tenant);
const Clusters = lazyPage(async () => (await import("./pages/clusters")).Clusters);
const Findings = lazyPage(async () => (await import("./pages/findings")).Findings);
const Review = lazyPage(async () => (await import("./pages/review")).Review);

/** The interval at which a page that could not be loaded is requested again. */
const RETRY_MS = 5_000;

let last: Session | undefined;

/** The login page or the layout, by the state of the session. A logged-in user keeps the page while the server is offline. */
function Frame(props: ParentProps) {
  const location = useLocation();
  trackHistory();
  createEffect(on(() => location.pathname, () => document.getElementById("content")?.focus({ preventScroll: true }), { defer: true }));
  const somebody = (): Session | undefined => {
    const state = sessionState();
    if (state.is === "loggedIn") last = state.session;
    if (state.is === "loggedOut" || state.is === "unknown") last = undefined;
    return last;
  };
  const away = () => {
    const state = sessionState();
    return state.is === "offline" ? state : undefined;
  };
  const Failed = (props: { error: unknown; reset: () => void }) => {
    // Another page may work.
    createEffect(on(() => location.pathname, () => props.reset(), { defer: true }));
    if (props.error instanceof PageLoadError) retryWhenOnline(props.error, props.reset);
    const error = () => (props.error instanceof PageLoadError ? new Error(t("state.notloaded")) : props.error);
    // After an upgrade the chunks that are not loaded yet have other names, which only a reload finds.
    return <ErrorCard error={error()}><RetryButton retry={() => window.location.reload()} /></ErrorCard>;
  };
  return (
    <ErrorBoundary fallback={(error, reset) => <main class="content"><Failed error={error} reset={reset} /></main>}>
      <Switch fallback={<p class="empty" role="status"><Show when={away()} fallback={t("state.loading")}>{(is) => <OfflineText away={is()} />}</Show></p>}>
        <Match when={sessionState().is === "loggedOut"}><Login /></Match>
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

/** Requests the page again at intervals and when the browser is online again. */
function retryWhenOnline({ retry }: PageLoadError, reset: () => void): void {
  let isHere = true;
  const attempt = () => void retry().then(() => isHere && reset(), () => undefined);
  const timer = setInterval(attempt, RETRY_MS);
  addEventListener("online", attempt);
  onCleanup(() => {
    isHere = false;
    clearInterval(timer);
    removeEventListener("online", attempt);
  });
}

function UnknownRoute() {
  const location = useLocation();
  return <ErrorCard error={notFoundError(location.pathname)} />;
}

apply();
createEffect(() => (document.documentElement.lang = language()));
void checkSession();
// The session may have ended before the browser restored this page from its back/forward cache.
addEventListener("pageshow", ({ persisted }) => persisted && void checkSession());
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
      <Route path="*" component={UnknownRoute} />
    </Router>
  ), place);
}
