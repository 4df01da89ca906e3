// Runs before the first paint, as a plain script: a pinned theme and a folded rail must not flash.
// Afterwards it wires the frame's own buttons and fetches the keyboard module when the first key is pressed.
(() => {
  "use strict";

  const root = document.documentElement;
  const THEMES = ["system", "light", "dark"];
  const remembered = (key) => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // storage may be switched off; the page then follows the system
    }
  };
  const remember = (key, value) => {
    try {
      if (value) localStorage.setItem(key, value);
      else localStorage.removeItem(key);
    } catch {
      // nothing is lost but the memory of the choice
    }
  };

  const theme = remembered("stepwell.theme");
  if (THEMES.includes(theme) && theme !== "system") root.dataset.theme = theme;
  if (remembered("stepwell.rail") === "folded") root.dataset.rail = "folded";
  root.dataset.scripts = "on";

  const nameTheme = (button) => {
    const words = { light: "light", dark: "dark" }[root.dataset.theme] ?? "as the system";
    button.setAttribute("aria-label", `Theme: ${words}`);
    button.title = `Theme: ${words} (t)`;
  };

  const turnTheme = () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    remember("stepwell.theme", next === "system" ? null : next);
    nameTheme(document.querySelector("[data-theme-toggle]"));
  };

  const nameFold = (button) => {
    const folded = root.dataset.rail === "folded";
    const words = folded ? "Unfold the navigation" : "Fold the navigation";
    button.setAttribute("aria-label", words);
    button.setAttribute("aria-expanded", String(!folded));
    button.title = words;
  };

  const foldRail = (button) => {
    const folded = root.dataset.rail === "folded";
    if (folded) delete root.dataset.rail;
    else root.dataset.rail = "folded";
    remember("stepwell.rail", folded ? null : "folded");
    nameFold(button);
  };

  let loaded = null;
  const keys = async () => (loaded ??= await import("./keys.js"));

  document.addEventListener("DOMContentLoaded", () => {
    const toggle = document.querySelector("[data-theme-toggle]");
    const fold = document.querySelector("[data-fold]");
    nameTheme(toggle);
    nameFold(fold);
    toggle.addEventListener("click", turnTheme);
    fold.addEventListener("click", () => foldRail(fold));
    document.querySelector("[data-palette]").addEventListener("click", () => keys().then((it) => it.openPalette()));
    document.querySelector("[data-keys]").addEventListener("click", () => keys().then((it) => it.openSheet()));
  });

  addEventListener("load", keys);

  document.addEventListener("keydown", (event) => {
    // The browser's own Ctrl-K must be held back at once; the module may still be on its way.
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") event.preventDefault();
    if (["Control", "Shift", "Alt", "Meta", "Tab"].includes(event.key)) return;
    // An import answers later even when it is done: the next key would come before this one has had its effect.
    if (loaded) loaded.onKey(event);
    else keys().then((it) => it.onKey(event));
  });
})();
