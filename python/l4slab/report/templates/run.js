// A run, opened by #run=ID from wherever there is a link or row of it.
{
  const dialog = document.getElementById("run");
  const holder = document.getElementById("charts");
  const trials = document.getElementById("trial");

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
    changeable(null);
    title.textContent = `run ${id}`;
    note.textContent = "Loading …";
    clearCharts(holder);
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
      note.textContent = `Run ${id}. ` + (run.panels.length ? "Drag to zoom, double-click for all, click a name to hide its line." : "It has no time series.");
      drawCharts(holder, run.panels.map((panel) => ({ ...panel, x: run.time })), { key: "run", warmup: run.warmup_s });
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
  addEventListener("hashchange", follow);
  follow();
}
