/**
 * A picture of a link's queue: each packet that waits, in its lane, as it turns to CE, is dropped, and leaves. What is
 * drawn follows from the packets and the instant that is shown, so that a pause stands still and a step moves as far.
 */
import type { Samples } from "../../types";
import { Canvas } from "../canvas";
import { type LegendEntry, Panel } from "../panel";
import { type Look, lookOf, lookOfQueue, roleOf, SERVICES } from "../roles";
import { type Drawn, hasFlowQueues, partiesOf, qdiscOf, queuesOf, type Scene } from "../scene";
import { ofQueue, ofService, rateAt } from "../store";
import { colourOf, FONT, figures, theme } from "../theme";
import { Brush } from "./brush";
import { byEcn, byFlow, bySingle, type Gone, type Lane, Lanes, type Packet, someOf } from "./lanes";
import { type Layout, layoutOf, type Row, Scale } from "./layout";

const MTU = 1514;
// Pixels of a full packet on the link, and how fast it may go there, in pixels per second.
const WIRE_PACKET = 15;
const WIRE_SPEED = 340;
// How long a dropped packet falls, in seconds.
const FALL = 0.8;
const KEPT = 96;
const LANES_SHOWN = 8;
// A lane of a flow that sends no more is shown for as long, in ms.
const LINGER = 3000;

interface Fallen extends Gone {
  lane: string;
}

export class Picture implements Drawn {
  readonly panel: Panel;
  private readonly canvas: Canvas;
  private readonly brush: Brush;
  private readonly scale = new Scale();
  private lanes = new Lanes("");
  private departed: Gone[] = [];
  private fallen: Fallen[] = [];
  /** Whether single packets are told. */
  private watching = false;
  private layout: Layout = layoutOf([], 300, 150);
  private names: string[] = [];
  private readonly seen = new Map<string, number>();
  private frame_ms = 0;
  private wireTold_ns = Number.NEGATIVE_INFINITY;
  private qdisc = "";

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
  ) {
    this.panel = new Panel(into, "queue", "The queue", "");
    this.canvas = new Canvas(this.panel.body, () => this.fit());
    this.brush = new Brush(this.canvas.to);
  }

  add({ packets }: Samples): void {
    const place = this.scene.run?.links.findIndex(({ name }) => name === this.scene.link) ?? 0;
    const unknown = packets?.unknown[place];
    if (packets === undefined || unknown === undefined || packets.cut) {
      if (this.watching) this.forget();
      this.watching = false;
      return;
    }
    if (!this.watching) this.forget();
    this.watching = true;
    this.lanes.add(packets, unknown);
  }

  private forget(): void {
    this.lanes.reset();
    this.departed = [];
    this.fallen = [];
    this.wireTold_ns = Number.NEGATIVE_INFINITY;
  }

  clear(): void {
    this.forget();
    this.watching = false;
    this.scale.reset();
    this.seen.clear();
  }

  arrange(): void {
    const { scene } = this;
    if (this.lanes.link !== scene.link) {
      this.lanes = new Lanes(
        scene.link,
        (gone) => this.left(gone),
        (gone) => this.dropped(gone),
      );
      this.watching = false;
    }
    this.qdisc = qdiscOf(scene);
    const word = this.qdisc.split(/\s+/)[0] ?? "";
    const queues = queuesOf(scene);
    const isDual = queues.includes("L") && queues.includes("C") && /dual|docsis|curvy/.test(word);
    this.lanes.sort(isDual ? byEcn : hasFlowQueues(this.qdisc) ? byFlow : bySingle);
    this.panel.setUnit(this.caption(isDual, word));
    const parties = partiesOf(scene);
    const other = lookOf("other");
    this.panel.setLegend([
      ...parties.map(({ name, look }): LegendEntry => ({ key: name, label: `${name} packet`, look, drawn: "packet" })),
      { key: " mark", label: "marked: CE", look: parties[0]?.look ?? other, drawn: "mark" },
      { key: " drop", label: "dropped", look: parties.at(-1)?.look ?? other, drawn: "drop" },
    ]);
    this.names = isDual ? ["L", "C"] : hasFlowQueues(this.qdisc) ? [] : ["all"];
    this.fit();
  }

  private caption(isDual: boolean, word: string): string {
    if (isDual) {
      const [low, other] = this.scene.roles.includes("scalable") ? ["L4S", "Classic ones"] : ["ECT(1)", "others"];
      return `${low} packets wait in L, ${other} in C; one link serves both`;
    }
    if (hasFlowQueues(this.qdisc)) return `${word} gives each flow a queue of its own and serves them in turn`;
    return "one queue: all flows wait behind each other";
  }

  private fit(): void {
    this.layout = layoutOf(this.names, this.canvas.width, this.canvas.height);
  }

  private left(gone: Gone): void {
    // Where they leave faster than the eye can follow, some stand for all.
    const apart = (WIRE_PACKET / WIRE_SPEED) * this.scene.speed * 1e9;
    if (gone.time_ns - this.wireTold_ns < apart * 0.999 && apart > this.service_ns(MTU)) return;
    this.wireTold_ns = gone.time_ns;
    this.departed.push(gone);
    if (this.departed.length > KEPT) this.departed.shift();
  }

  private dropped(gone: Gone): void {
    this.fallen.push({ ...gone, lane: gone.packet.lane });
    if (this.fallen.length > KEPT) this.fallen.shift();
  }

  /** How long the link takes for so many bytes. */
  private service_ns(bytes: number): number {
    const { run, link, now_s } = this.scene;
    return run ? (bytes * 8e9) / rateAt(run, link, now_s, this.scene.store.rates) : 1e5;
  }

  private lookOf(flow: string): Look {
    return this.scene.looks.get(flow) ?? lookOf("other");
  }

  draw(): void {
    const { scene } = this;
    const wall = performance.now();
    const dt = Math.min(wall - this.frame_ms, 100);
    this.frame_ms = wall;
    const now_ns = scene.now_s * 1e9;
    this.lanes.advance(now_ns);
    if (!this.panel.due) return;
    if (!scene.run) {
      this.panel.say("Nothing runs yet.");
      return;
    }
    this.panel.say(null);
    if (qdiscOf(scene) !== this.qdisc) this.arrange();
    if (this.watching && hasFlowQueues(this.qdisc)) this.arrangeFlows(wall);
    else if (hasFlowQueues(this.qdisc) && !this.watching && this.names.join() !== "all") {
      this.names = ["all"];
      this.fit();
    }
    const { to, width, height } = this.canvas;
    to.clearRect(0, 0, width, height);
    const lengths = this.names.map((name) => this.lengthOf(name));
    this.scale.update(Math.max(...lengths, 1), wall, dt);
    this.drawGround();
    this.layout.rows.forEach((row, i) => {
      if (this.watching) this.drawLane(row, now_ns);
      else this.drawCount(row, lengths[i] as number);
      this.drawLabel(row, lengths[i] as number);
    });
    if (this.watching) {
      this.drawArrivals(now_ns);
      this.drawWire(now_ns);
      this.drawFallen(now_ns);
    } else this.drawShares();
    this.drawAxis();
  }

  /** Lanes of the flows that have packets, in the order of the run. */
  private arrangeFlows(wall: number): void {
    for (const lane of this.lanes.lanes.values()) if (lane.length) this.seen.set(lane.name, wall);
    for (const [name, last] of this.seen) if (wall - last > LINGER) this.seen.delete(name);
    const groups = this.scene.run?.flows.map(({ name }) => name) ?? [];
    const names = someOf([...this.seen.keys()], groups, LANES_SHOWN);
    const word = this.qdisc.split(/\s+/)[0] ?? "";
    const some = names.length < this.seen.size ? ` (${names.length} of ${this.seen.size} shown)` : "";
    this.panel.setUnit(this.caption(false, word) + some);
    if (names.join("|") === this.names.join("|")) return;
    this.names = names;
    this.fit();
  }

  private lengthOf(name: string): number {
    if (this.watching) return this.lanes.lanes.get(name)?.length ?? 0;
    const { store, link, now_s } = this.scene;
    const key = ofQueue(link, name, "backlog_packets");
    // The newest sample that is not later than the instant shown.
    const count = store.fine.since(now_s);
    const value = store.fine.column(key, count)?.[0] ?? store.fine.get(key);
    return Number.isFinite(value) ? value : 0;
  }

  private get packetWidth(): number {
    return Math.min((this.layout.gate - this.layout.left) / this.scale.shown, 18);
  }

  private drawGround(): void {
    const { to } = this.canvas;
    const { rows, left, gate, funnel, right, wire } = this.layout;
    to.fillStyle = theme.ground;
    for (const row of rows) to.fillRect(left, row.top, gate - left, row.height);
    // The lanes lead into the link.
    to.beginPath();
    for (const row of rows) {
      to.moveTo(gate, row.top);
      to.lineTo(gate + funnel, wire.top);
      to.lineTo(gate + funnel, wire.top + wire.height);
      to.lineTo(gate, row.top + row.height);
      to.closePath();
    }
    to.fill();
    to.fillRect(gate + funnel - 0.5, wire.top, right - gate - funnel, wire.height);
  }

  /** Which part of its service the head of a lane has had at this instant, 0 to 1. */
  private progress(lane: Lane, now_ns: number): number {
    const first = lane.at(0);
    if (!first) return 0;
    const service = this.service_ns(first.bytes);
    if (service / this.scene.speed < 8e6) return 0;
    for (const { what, time_ns, id } of this.lanes.ahead(64)) {
      if (time_ns - now_ns > service) return 0;
      if (what === 1 && id === first.id) return Math.max(0, 1 - (time_ns - now_ns) / service);
    }
    return 0;
  }

  private drawLane(row: Row, now_ns: number): void {
    const lane = this.lanes.lanes.get(row.name);
    if (!lane) return;
    const { left, gate } = this.layout;
    const width = this.packetWidth;
    const shift = this.progress(lane, now_ns);
    // Of packets thinner than a pixel, those are drawn that begin one.
    const step = Math.max(1, Math.floor(1 / width));
    const count = Math.min(lane.length, Math.ceil((gate - left) / width) + 1);
    const gap = width > 5 ? 1.5 : width > 2.5 ? 0.6 : 0;
    for (let place = 0; place < count; place += step) {
      const packet = lane.at(place) as Packet;
      const x = gate - (place + 1 - shift) * width;
      if (place === 0 && shift > 0) {
        this.drawMoving(packet, row, x + width, width);
        continue;
      }
      const w = Math.max(width * step - gap, 0.8);
      this.brush.packet(this.lookOf(packet.flow), packet.member, x, row.top, w, row.height, packet.ecn === 3);
    }
    this.brush.flush();
    if (lane.length > count) {
      const { to } = this.canvas;
      to.fillStyle = theme.ink;
      to.font = FONT;
      to.textAlign = "left";
      to.fillText("◂ …", left + 2, row.top + row.height / 2 + 4);
    }
  }

  /** A packet on its way from its lane (right edge at the gate) into the link: it takes the link's height and width. */
  private drawMoving(packet: Packet, row: Row | undefined, right: number, from: number, marked = false): void {
    const { gate, funnel, wire } = this.layout;
    const part = Math.max(0, Math.min(1, (right - gate) / funnel));
    const of = (a: number, b: number) => a + (b - a) * part;
    const full = Math.max(3, (WIRE_PACKET - 2) * Math.min(1, packet.bytes / MTU));
    const width = of(Math.max(from - 1.5, 1), full);
    const [top, height] = [of(row?.top ?? wire.top, wire.top + 2), of(row?.height ?? wire.height, wire.height - 4)];
    this.brush.packet(
      this.lookOf(packet.flow),
      packet.member,
      right - width,
      top,
      width,
      height,
      marked || packet.ecn === 3,
    );
  }

  private drawArrivals(now_ns: number): void {
    const { speed } = this.scene;
    const width = this.packetWidth;
    if (this.service_ns(MTU) / speed < 8e6) return;
    const { gate, left } = this.layout;
    const coming = new Map<string, number>();
    for (const { what, time_ns, packet } of this.lanes.ahead(64)) {
      if (what !== 0 || !packet) continue;
      const row = this.layout.rows.find((one) => one.name === packet.lane);
      if (!row) continue;
      const before = (coming.get(packet.lane) ?? 0) + (this.lanes.lanes.get(packet.lane)?.length ?? 0);
      coming.set(packet.lane, (coming.get(packet.lane) ?? 0) + 1);
      const wall_s = (time_ns - now_ns) / speed / 1e9;
      const x = gate - (before + 1) * width - wall_s * 900;
      if (x < left) continue;
      const [w, h] = [Math.max(width - 1.5, 1), row.height * 0.4];
      const y = row.top + (row.height - h) / 2;
      this.brush.packet(this.lookOf(packet.flow), packet.member, x, y, w, h, packet.ecn === 3);
    }
    // Those that have yet to come are paler and smaller than those that wait.
    const { to } = this.canvas;
    to.globalAlpha = 0.45;
    this.brush.flush();
    to.globalAlpha = 1;
  }

  private drawWire(now_ns: number): void {
    const { gate, right } = this.layout;
    const speed = this.scene.speed;
    const back = this.service_ns(MTU) / speed / 1e9;
    // Packets that follow each other touch, unless they are too fast to be seen.
    const pixels = Math.min(WIRE_PACKET / back, WIRE_SPEED);
    const { to } = this.canvas;
    to.save();
    to.beginPath();
    to.rect(gate, 0, right - gate, this.canvas.height);
    to.clip();
    const width = this.packetWidth;
    for (const { packet, time_ns } of this.departed) {
      const x = gate + width + ((now_ns - time_ns) / speed / 1e9) * pixels;
      if (x > right + WIRE_PACKET) continue;
      const row = this.layout.rows.find((one) => one.name === packet.lane);
      this.drawMoving(packet, row, x, width, packet.marked);
    }
    this.brush.flush();
    to.restore();
  }

  private drawFallen(now_ns: number): void {
    const { gate, rows } = this.layout;
    const width = this.packetWidth;
    const { to } = this.canvas;
    for (const { packet, time_ns, place, lane } of this.fallen) {
      const age = (now_ns - time_ns) / this.scene.speed / 1e9;
      const row = rows.find((one) => one.name === lane);
      if (age > FALL || !row) continue;
      const part = age / FALL;
      const w = Math.max(width, 7);
      const x = Math.max(this.layout.left, gate - (place + 1) * width) - 14 * part;
      const y = row.top + (this.canvas.height - row.top) * part * part;
      to.globalAlpha = 1 - part * part;
      to.save();
      to.translate(x + w / 2, y + row.height / 2);
      to.rotate(-0.7 * part);
      this.brush.packet(this.lookOf(packet.flow), packet.member, -w / 2, -row.height / 2, w, row.height, false);
      this.brush.flush();
      to.strokeStyle = theme.ink;
      to.lineWidth = 1.5;
      to.beginPath();
      to.moveTo(-w / 2, -row.height / 2);
      to.lineTo(w / 2, row.height / 2);
      to.moveTo(w / 2, -row.height / 2);
      to.lineTo(-w / 2, row.height / 2);
      to.stroke();
      to.restore();
      to.globalAlpha = 1;
    }
  }

  /** As long as the packets that wait, without telling them apart. */
  private drawCount(row: Row, length: number): void {
    const { gate, left } = this.layout;
    const { to } = this.canvas;
    const width = Math.min(length * this.packetWidth, gate - left);
    to.fillStyle = colourOf(lookOfQueue(row.name));
    to.globalAlpha = row.name === "all" ? 0.55 : 0.85;
    to.fillRect(gate - width, row.top, width, row.height);
    to.globalAlpha = 1;
  }

  /** The link, filled by each service as far as it uses it. */
  private drawShares(): void {
    const { gate, funnel, right, wire } = this.layout;
    const { to } = this.canvas;
    const { store, roles, run, link, now_s } = this.scene;
    if (!run) return;
    const capacity = rateAt(run, link, now_s, this.scene.store.rates) * 1e-6;
    let top = wire.top;
    for (const role of roles) {
      const rate = store.coarse.get(ofService(role, "rate_mbps"));
      if (!(rate > 0)) continue;
      const height = Math.min((rate / capacity) * wire.height, wire.top + wire.height - top);
      to.fillStyle = colourOf(lookOf(role));
      to.fillRect(gate + funnel, top, right - gate - funnel, height);
      top += height;
    }
  }

  private drawLabel(row: Row, length: number): void {
    const { to } = this.canvas;
    const { labelsAbove, left, gate } = this.layout;
    const { store, link, run } = this.scene;
    const width = gate - left;
    const isQueue = row.name === "L" || row.name === "C" || row.name === "all";
    const key = isQueue ? ofQueue(link, row.name, "sojourn_ms") : "";
    const delay = isQueue ? store.coarse.get(key) : Number.NaN;
    const flow = run?.flows.find((one) => one.name === row.name.slice(0, row.name.lastIndexOf(" ")));
    const name = isQueue
      ? row.name === "all"
        ? "queue"
        : row.name
      : flow && flow.count > 1
        ? row.name
        : (flow?.name ?? row.name);
    const look = isQueue ? lookOfQueue(row.name) : flow ? this.lookOf(flow.name) : lookOf("other");
    const service = flow ? SERVICES[roleOf(flow)] : "";
    const count = `${Math.round(length)} waiting`;
    const time = Number.isFinite(delay) ? `${figures(delay, 2)} ms` : "";
    const words = isQueue ? [name, time, count] : [name, "", service];
    to.textAlign = "left";
    to.fillStyle = colourOf(look);
    if (labelsAbove) {
      to.fillRect(left, row.top - 13, 10, 10);
      this.write(words.filter(Boolean).slice(0, 2).join("  "), left + 15, row.top - 4, 0.6 * width, true);
      this.write(isQueue ? count : "", gate, row.top - 4, 0.4 * width, false, "right");
      return;
    }
    const isLow = row.height < 34;
    const y = row.top + row.height / 2 + (isLow ? 4 : -4);
    if (row.height < 9) return;
    to.fillRect(0, y - 9, 10, 10);
    this.write(`${words[0]}  ${words[1]}`, 15, y, left - 23, true);
    if (!isLow) this.write(words[2] as string, 15, y + 16, left - 23, false);
  }

  private write(
    text: string,
    x: number,
    y: number,
    room: number,
    isBold: boolean,
    align: CanvasTextAlign = "left",
  ): void {
    const { to } = this.canvas;
    to.textAlign = align;
    to.font = isBold ? `600 ${FONT}` : FONT;
    to.fillStyle = isBold ? theme.ink : theme.dim;
    to.fillText(text, x, y, Math.max(room, 10));
  }

  private drawAxis(): void {
    const { to } = this.canvas;
    const { left, gate, right, axis, labelsAbove } = this.layout;
    const width = this.packetWidth;
    const most = (gate - left) / width;
    const step =
      [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000].find((one) => one * width >= 62) ?? 1e5;
    to.strokeStyle = theme.dim;
    to.fillStyle = theme.dim;
    to.font = FONT;
    to.lineWidth = 1;
    to.beginPath();
    to.moveTo(left, axis + 0.5);
    to.lineTo(gate, axis + 0.5);
    to.textAlign = "center";
    for (let n = 0; n <= most * 1.001; n += step) {
      const x = Math.round(gate - n * width) + 0.5;
      to.moveTo(x, axis);
      to.lineTo(x, axis + 4);
      to.fillText(String(n), Math.max(x, left + to.measureText(String(n)).width / 2 - 8), axis + 16);
    }
    to.stroke();
    const ms = (this.service_ns(MTU) * step) / 1e6;
    to.textAlign = "left";
    const words = `the link sends ${step} in ${figures(ms, 2)} ms`;
    to.fillText(labelsAbove ? `packets; ${words}` : `packets waiting; ${words}`, left, axis + 30);
    to.textAlign = "right";
    const { run, link, now_s } = this.scene;
    const bps = run ? rateAt(run, link, now_s, this.scene.store.rates) : 0;
    const rate = bps >= 1e9 ? `${figures(bps * 1e-9)} Gb/s` : `${figures(bps * 1e-6)} Mb/s`;
    to.fillText(labelsAbove ? rate : `link, ${rate}`, right - 2, axis + (labelsAbove ? 30 : 16), right - gate);
    const unknown = this.watching && this.lanes.unknown ? `${this.lanes.unknown} unknown` : "";
    if (labelsAbove) return;
    to.fillText(this.watching ? unknown : "flows not distinguished", right - 2, axis + 30, right - gate);
  }

  refresh(): void {}
  redraw(): void {}
}
