import { For, Match, Switch, createEffect, createResource } from "solid-js";
import { request } from "../api/client";
import { type ConsoleConfig, login } from "../api/session";
import { messageOf } from "../api/status";
import { LANGUAGES, type Language, chooseLanguage, language, t } from "../i18n/messages";

/** The page of a user who is not logged in. */
export function Login() {
  createEffect(() => (document.title = `${t("login.title")} · ${t("app.title")}`));
  const [config, { refetch }] = createResource(() => request<ConsoleConfig>("/console/config"));
  const why = () => messageOf(config.error);
  return (
    <main class="login">
      <div class="card">
        <div class="brand"><img src="/console/mark.svg" alt="" />{t("app.title")}</div>
        <h1>{t("login.title")}</h1>
        <p class="quiet">{t("login.text")}</p>
        <Switch>
          <Match when={config.loading}><p class="quiet" role="status">{t("state.loading")}</p></Match>
          <Match when={config.error}>
            <p class="notice bad" role="alert">{t("login.failed", { why: why() })}</p>
            <button class="button main" type="button" onClick={() => void refetch()}>{t("state.again")}</button>
          </Match>
          <Match when={true}>
            <For each={config()?.issuers} fallback={<p class="quiet">{t("login.none")}</p>}>
              {(issuer) => (
                <button class="button main" type="button" onClick={() => login(issuer.name)}>
                  {t("login.with", { issuer: issuer.displayName || issuer.name })}
                </button>
              )}
            </For>
          </Match>
        </Switch>
        <label class="field">
          <span>{t("language.label")}</span>
          <select value={language()} onChange={(event) => chooseLanguage(event.currentTarget.value as Language)}>
            <For each={Object.entries(LANGUAGES)}>{([one, name]) => <option value={one} lang={one}>{name}</option>}</For>
          </select>
        </label>
      </div>
    </main>
  );
}
