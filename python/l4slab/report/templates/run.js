// A run, opened by #run=ID from wherever there is a link or row of it.
{
  const dialog = document.getElementById("run");
  const charts = document.getElementById("charts");
  const trials = document.getElementById("trial");
  const sync = uPlot.sync("time");
  let shown = [];
  let current = null;

  function element(tag, text, ...children) {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    made.append(...children);
    return made;
  }

  function draw(run) {
    const style = getComputedStyle(document.body);
    const line = { stroke: style.getPropertyValue("--line"), width: 1 };
    const axis = { stroke: style.getPropertyValue("--dim"), grid: line, ticks: line };
    shown.forEach((chart) => { sync.unsub(chart); chart.destroy(); });
    charts.replaceChildren();
    shown = run.panels.map((panel, number) => {
      const holder = document.createElement("div");
      charts.append(element("h3", `${panel.title} (${panel.unit})`), holder);
      const last = number === run.panels.length - 1;
      return new uPlot({
        width: charts.clientWidth,
        height: last ? 190 : 170,
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
        cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
        axes: [{ ...axis, size: 30, ...(last && { label: "time (s)", labelSize: 22 }) }, { ...axis, size: 58 }],
        series: [{ label: "time (s)" }].concat(panel.lines.map((one) => ({
          label: one.name, width: 1.3, points: { show: false }, stroke: one.colour ?? style.color, dash: one.dash,
        }))),
      }, [run.time].concat(panel.lines.map((one) => one.y)), holder);
    });
  }

  function numbers(run, id) {
    const parts = [];
    const files = index.files[id] ?? [];
    if (files.length) {
      const list = element("ul", null, ...files.map(([name, address]) => {
        const link = element("a", name);
        link.href = address;
        return element("li", null, link);
      }));
      parts.push(element("h3", "Files"), list);
    }
    if (run.setup.length) parts.push(element("h3", "Set-up"), table([], run.setup, "pairs"));
    run.measured.forEach(({ heads, rows }, place) => {
      parts.push(element("h3", place ? "What the queues counted" : "What the flows got"), table(["", ...heads], rows, "numbers"));
    });
    document.getElementById("numbers").replaceChildren(...parts);
  }

  function table(heads, rows, kind) {
    const made = element("table", null);
    made.className = kind;
    if (heads.length) made.createTHead().append(element("tr", null, ...heads.map((head) => element("th", head))));
    const body = made.createTBody();
    for (const [name, ...values] of rows) {
      const head = element("th", name);
      head.scope = "row";
      body.append(element("tr", null, head, ...values.map((value) => element("td", value))));
    }
    const holder = element("div", null, made);
    holder.className = "wide";
    return holder;
  }

  // The page beside this one takes the run's description; as text, because a seed has more digits than a number.
  function changeable(run) {
    const place = document.getElementById("change");
    place.replaceChildren();
    if (!index.live || !run?.description) return;
    const link = element("a", "Change this run");
    place.append(link);
    const bytes = String.fromCharCode(...new TextEncoder().encode(run.description));
    link.href = `live.html#run=${btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
  }

  async function open(id) {
    const note = document.getElementById("run-note");
    const title = document.getElementById("run-title");
    current = null;
    changeable(null);
    title.textContent = `run ${id}`;
    note.textContent = "Loading …";
    charts.replaceChildren();
    document.getElementById("numbers").replaceChildren();
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    try {
      const all = await allRuns();
      const described = all.get(id);
      if (described) {
        title.textContent = described.label;
        const others = [...all.values()].filter((other) => other.case === described.case);
        trials.replaceChildren(...others.map((other) => {
          const choice = element("option", String(other.trial));
          choice.value = other.id;
          choice.selected = other.id === id;
          return choice;
        }));
      }
      const run = await runOf(id);
      if (location.hash !== `#run=${id}`) return;
      current = run;
      note.textContent = `Run ${id}. ` + (run.panels.length ? "Drag to zoom, double-click for all, click a name to hide its line." : "It has no time series.");
      draw(run);
      numbers(run, id);
      changeable(run);
    } catch (error) {
      note.textContent = `The run cannot be opened: ${error.message}.`;
    }
  }

  // The neighbours are those of the result table, as it is sorted and filtered.
  async function step(by) {
    const order = window.l4slab.order?.() ?? [];
    const list = order.length ? order : [...(await allRuns()).keys()];
    const at = list.indexOf(location.hash.slice(5));
    const next = list[(at + by + list.length) % list.length];
    if (next) location.replace(`#run=${next}`);
  }

  function follow() {
    if (location.hash.startsWith("#run=")) open(decodeURIComponent(location.hash.slice(5)));
    else if (dialog.open) dialog.close();
  }

  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("next").addEventListener("click", () => step(1));
  document.getElementById("close").addEventListener("click", () => dialog.close());
  trials.addEventListener("change", () => location.replace(`#run=${trials.value}`));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    if (location.hash.startsWith("#run=")) history.replaceState(null, "", location.pathname + location.search);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (current) draw(current); });
  addEventListener("resize", () => shown.forEach((chart) => chart.setSize({ width: charts.clientWidth, height: chart.height })));
  addEventListener("hashchange", follow);
  follow();
}
