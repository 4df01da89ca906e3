// A dry run: asked for, waited for with a deadline, and told: what the agent found, what its model was asked and said.

import { ask, h, icon, isEmpty, newKey, pretty, sessionPath } from "./dom.js";
import { box, promptParts } from "./prompt.js";

const LOOK_MS = 400;
const PATIENCE_MS = 90_000;
const FINAL = ["done", "error", "stopped"];
const SKIPPED = {
  not_allowed: "the session does not allow it (allowed_agent_ids)",
  group_off: "its group is off",
  rate_limit: "it has run as often as its rate limit allows",
  conditions_not_met: "its conditions are not met",
  cooldown: "it ran a moment ago",
  silence_threshold_not_reached: "nobody has been silent for long enough",
  misconfigured: "its configuration makes no sense",
};

/** Try a definition on a copy of a session; answers what came of it. Throws `Problem`, and an error after the deadline. */
export async function dryRun(definition, sessionId, onStage) {
  onStage("Copying the session…");
  const { session_id: fork } = await ask("POST", "/api/copilot/dry-runs", { definition, session_id: sessionId, idempotency_key: newKey() });
  onStage("The agent is asked…");
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline) {
    const found = await ask("GET", `/api/copilot/dry-runs/${encodeURIComponent(fork)}`);
    if (found.step || FINAL.includes(found.status)) return found;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`No answer after ${PATIENCE_MS / 1000} seconds. Is a worker running? The copy is session ${fork}; it goes on by itself.`);
}

/** What came of it, as elements. */
export function dryRunParts(found) {
  const link = h("p", {}, h("a", { href: sessionPath(found.session_id) }, "The copy of the session"));
  return [headline(found), ...(found.run ? findings(found) : []), ...model(found), link];
}

function headline(found) {
  const [tone, glyph, words] = outcome(found);
  return h("p", { class: `state t-${tone} dry-outcome` }, icon(glyph), h("span", { class: "word" }, words));
}

function outcome({ run, skipped, step, reason }) {
  if (run?.failed) return ["failed", "cross", `Failed after ${run.ms} ms`];
  if (run) return ["done", "check", `Ran in ${run.ms} ms${spent(run.usage)}`];
  if (skipped) return ["waiting", "hand", `Not run: ${SKIPPED[skipped] ?? skipped}`];
  return ["failed", "cross", `Not run: ${step?.text || words(step?.error) || reason || "nobody said why"}`];
}

const words = (error) => (error && typeof error === "object" ? error.message ?? JSON.stringify(error) : error);

function spent(usage) {
  if (!usage?.calls) return "";
  const tokens = `${(usage.input_tokens ?? 0).toLocaleString("en")} tokens in, ${(usage.output_tokens ?? 0).toLocaleString("en")} out`;
  const price = usage.cost ? `, cost ${usage.cost}` : ", free";
  return ` · ${tokens}${price} · ${usage.model ?? ""}`;
}

// --- what it found -------------------------------------------------------------------------------------------------------

const UPDATES = { events: "Events", variables: "Variables", queues: "Queues", facts: "Facts", memory: "Memory" };

function findings({ run, insights }) {
  const cards = insights.filter((insight) => insight.agent_id === run.agent_id).map(card);
  const updates = Object.entries(UPDATES).filter(([name]) => !isEmpty(run[name])).map(([name, title]) => part(title, run[name]));
  if (!cards.length && !updates.length) return [h("p", { class: "muted" }, "It found nothing to say and nothing to keep.")];
  return [...(cards.length ? [h("section", { class: "told-part" }, h("h3", {}, "What it would say"), ...cards)] : []), ...updates];
}

function part(title, value) {
  const lines = Array.isArray(value) && value.every((one) => typeof one === "string") ? value.join("\n") : pretty(value);
  return h("section", { class: "told-part" }, h("h3", {}, title), box(lines, title));
}

function card(insight) {
  const { zone, ...more } = insight.metadata ?? {};
  const facts = [insight.type, zone && `zone ${zone}`, `confidence ${insight.confidence}`, `for ${insight.expiry} s`, insight.status === "held" && "waits for a person"];
  const line = h("p", { class: "muted" }, facts.filter(Boolean).join(" · "));
  return h("article", { class: "dry-insight" }, h("p", { class: "said" }, insight.content), line, isEmpty(more) ? null : box(pretty(more), "Metadata"));
}

// --- what its model was asked, and said --------------------------------------------------------------------------------------

function model({ asked, answers }) {
  const said = answers.map((answer, at) => {
    const title = answers.length > 1 ? `What the model answered, ${at + 1}` : "What the model answered";
    return h("section", { class: "told-part" }, h("h3", {}, title), box(answer.error ? `It did not answer: ${answer.error}` : readable(answer.text), title));
  });
  const question = asked && h("details", { class: "asked" }, h("summary", {}, "What the model was asked"), h("div", { class: "told-parts" }, ...promptParts(asked)));
  return question ? [...said, question] : said;
}

function readable(text) {
  try {
    return pretty(JSON.parse(text));
  } catch {
    return text ?? "";
  }
}
