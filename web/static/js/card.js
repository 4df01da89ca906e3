// The card of one insight. What a model wrote reaches it as text, its colour as a word of a closed list.

import { h, icon } from "./dom.js";
import { agentName, insightKind, lineToSay, stepPath, studioPath, sureness } from "./copilotwords.js";
import { ageOf } from "./time.js";

/** What is to be said of an insight before all: that it waits, is void soon, or over. */
export function markOf(insight, { isKept, isExpired }) {
  if (insight.taken_back) return "taken back";
  if (insight.status === "held") return "waits for you";
  if (insight.status === "refused") return "dropped";
  if (!insight.stored) return "not stored yet";
  if (isKept) return "kept";
  return isExpired ? "expired" : "";
}

/** The card as an element. */
export function cardOf(insight, session) {
  const { word, tone, glyph } = insightKind(insight);
  const classes = ["insight", `t-${tone}`, insight.taken_back ? "taken-back" : ""].filter(Boolean).join(" ");
  const attributes = {
    class: classes,
    "data-insight-id": insight.insight_id,
    "data-status": insight.status,
    "data-stored": String(insight.stored),
    "data-expires": insight.expires_at,
    "data-iteration": insight.iteration,
  };
  const line = lineToSay(insight);
  return h(
    "li",
    attributes,
    h(
      "p",
      { class: "insight-head" },
      h("span", { class: "kind" }, icon(glyph), h("span", { class: "word" }, word)),
      h("span", { class: "sure", title: `Confidence ${Number(insight.confidence).toFixed(2)}` }, sureness(insight.confidence)),
      h("span", { class: "flag", "data-mark": true }),
      ageOf(insight.created_at, "num age"),
    ),
    h("p", { class: "insight-text" }, insight.content),
    insight.action_label ? h("p", { class: "action-label" }, insight.action_label) : null,
    line ? lineOf(line) : null,
    insight.status === "held" ? heldOf() : null,
    footOf(insight, session),
  );
}

function lineOf(line) {
  const copy = h("button", { type: "button", class: "icon-button", "data-copy-line": true, "aria-label": "Copy what to say", title: "Copy what to say (c)" }, icon("copy"));
  return h("div", { class: "to-say" }, h("p", {}, line), copy);
}

function heldOf() {
  const button = (agreed, word, key, look) => h("button", { type: "button", class: look, "data-decide": String(agreed) }, `${word} `, h("kbd", {}, key));
  const error = h("p", { class: "field-error", role: "alert", "data-error": true });
  return h("div", { class: "held" }, button(true, "Show", "a", "primary"), button(false, "Drop", "r", "danger"), error);
}

function footOf(insight, session) {
  const agent = h("a", { class: "agent", href: studioPath(session, insight.agent_id), title: "Open in the studio" }, insight.agent_name || agentName(insight.agent_id));
  const evidence = h("a", { class: "evidence", href: stepPath(session, insight.iteration), title: "The step that found it" }, `step ${insight.iteration}`);
  const keep = h("button", { type: "button", class: "quiet", "data-keep": true, "aria-pressed": "false", title: "Keep (p)" }, icon("pin"), h("span", {}, "Keep"));
  const dismiss = h("button", { type: "button", class: "quiet", "data-dismiss": true, title: "Dismiss (d)", "aria-label": "Dismiss" }, icon("close"));
  return h("p", { class: "insight-foot" }, agent, insight.stored ? evidence : null, h("span", { class: "acts" }, keep, dismiss));
}
