import { DropdownMenu } from "@kobalte/core/dropdown-menu";
import { A } from "@solidjs/router";
import { For, type ParentProps, Show, createSignal } from "solid-js";
import { request } from "../api/client";
import { isOperator } from "../api/collections";
import { type ConsoleConfig, type OfflineState, type Session, loginPath, logout, sessionEndsSoon } from "../api/session";
import { messageOf } from "../api/status";
import { LANGUAGES, type Language, chooseLanguage, formatDateTime, language, t } from "../i18n/messages";
import { OfflineText } from "./parts";
import { type Precision, choosePrecision, precision } from "./precision";
import { type Theme, chooseTheme, theme } from "./theme";

const THEMES: Theme[] = ["system", "light", "dark"];
const PRECISIONS: Precision[] = ["rounded", "exact"];
const PAGES = [
  { path: "/", key: "nav.projects", operators: false },
  { path: "/tenants", key: "nav.tenants", operators: false },
  { path: "/clusters", key: "nav.clusters", operators: true },
  { path: "/findings", key: "nav.findings", operators: false },
] as const;

/** The frame around every page. */
export function Layout(props: ParentProps<{ session: Session; away: OfflineState | undefined }>) {
  const [stays, setStays] = createSignal<string>();
  const leave = () => {
    setStays(undefined);
    void logout().catch((error: unknown) => setStays(messageOf(error)));
  };
  // A native listener, so that the router does not handle the click: it would not move the focus.
  const skip = (event: Event) => {
    event.preventDefault();
    document.getElementById("content")?.focus();
  };
  return (
    <>
      <a class="skip" href="#content" on:click={skip}>{t("nav.skip")}</a>
      <header class="top">
        <A class="brand" href="/"><img src="/console/mark.svg" alt="" />{t("app.title")}</A>
        <nav class="nav" aria-label={t("nav.main")}>
          <For each={PAGES.filter(({ operators }) => !operators || isOperator())}>
            {({ path, key }) => <A href={path} end={path === "/"}>{t(key)}</A>}
          </For>
        </nav>
        <Account session={props.session} onLeave={leave} />
      </header>
      <div class="notices">
        <div role="status">
          <Show when={sessionEndsSoon()}>
            <p class="notice">
              {t("account.endsoon", { time: formatDateTime(props.session.ends) })}{" "}
              <a href={loginPath(props.session.issuer, "/console/")} target="_blank">{t("account.again")}</a>
            </p>
          </Show>
        </div>
        <Show when={stays()}>{(why) => <p class="notice bad" role="alert">{t("account.stays", { why: why() })}</p>}</Show>
      </div>
      <main class="content" id="content" tabindex="-1">
        <Show when={props.away}>{(away) => <p class="notice bad" role="alert"><OfflineText away={away()} /></p>}</Show>
        {props.children}
      </main>
    </>
  );
}

function Account(props: { session: Session; onLeave: () => void }) {
  const [version, setVersion] = createSignal<string>();
  const askVersion = () => {
    if (version() !== undefined) return;
    void request<ConsoleConfig>("/console/config").then((config) => setVersion(config.version), () => undefined);
  };
  return (
    <DropdownMenu placement="bottom-end" gutter={6} modal={false} onOpenChange={(isOpen) => isOpen && askVersion()}>
      <DropdownMenu.Trigger class="button" aria-label={t("account.menu", { name: props.session.username })}>
        {props.session.username}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content class="menu">
          <DropdownMenu.Item disabled class="about">{t("account.ends", { time: formatDateTime(props.session.ends) })}</DropdownMenu.Item>
          <Show when={props.session.groups.length > 0}>
            <DropdownMenu.Item disabled class="about">{t("account.groups")}: {props.session.groups.join(", ")}</DropdownMenu.Item>
          </Show>
          <Choice label={t("theme.label")} chosen={theme()} choose={chooseTheme} all={THEMES.map((one) => ({ one, name: t(`theme.${one}`) }))} />
          <Choice label={t("language.label")} chosen={language()} choose={chooseLanguage}
            all={Object.entries(LANGUAGES).map(([one, name]) => ({ one: one as Language, name, lang: one }))} />
          <Choice label={t("amounts.label")} chosen={precision()} choose={choosePrecision}
            all={PRECISIONS.map((one) => ({ one, name: t(`amounts.${one}`) }))} />
          <DropdownMenu.Item onSelect={() => props.onLeave()}>{t("account.logout")}</DropdownMenu.Item>
          <DropdownMenu.Item disabled class="about">{t("account.keys")}</DropdownMenu.Item>
          <Show when={version()}>
            {(is) => <DropdownMenu.Item disabled class="about">{t("account.version", { version: is() })}</DropdownMenu.Item>}
          </Show>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu>
  );
}

/** A setting of this browser. */
function Choice<One extends string>(props: {
  label: string;
  chosen: One;
  choose: (one: One) => void;
  all: readonly { one: One; name: string; lang?: string }[];
}) {
  return (
    <DropdownMenu.Group>
      <DropdownMenu.GroupLabel class="group">{props.label}</DropdownMenu.GroupLabel>
      <DropdownMenu.RadioGroup value={props.chosen} onChange={(value) => props.choose(value as One)}>
        <For each={props.all}>
          {({ one, name, lang }) => <DropdownMenu.RadioItem value={one} {...(lang ? { lang } : {})}>{name}</DropdownMenu.RadioItem>}
        </For>
      </DropdownMenu.RadioGroup>
    </DropdownMenu.Group>
  );
}
