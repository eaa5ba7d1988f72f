/** A form for a write: while the user types, a dry run shows whether the server would accept it, and which level would not. */

import { A } from "@solidjs/router";
import { For, type ParentProps, Show, createEffect, createSignal, on, onCleanup } from "solid-js";
import { isOutcomeUnknown } from "../api/client";
import { ApiError, type LevelCause, isRejection, levelsOf } from "../api/status";
import { ConflictError, type WriteRequest, write } from "../api/write";
import { formatExact } from "../amounts/format";
import { refusalBarLengths } from "../budget/refusal";
import { t } from "../i18n/messages";
import { type ConflictHandler, ConflictNotice } from "./conflict";
import { createLatest } from "./lookup";
import { ApiText, ErrorText, RefusedBar, RefusedLegend, Warnings } from "./parts";
import { formatAmount } from "./precision";
import { createNavigationCheck } from "./navigation";
import { yamlOf } from "./yaml";

/** How long after the last change the dry run is sent. */
const DEBOUNCE_MS = 350;
/** How long after a failed dry run it is sent again. */
const RETRY_MS = 5_000;

export type { WriteRequest };

export type Verdict = { is: "incomplete" } | { is: "checking" } | { is: "fits"; warnings: readonly string[] } | { is: "refused"; error: unknown };

/** Checks a write by a dry run after each change. */
export function createDryRun(sent: () => WriteRequest | undefined): () => Verdict {
  const [verdict, setVerdict] = createSignal<Verdict>({ is: "incomplete" });
  createEffect(on(sent, (wanted) => {
    if (!wanted) {
      setVerdict({ is: "incomplete" });
      return;
    }
    setVerdict({ is: "checking" });
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const askAfter = (wait: number) => {
      timer = setTimeout(() => {
        let warnings: readonly string[] = [];
        write(wanted, { isDry: true, signal: abort.signal, onWarnings: (texts) => (warnings = texts) }).then(
          () => setVerdict({ is: "fits", warnings }),
          (error: unknown) => {
            if (abort.signal.aborted) return;
            setVerdict({ is: "refused", error });
            if (!isRejection(error) && !(error instanceof ConflictError)) askAfter(RETRY_MS);
          },
        );
      }, wait);
    };
    askAfter(DEBOUNCE_MS);
    onCleanup(() => {
      clearTimeout(timer);
      abort.abort();
    });
  }));
  return verdict;
}

interface DryRunFormProps {
  sent: WriteRequest | undefined;
  verdict: Verdict;
  label: string;
  cancel: string;
  /** The text while something is missing. */
  incomplete: string;
  fits?: string;
  /** Called with the answer to the write. */
  done: (answer: unknown) => void;
  /** For a form whose object others may change, too. */
  onConflict?: ConflictHandler;
}

export function DryRunForm(props: ParentProps<DryRunFormProps>) {
  const [busy, setBusy] = createSignal(false);
  const [error, setError] = createSignal<unknown>();
  const yaml = createLatest(() => props.sent?.body ?? {}, yamlOf);
  createEffect(on(() => props.sent, () => setError(undefined)));
  const stays = createNavigationCheck();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!props.sent) return;
    const isHere = stays();
    setBusy(true);
    try {
      const answer = await write(props.sent);
      if (isHere()) props.done(answer);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const refusal = (): RefusalProps | undefined => {
    if (error() !== undefined) return { error: error(), isSent: true };
    return props.verdict.is === "refused" ? { error: props.verdict.error, isSent: false } : undefined;
  };
  return (
    <div class="cards">
      <form class="card" onSubmit={(event) => void submit(event)}>
        {props.children}
        <div class="row">
          <button class="button main" type="submit" disabled={busy() || !props.sent}>{props.label}</button>
          <A class="button" href={props.cancel}>{t("form.cancel")}</A>
        </div>
      </form>
      <div class="stairs">
        <div aria-live="polite">
          <Show when={refusal()} fallback={<VerdictText verdict={props.verdict} incomplete={props.incomplete} fits={props.fits ?? t("form.fits")} />}>{(refused) => <Refusal error={refused().error} isSent={refused().isSent} onConflict={props.onConflict} />}</Show>
        </div>
        <section class="card" aria-label={t("form.yaml")}>
          <h2>{t("form.yaml")}</h2>
          <Show when={props.sent} fallback={<p class="quiet">{t("form.yaml.nothing")}</p>}><pre tabindex="0">{yaml()}</pre></Show>
        </section>
      </div>
    </div>
  );
}

function VerdictText(props: { verdict: Verdict; incomplete: string; fits: string }) {
  const warnings = () => (props.verdict.is === "fits" ? props.verdict.warnings : []);
  return (
    <Show when={props.verdict.is === "fits"} fallback={<p class="quiet">{props.verdict.is === "checking" ? t("form.checking") : props.incomplete}</p>}>
      <div class="stairs"><p class="notice good">{props.fits}</p><Warnings texts={warnings()} /></div>
    </Show>
  );
}

interface RefusalProps {
  error: unknown;
  /** Whether the write itself was refused, not its dry run. */
  isSent: boolean;
}

/** A refusal: a conflict, or the levels that refused as bars. */
function Refusal(props: RefusalProps & { onConflict: ConflictHandler | undefined }) {
  const causes = () => levelsOf(props.error instanceof ApiError ? props.error.causes : []);
  const changed = () => (props.error instanceof ConflictError && props.onConflict ? { fresh: props.error.fresh, of: props.onConflict } : undefined);
  return (
    <Show when={changed()} fallback={<RefusalDetails error={props.error} isSent={props.isSent} causes={causes()} />}>{(by) => <ConflictNotice fresh={by().fresh} of={by().of} />}</Show>
  );
}

function RefusalDetails(props: RefusalProps & { causes: ReturnType<typeof levelsOf> }) {
  const title = () => t(isRejection(props.error) ? "form.refused" : "state.error");
  return (
    <section class="stairs" role="alert" aria-label={title()}>
      <h2>{title()}</h2>
      <For each={props.causes.levels} fallback={<p class="notice bad"><ErrorText error={props.error} /></p>}>{(level) => <LevelRefusal level={level} />}</For>
      <Show when={props.causes.levels.length > 0}>
        <RefusedLegend />
        <p class="quiet"><ErrorText error={props.error} /></p>
        <For each={props.causes.others}>{(cause) => <p class="notice"><ApiText>{`${cause.field}: ${cause.message}`}</ApiText></p>}</For>
      </Show>
      <Show when={props.isSent && isOutcomeUnknown(props.error)}><p>{t("form.unknown")}</p></Show>
    </section>
  );
}

function LevelRefusal(props: { level: LevelCause }) {
  const level = () => props.level;
  // Exact amounts for what was typed and what fits: a rounded amount could be refused again.
  const word = () => t(level().reason === "BelowAllocated" ? "refusal.below" : "refusal.fits", {
    resource: level().resource,
    requested: formatExact(level().requested, level().resource), allocated: formatAmount(level().allocated, level().resource),
    hard: formatAmount(level().hard, level().resource), fits: formatExact(level().fits, level().resource),
  });
  const where = () => {
    const { level: kind, name, cluster } = level();
    const text = t(`refusal.level.${kind as "project"}`, { name });
    return kind === "cluster" || cluster === "" ? text : t("refusal.within", { level: text, cluster });
  };
  return (
    <div class="stair">
      <strong>{where()}</strong>
      <RefusedBar lengths={refusalBarLengths(level())} label={word()} />
      <span>{word()}</span>
    </div>
  );
}
