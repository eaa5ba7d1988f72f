import { DropdownMenu } from "@kobalte/core/dropdown-menu";
import { A } from "@solidjs/router";
import { For, type ParentProps, Show } from "solid-js";
import { isOperator } from "../api/collections";
import { type Session, logout } from "../api/session";
import { type Language, language, moment, speak, t } from "../i18n/messages";
import { type Precision, precision, tellAmounts } from "./precision";
import { type Theme, paint, theme } from "./theme";

const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };
const THEMES: Theme[] = ["system", "light", "dark"];
const PRECISIONS: Precision[] = ["rounded", "exact"];
const PAGES = [
  { path: "/", key: "nav.projects", operators: false },
  { path: "/tenants", key: "nav.tenants", operators: false },
  { path: "/clusters", key: "nav.clusters", operators: true },
  { path: "/findings", key: "nav.findings", operators: false },
] as const;

/** What stands around every page. */
export function Layout(props: ParentProps<{ session: Session; offline: string | undefined }>) {
  return (
    <>
      <a class="skip" href="#content">{t("nav.skip")}</a>
      <header class="top">
        <A class="brand" href="/"><img src="/console/mark.svg" alt="" />{t("app.title")}</A>
        <nav class="nav" aria-label={t("nav.main")}>
          <For each={PAGES.filter(({ operators }) => !operators || isOperator())}>
            {({ path, key }) => <A href={path} end={path === "/"}>{t(key)}</A>}
          </For>
        </nav>
        <Account session={props.session} />
      </header>
      <main class="content" id="content" tabindex="-1">
        <Show when={props.offline}>
          <p class="notice bad" role="alert">{t("state.offline")} {props.offline}</p>
        </Show>
        {props.children}
      </main>
    </>
  );
}

function Account(props: { session: Session }) {
  return (
    <DropdownMenu placement="bottom-end" gutter={6} modal={false}>
      <DropdownMenu.Trigger class="button" aria-label={t("account.menu", { name: props.session.username })}>
        {props.session.username}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content class="menu">
          <DropdownMenu.Item disabled class="about">{t("account.ends", { time: moment(props.session.ends) })}</DropdownMenu.Item>
          <Show when={props.session.groups.length > 0}>
            <DropdownMenu.Item disabled class="about">{t("account.groups")}: {props.session.groups.join(", ")}</DropdownMenu.Item>
          </Show>
          <DropdownMenu.Group>
            <DropdownMenu.GroupLabel class="group">{t("theme.label")}</DropdownMenu.GroupLabel>
            <DropdownMenu.RadioGroup value={theme()} onChange={(value) => paint(value as Theme)}>
              <For each={THEMES}>
                {(one) => <DropdownMenu.RadioItem value={one}>{t(`theme.${one}`)}</DropdownMenu.RadioItem>}
              </For>
            </DropdownMenu.RadioGroup>
          </DropdownMenu.Group>
          <DropdownMenu.Group>
            <DropdownMenu.GroupLabel class="group">{t("language.label")}</DropdownMenu.GroupLabel>
            <DropdownMenu.RadioGroup value={language()} onChange={(value) => speak(value as Language)}>
              <For each={Object.entries(LANGUAGES)}>
                {([one, name]) => <DropdownMenu.RadioItem value={one} lang={one}>{name}</DropdownMenu.RadioItem>}
              </For>
            </DropdownMenu.RadioGroup>
          </DropdownMenu.Group>
          <DropdownMenu.Group>
            <DropdownMenu.GroupLabel class="group">{t("amounts.label")}</DropdownMenu.GroupLabel>
            <DropdownMenu.RadioGroup value={precision()} onChange={(value) => tellAmounts(value as Precision)}>
              <For each={PRECISIONS}>
                {(one) => <DropdownMenu.RadioItem value={one}>{t(`amounts.${one}`)}</DropdownMenu.RadioItem>}
              </For>
            </DropdownMenu.RadioGroup>
          </DropdownMenu.Group>
          <DropdownMenu.Item onSelect={() => void logout()}>{t("account.logout")}</DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu>
  );
}
