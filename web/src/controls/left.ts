/** The left side: links, the two services, and the rest of the run. Built anew where its shape changes, set otherwise. */
import { kindOf, stationNames } from "../model/media";
import type { LinkSpec, Run, Vocabulary } from "../types";
import { h } from "./dom";
import { type FlowActions, type ServicePanel, serviceOf, servicePanel } from "./flows";
import { KINDS, type Service } from "./groups";
import { type LinkActions, type LinkPanel, linkPanel } from "./link";
import { type RestPanel, restPanel } from "./rest";

export type LeftActions = LinkActions & FlowActions;

const SERVICES: readonly Service[] = ["l4s", "classic"];

export class Left {
  readonly root = h("div", { className: "controls" });
  private shape = "";
  private links = new Map<string, LinkPanel>();
  private services = new Map<Service, ServicePanel>();
  private rest: RestPanel | undefined;

  constructor(private readonly actions: LeftActions) {}

  /** Shows what is set; `run` has the whole, for what is only listed. */
  set(now: Run, run: Run): void {
    const shape = shapeOf(now, this.actions.vocabulary());
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(now);
    }
    for (const link of now.links) this.links.get(link.name)?.set(link);
    for (const [service, panel] of this.services) panel.set(now.flows.filter((flow) => serviceOf(flow) === service));
    this.rest?.set(run);
  }

  private build(run: Run): void {
    const single = run.links.length === 1;
    const panel = (link: LinkSpec) => linkPanel(link, single, stationNames(run, link), this.actions);
    this.links = new Map(run.links.map((link) => [link.name, panel(link)]));
    this.services = new Map(
      SERVICES.map((service) => [
        service,
        servicePanel(
          service,
          run.flows.filter((flow) => serviceOf(flow) === service),
          this.actions,
        ),
      ]),
    );
    this.rest = restPanel(this.actions.anew);
    const panels = [...this.links.values(), ...this.services.values(), this.rest].map(({ root }) => root);
    keepingPlace(this.root, () => this.root.replaceChildren(...panels));
  }
}

/** What the controls are built for. */
function shapeOf(run: Run, vocabulary: Vocabulary | null): string {
  const flows = run.flows.map((flow) => [flow.name, flow.kind, serviceOf(flow), KINDS.downloads.is(flow)]);
  const links = run.links.map((link) => [link.name, kindOf(link.medium ?? ""), stationNames(run, link)]);
  return JSON.stringify([links, flows, vocabulary?.version]);
}

/** Does something, and gives back what had the focus and what was unfolded. */
function keepingPlace(root: HTMLElement, act: () => void): void {
  const focused = document.activeElement?.id;
  const unfolded = [...root.querySelectorAll("details[open]")].map(({ id }) => id);
  act();
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
}
