/** Elements in one expression. */

type Child = Node | string | null | undefined | false;
type Props<E> = Partial<Omit<E, "style" | "dataset" | "list">> & {
  data?: Record<string, string>;
  aria?: Record<string, string>;
};

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props<HTMLElementTagNameMap[K]> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const { data = {}, aria = {}, ...own } = props;
  const element = Object.assign(document.createElement(tag), own);
  Object.assign(element.dataset, data);
  for (const [name, value] of Object.entries(aria)) element.setAttribute(`aria-${name}`, value);
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** What stands for a name in an id. */
export function slug(name: string): string {
  return name.replace(/\s+/g, "_");
}

/** Says a sentence beside a control, or nothing. */
export function sentence(id: string): HTMLElement & { say(text: string | null): void } {
  const element = h("p", { id, className: "wrong", hidden: true, role: "alert" });
  return Object.assign(element, {
    say(text: string | null) {
      element.textContent = text ?? "";
      element.hidden = !text;
    },
  });
}
