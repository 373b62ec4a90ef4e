/** A canvas as large as its place, in CSS pixels. */
export class Canvas {
  readonly element: HTMLCanvasElement;
  readonly to: CanvasRenderingContext2D;
  width = 300;
  height = 150;

  constructor(
    readonly root: HTMLElement,
    private readonly resized: () => void = () => {},
  ) {
    this.element = document.createElement("canvas");
    const to = this.element.getContext("2d");
    if (!to) throw new Error("this browser draws no canvas");
    this.to = to;
    root.append(this.element);
    new ResizeObserver(() => {
      this.fit();
      this.resized();
    }).observe(root);
    this.fit();
  }

  private fit(): void {
    const ratio = devicePixelRatio || 1;
    this.width = Math.max(this.root.clientWidth, 100);
    this.height = Math.max(this.root.clientHeight, 60);
    this.element.width = Math.round(this.width * ratio);
    this.element.height = Math.round(this.height * ratio);
    this.to.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
}
