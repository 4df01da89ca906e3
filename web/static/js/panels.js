// Which part of a page is shown where there is no room for all of them side by side.

export class Panels {
  constructor(root, links) {
    this.root = root;
    this.links = links;
  }

  start() {
    for (const link of this.links) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.#show(link.dataset.panel);
      });
    }
    const asked = location.hash.slice(1);
    if (this.links.some((link) => link.dataset.panel === asked)) this.#show(asked);
  }

  #show(name) {
    this.root.dataset.shown = name;
    for (const link of this.links) {
      if (link.dataset.panel === name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    history.replaceState(null, "", `#${name}`);
  }
}
