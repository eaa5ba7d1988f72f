/** A write that somebody prepares: the server says while one types whether it would take it, and which level would not. */

import { A } from "@solidjs/router";
import { For, type ParentProps, Show, createEffect, createResource, createSignal, on, onCleanup } from "solid-js";
import { isUnsure } from "../api/client";
import { ApiError, type LevelCause, isAnswer, levelsOf } from "../api/status";
import { ChangedMeanwhile, type Outgoing, write } from "../api/writing";
import { exact } from "../amounts/people";
import { pictured } from "../budget/refused";
import { t } from "../i18n/messages";
import { ChangedNotice, type Meanwhile } from "./meanwhile";
import { ApiWords, ErrorText, RefusedBar, RefusedLegend, Warnings } from "./parts";
import { said } from "./precision";
import { createStaying } from "./staying";
import { yamlOf } from "./yaml";

/** So long nobody types before the server is asked. */
const PAUSE_MS = 350;
/** So long after a question that nobody has answered it is asked again. */
const AGAIN_MS = 5_000;

export type { Outgoing };

export type Verdict = { is: "incomplete" } | { is: "checking" } | { is: "fits"; warnings: readonly string[] } | { is: "refused"; error: unknown };

/** Asks the server by a dry run, when nobody types any more. */
export function checked(sent: () => Outgoing | undefined): () => Verdict {
  const [verdict, tell] = createSignal<Verdict>({ is: "incomplete" });
  createEffect(on(sent, (wanted) => {
    if (!wanted) {
      tell({ is: "incomplete" });
      return;
    }
    tell({ is: "checking" });
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const askAfter = (wait: number) => {
      timer = setTimeout(() => {
        let warnings: readonly string[] = [];
        write(wanted, { isDry: true, signal: abort.signal, warned: (texts) => (warnings = texts) }).then(
          () => tell({ is: "fits", warnings }),
          (error: unknown) => {
            if (abort.signal.aborted) return;
            tell({ is: "refused", error });
            if (!isAnswer(error) && !(error instanceof ChangedMeanwhile)) askAfter(AGAIN_MS);
          },
        );
      }, wait);
    };
    askAfter(PAUSE_MS);
    onCleanup(() => {
      clearTimeout(timer);
      abort.abort();
    });
  }));
  return verdict;
}

interface AskingFormProps {
  sent: Outgoing | undefined;
  verdict: Verdict;
  label: string;
  cancel: string;
  /** What is said while something is still missing. */
  incomplete: string;
  fits?: string;
  done: () => void;
  /** Of a form that changes what others change, too. */
  meanwhile?: Meanwhile;
}

export function AskingForm(props: ParentProps<AskingFormProps>) {
  const [busy, setBusy] = createSignal(false);
  const [error, setError] = createSignal<unknown>();
  const [yaml] = createResource(() => props.sent?.body ?? {}, yamlOf);
  createEffect(on(() => props.sent, () => setError(undefined)));
  const stays = createStaying();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!props.sent) return;
    const isHere = stays();
    setBusy(true);
    try {
      await write(props.sent);
      if (isHere()) props.done();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const refusal = (): Refusing | undefined => {
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
          <Show when={refusal()} fallback={<Answer verdict={props.verdict} incomplete={props.incomplete} fits={props.fits ?? t("form.fits")} />}>{(refused) => <Refusal error={refused().error} isSent={refused().isSent} meanwhile={props.meanwhile} />}</Show>
        </div>
        <section class="card" aria-label={t("form.yaml")}>
          <h2>{t("form.yaml")}</h2>
          <Show when={props.sent} fallback={<p class="quiet">{t("form.yaml.nothing")}</p>}><pre tabindex="0">{yaml.latest}</pre></Show>
        </section>
      </div>
    </div>
  );
}

function Answer(props: { verdict: Verdict; incomplete: string; fits: string }) {
  const warnings = () => (props.verdict.is === "fits" ? props.verdict.warnings : []);
  return (
    <Show when={props.verdict.is === "fits"} fallback={<p class="quiet">{props.verdict.is === "checking" ? t("form.checking") : props.incomplete}</p>}>
      <div class="stairs"><p class="notice good">{props.fits}</p><Warnings texts={warnings()} /></div>
    </Show>
  );
}

interface Refusing {
  error: unknown;
  /** Of the write itself, and not of a question before it. */
  isSent: boolean;
}

/** The levels that said no, as bars: what is given away, what was asked for, and how far that goes beyond the limit. */
function Refusal(props: Refusing & { meanwhile: Meanwhile | undefined }) {
  const told = () => levelsOf(props.error instanceof ApiError ? props.error.causes : []);
  const changed = () => (props.error instanceof ChangedMeanwhile && props.meanwhile ? { fresh: props.error.fresh, of: props.meanwhile } : undefined);
  return (
    <Show when={changed()} fallback={<Refused error={props.error} isSent={props.isSent} told={told()} />}>{(by) => <ChangedNotice fresh={by().fresh} of={by().of} />}</Show>
  );
}

function Refused(props: Refusing & { told: ReturnType<typeof levelsOf> }) {
  const title = () => t(isAnswer(props.error) ? "form.refused" : "state.error");
  return (
    <section class="stairs" role="alert" aria-label={title()}>
      <h2>{title()}</h2>
      <For each={props.told.levels} fallback={<p class="notice bad"><ErrorText error={props.error} /></p>}>{(level) => <Stair level={level} />}</For>
      <Show when={props.told.levels.length > 0}>
        <RefusedLegend />
        <p class="quiet"><ErrorText error={props.error} /></p>
        <For each={props.told.others}>{(cause) => <p class="notice"><ApiWords>{`${cause.field}: ${cause.message}`}</ApiWords></p>}</For>
      </Show>
      <Show when={props.isSent && isUnsure(props.error)}><p>{t("form.unknown")}</p></Show>
    </section>
  );
}

function Stair(props: { level: LevelCause }) {
  const level = () => props.level;
  // What was typed, and what is to be typed instead, as it is: rounded, the latter would be refused once more.
  const word = () => t(level().reason === "BelowAllocated" ? "refusal.below" : "refusal.fits", {
    resource: level().resource,
    requested: exact(level().requested, level().resource), allocated: said(level().allocated, level().resource),
    hard: said(level().hard, level().resource), fits: exact(level().fits, level().resource),
  });
  const where = () => {
    const { level: kind, name, cluster } = level();
    const text = t(`refusal.level.${kind as "project"}`, { name });
    return kind === "cluster" || cluster === "" ? text : t("refusal.within", { level: text, cluster });
  };
  return (
    <div class="stair">
      <strong>{where()}</strong>
      <RefusedBar picture={pictured(level())} label={word()} />
      <span>{word()}</span>
    </div>
  );
}
