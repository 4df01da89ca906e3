// A form from a JSON Schema: what a moniker's config accepts, field by field, checked here and again by the server.
//
// Each field is `{element, read, write, setError, errorsOf}`; `read` answers undefined for a field left empty.

import { h, icon } from "./dom.js";

const LONG_TEXTS = ["text", "instructions", "question", "prompt", "body", "task"];

let made = 0;

/** A form's fields for an object schema. `skip` names properties that are asked for elsewhere. */
export function schemaFields(schema, { skip = [] } = {}) {
  return objectField(schema, { root: schema, path: "", skip, isBare: true });
}

/** The schema behind `$ref`s and `X | null`, with the words of the outer one. */
function resolve(schema, root) {
  if (schema.$ref) {
    const found = schema.$ref.replace(/^#\//, "").split("/").reduce((at, part) => at?.[part], root) ?? {};
    return resolve({ ...found, ...without(schema, "$ref") }, root);
  }
  if (schema.allOf?.length === 1) return resolve({ ...without(schema, "allOf"), ...schema.allOf[0] }, root);
  const choices = schema.anyOf?.filter((choice) => choice.type !== "null");
  if (choices?.length === 1) return { ...resolve({ ...without(schema, "anyOf"), ...choices[0] }, root), isOptional: true };
  return schema;
}

function without(object, key) {
  const { [key]: _dropped, ...rest } = object;
  return rest;
}

function fieldFor(name, schema, context) {
  const resolved = resolve(schema, context.root);
  const inner = { ...context, name, path: context.path ? `${context.path}.${name}` : name };
  if (resolved.enum || resolved.const !== undefined) return choiceField(resolved, inner);
  if (resolved.type === "boolean") return booleanField(resolved, inner);
  if (resolved.type === "integer" || resolved.type === "number") return numberField(resolved, inner);
  if (resolved.type === "string") return textField(resolved, inner);
  if (resolved.type === "array" && canRepeat(resolved, context.root)) return listField(resolved, inner);
  if (resolved.type === "object" && resolved.properties) return objectField(resolved, inner);
  return jsonField(resolved, inner);
}

function canRepeat(schema, root) {
  const items = schema.items && resolve(schema.items, root);
  return Boolean(items && (items.enum || ["string", "number", "integer"].includes(items.type) || items.properties));
}

const UNITS = { s: "(seconds)", ms: "(milliseconds)" };

function titleOf(name) {
  const parts = name.split("_");
  const words = [...parts.slice(0, -1), (parts.length > 1 && UNITS[parts.at(-1)]) || parts.at(-1)].join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What to call a field. A title that only repeats the name is worse than our own words. */
function labelOf(schema, context) {
  const isOwn = schema.title && schema.title.toLowerCase().replaceAll(" ", "_") !== context.name;
  return context.label ?? (isOwn ? schema.title : titleOf(context.name));
}

const sentence = (text) => (text && !/[.!?]$/.test(text) ? `${text}.` : text);

/** Label, control, hint and error line around one control. */
function frame(control, schema, context, rest) {
  const id = `f-${(made += 1)}`;
  control.id = id;
  const hintWords = [sentence(schema.description), limits(schema)].filter(Boolean).join(" ");
  const hint = hintWords ? h("p", { class: "hint", id: `${id}-hint` }, hintWords) : null;
  const error = h("p", { class: "field-error", id: `${id}-error` });
  control.setAttribute("aria-describedby", [hint && hint.id, error.id].filter(Boolean).join(" "));
  if (context.isRequired) control.setAttribute("aria-required", "true");
  const label = h("label", { for: id }, labelOf(schema, context));
  if (context.isRequired) label.append(" ", h("span", { class: "must" }, "required"));
  const element = h("div", { class: `field ${rest.className ?? ""}`.trim(), "data-field": context.path }, label, control, hint, error);
  const setError = (text) => {
    error.textContent = text;
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  };
  return { element, setError, path: context.path, focus: () => control.focus(), parts: () => [], ...rest };
}

function limits(schema) {
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum ?? schema.exclusiveMaximum;
  const words = [];
  if (least !== undefined && most !== undefined) words.push(`From ${least} to ${most}.`);
  else if (least !== undefined) words.push(`${schema.minimum === undefined ? "More than" : "At least"} ${least}.`);
  else if (most !== undefined) words.push(`At most ${most}.`);
  if (schema.default !== undefined && schema.default !== null && typeof schema.default !== "object" && schema.default !== "") words.push(`Left empty: ${schema.default}.`);
  return words.join(" ");
}

function checked(context, raw, check) {
  if (raw === "") return context.isRequired ? "Fill this in." : "";
  return check(raw) ?? "";
}

function textField(schema, context) {
  const isLong = schema.format === "long" || LONG_TEXTS.includes(context.name);
  const control = isLong ? h("textarea", { rows: 3, name: context.path }) : h("input", { type: "text", name: context.path, autocomplete: "off" });
  const check = (raw) => {
    if (schema.minLength && raw.length < schema.minLength) return `At least ${schema.minLength} characters.`;
    if (schema.maxLength && raw.length > schema.maxLength) return `At most ${schema.maxLength} characters; these are ${raw.length}.`;
    if (schema.pattern && !new RegExp(schema.pattern, "u").test(raw)) return `This must look like ${schema.pattern}.`;
    return "";
  };
  return frame(control, schema, context, {
    read: () => (control.value === "" ? undefined : control.value),
    write: (value) => {
      control.value = value ?? "";
    },
    errorsOf: () => checked(context, control.value, check),
  });
}

function numberField(schema, context) {
  const isWhole = schema.type === "integer";
  const control = h("input", { type: "text", inputmode: isWhole ? "numeric" : "decimal", name: context.path, autocomplete: "off" });
  const check = (raw) => {
    const value = Number(raw);
    if (!Number.isFinite(value)) return "This must be a number.";
    if (isWhole && !Number.isInteger(value)) return "This must be a whole number.";
    if (value < schema.minimum || value <= schema.exclusiveMinimum || value > schema.maximum || value >= schema.exclusiveMaximum) return limits({ ...schema, default: undefined });
    return "";
  };
  return frame(control, schema, context, {
    className: "short",
    read: () => (control.value.trim() === "" ? undefined : Number(control.value)),
    write: (value) => {
      control.value = value ?? "";
    },
    errorsOf: () => checked(context, control.value.trim(), check),
  });
}

function booleanField(schema, context) {
  return choiceField({ ...schema, enum: [true, false], words: ["yes", "no"] }, context);
}

function choiceField(schema, context) {
  const values = schema.enum ?? [schema.const];
  const standard = values.findIndex((value) => value === schema.default);
  const wordFor = (index) => schema.words?.[index] ?? String(values[index]);
  const empty = standard >= 0 ? `Standard (${wordFor(standard)})` : context.isRequired ? "Choose" : "Not set";
  const options = values.map((_value, index) => h("option", { value: index }, wordFor(index)));
  const control = h("select", { name: context.path }, h("option", { value: "" }, empty), ...options);
  return frame(control, without(schema, "default"), context, {
    className: "short",
    read: () => (control.value === "" ? undefined : values[Number(control.value)]),
    write: (value) => {
      const index = values.findIndex((known) => known === value);
      control.value = index < 0 ? "" : String(index);
    },
    errorsOf: () => checked(context, control.value, () => ""),
  });
}

function jsonField(schema, context) {
  const control = h("textarea", { rows: 4, name: context.path, class: "mono", spellcheck: "false", placeholder: "JSON" });
  const check = (raw) => {
    try {
      JSON.parse(raw);
      return "";
    } catch (error) {
      return `This is not JSON: ${error.message}`;
    }
  };
  return frame(control, schema, context, {
    read: () => (control.value.trim() === "" ? undefined : JSON.parse(control.value)),
    write: (value) => {
      control.value = value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
    },
    errorsOf: () => checked(context, control.value.trim(), check),
  });
}

function objectField(schema, context) {
  const required = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties ?? {}).filter((name) => !(context.skip ?? []).includes(name));
  const fields = names.map((name) => [
    name,
    fieldFor(name, schema.properties[name], { root: context.root, path: context.path, isRequired: required.has(name) }),
  ]);
  const legend = context.isBare ? null : h("legend", {}, labelOf(schema, context));
  const element = h(context.isBare ? "div" : "fieldset", { class: "group" }, legend, ...fields.map(([, field]) => field.element));
  return {
    element,
    path: context.path,
    parts: () => fields.map(([, field]) => field),
    setError: () => {},
    errorsOf: () => "",
    focus: () => fields[0]?.[1].focus(),
    read: () => {
      const values = fields.map(([name, field]) => [name, field.read()]).filter(([, value]) => value !== undefined);
      return values.length || context.isBare || context.isRequired ? Object.fromEntries(values) : undefined;
    },
    write: (value) => fields.forEach(([name, field]) => field.write(value?.[name])),
  };
}

function listField(schema, context) {
  const items = [];
  const rows = h("div", { class: "items" });
  const error = h("p", { class: "field-error" });
  const noun = labelOf(schema, context).toLowerCase().replace(/s$/, "");
  const fill = (values) => {
    items.splice(0).forEach((item) => item.element.remove());
    values.forEach((value) => add(value));
  };
  const add = (value) => {
    const item = listItem(schema, context, items.length, noun, () => {
      fill(items.filter((other) => other !== item).map((other) => other.field.read())); // the others get new numbers
      button.focus();
    });
    items.push(item);
    rows.append(item.element);
    if (value !== undefined) item.field.write(value);
    return item;
  };
  const button = h("button", { type: "button", class: "quiet", click: () => add().field.focus() }, icon("plus"), `Add a ${noun}`);
  const legend = h("legend", {}, labelOf(schema, context));
  if (context.isRequired) legend.append(" ", h("span", { class: "must" }, "required"));
  const hint = schema.description ? h("p", { class: "hint" }, schema.description) : null;
  const element = h("fieldset", { class: "group list-field", "data-field": context.path }, legend, hint, rows, button, error);
  if (context.isRequired || schema.minItems) add();
  return {
    element,
    path: context.path,
    parts: () => items.map((item) => item.field),
    setError: (text) => {
      error.textContent = text;
    },
    focus: () => button.focus(),
    errorsOf: () => {
      if (context.isRequired && !items.length) return `Add at least one ${noun}.`;
      if (items.length < (schema.minItems ?? 0) && (context.isRequired || items.length)) return `Add at least ${schema.minItems}.`;
      return schema.maxItems && items.length > schema.maxItems ? `At most ${schema.maxItems}.` : "";
    },
    read: () => {
      const values = items.map((item) => item.field.read()).filter((value) => value !== undefined);
      return values.length || context.isRequired ? values : undefined;
    },
    write: (values) => fill(values ?? []),
  };
}

function listItem(schema, context, index, noun, remove) {
  const label = `${noun.charAt(0).toUpperCase()}${noun.slice(1)} ${index + 1}`;
  const field = fieldFor(String(index), schema.items, { root: context.root, path: context.path, isRequired: true, label });
  const drop = h("button", { type: "button", class: "icon-button", "aria-label": `Remove this ${noun}`, title: `Remove this ${noun}`, click: remove }, icon("close"));
  return { element: h("div", { class: "item" }, field.element, drop), field };
}

/** Check every field, show what is wrong, answer whether all is well. The first wrong one gets the focus. */
export function check(field) {
  const wrong = flat(field).filter((part) => {
    const text = part.errorsOf();
    part.setError(text);
    return text;
  });
  wrong[0]?.focus();
  return !wrong.length;
}

/** Show the server's `errors` at their fields; answers those that belong to none. */
export function showErrors(field, errors, prefix = "") {
  const parts = flat(field);
  parts.forEach((part) => part.setError(""));
  return errors.filter(({ field: where, message }) => {
    const path = normal(where, prefix);
    const part = parts.find((candidate) => normal(candidate.path ?? "", "") === path && candidate.path);
    part?.setError(message);
    return !part;
  });
}

function normal(where, prefix) {
  const dotted = (Array.isArray(where) ? where.join(".") : String(where)).replace(/\[(\d+)\]/g, ".$1").replace(/^(body)?[./]/, "").replaceAll("/", ".");
  return prefix && dotted.startsWith(`${prefix}.`) ? dotted.slice(prefix.length + 1) : dotted;
}

const flat = (field) => [field, ...field.parts().flatMap(flat)];
