import { For, createResource } from "solid-js";
import { request } from "../api/client";
import { type ConsoleConfig, login } from "../api/session";
import { t } from "../i18n/messages";

/** Who is nobody yet. */
export function Login() {
  document.title = `${t("login.title")} · ${t("app.title")}`;
  const [config] = createResource(() => request<ConsoleConfig>("/console/config"));
  return (
    <main class="login">
      <div class="card">
        <div class="brand"><img src="/console/mark.svg" alt="" />{t("app.title")}</div>
        <h1>{t("login.title")}</h1>
        <p class="quiet">{t("login.text")}</p>
        <For each={config()?.issuers} fallback={<p class="quiet">{config.loading ? t("state.loading") : t("login.none")}</p>}>
          {(issuer) => (
            <button class="button main" type="button" onClick={() => login(issuer.name)}>
              {t("login.with", { issuer: issuer.displayName || issuer.name })}
            </button>
          )}
        </For>
      </div>
    </main>
  );
}
