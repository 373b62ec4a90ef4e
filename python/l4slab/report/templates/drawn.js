// What the page draws: cases, from their runs and the distributions in the page, and the figures of a study. Each is drawn
// when it is unfolded.
{
  // One trial in full, the same lines of the others faintly.
  async function panelsOf({ runs, drawn, shown, published = [] }) {
    const [full, ...others] = await Promise.all([drawn, ...runs.filter((run) => run !== drawn)].map(runOf));
    return { warmup: full.warmup_s, panels: full.panels.filter((panel) => shown.includes(panel.title)).map((panel) => {
      const faint = others.flatMap((other) => {
        const same = other.panels.find((one) => one.title === panel.title);
        return (same?.lines ?? []).filter((one) => !one.name.startsWith("capacity"))
          .map((one) => ({ ...one, faint: true, y: full.time.map((_, place) => one.y[place] ?? null) }));
      });
      const means = published.filter((mean) => mean.panel === panel.title)
        .map(({ name, value }) => ({ name: `${name}, published`, y: full.time.map((time) => (time > full.warmup_s ? value : null)), colour: null, dash: [1, 4] }));
      return { ...panel, x: full.time, lines: [...faint, ...panel.lines, ...means] };
    }) };
  }

  function delayPanels(delays) {
    return delays.flatMap(({ label, titles, least, lines }) => titles.map((title, tail) => {
      // The last value has nothing beyond it: its line goes down through the end of the axis.
      const [x, ...parts] = uPlot.join(lines.map((one) => [one.x, tail ? one.y.map((part) => Math.max(100 - part, 1e-9)) : one.y]));
      return { title, unit: "%", label, x, xLog: true, yLog: tail === 1, xEnds: [x[0] / 1.05, x.at(-1) * 1.05], ends: tail ? [least, 100] : [0, 103], lines: lines.map(({ name, colour, dash }, place) => ({ name, colour, dash, y: parts[place] })) };
    }));
  }

  function placeIn(holder, name = "") {
    const place = element("div", null);
    place.className = name;
    holder.append(place);
    return place;
  }

  async function drawCase(holder, note) {
    const one = index.cases[Number(holder.dataset.case)];
    const { panels, warmup } = await panelsOf(one);
    if (!panels.length) note.textContent = "This case has no time series.";
    holder.replaceChildren();
    const [time, delays] = [placeIn(holder), placeIn(holder, "side-by-side")];
    drawCharts(time, panels, { key: `case-${holder.dataset.case}`, warmup });
    for (const panel of delayPanels(one.delays)) drawCharts(placeIn(delays), [panel], {});
  }

  function legendOf(panels) {
    const shown = new Map(panels.flatMap((panel) => panel.lines).filter((one) => one.name).map((one) => [one.name, one]));
    const entries = [...shown.values()].map(({ name, colour, dash }) => {
      const sample = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      sample.innerHTML = `<line x1="0" x2="28" y1="5" y2="5" stroke="${colour ?? "currentColor"}" stroke-width="2" stroke-dasharray="${dash.join(" ")}"/>`;
      return element("span", null, sample, name);
    });
    if (panels.some((panel) => panel.lines.some((one) => one.low))) entries.push(element("span", "area: lowest to highest"));
    if (panels.some((panel) => panel.marks.length)) entries.push(element("span", "◇ published"));
    const made = element("p", null, ...entries);
    made.className = "legend";
    return made;
  }

  async function drawFigure(holder) {
    const { panels, runs, columns, label, x_label: xLabel, limits: ends, x_limits: xEnds, log, x_log: xLog, steps } = index.figures[Number(holder.dataset.figure)];
    const several = await Promise.all(runs.map(panelsOf));
    holder.replaceChildren(...(panels.length ? [legendOf(panels)] : []));
    const grid = placeIn(holder, "panels");
    grid.style.setProperty("--across", columns);
    several.forEach((one, place) => {
      const of = placeIn(grid);
      if (runs[place].title) of.append(element("h3", runs[place].title));
      const alike = one.panels.map((panel) => ({ ...panel, ends: [0, 1.05 * topOf(several, panel.title)] }));
      drawCharts(placeIn(of), alike, { key: `figure-${holder.dataset.figure}`, warmup: one.warmup });
    });
    if (!panels.length) return;
    // Panels of one figure have the same axes.
    const all = panels.flatMap((panel) => panel.x).filter((x) => !xLog || x > 0);
    const [low, high] = all.reduce(([least, most], x) => [Math.min(least, x), Math.max(most, x)], [Infinity, -Infinity]);
    const own = xLog ? [low / 1.12, high * 1.12] : [Math.min(0, low), high];
    const shared = ends ?? (log ? undefined : commonEnds(panels));
    for (const panel of panels) {
      drawCharts(placeIn(grid), [{ ...panel, label: panels.length > 1 ? "" : xLabel, xLog, yLog: log, xEnds: xEnds ?? own, ends: shared, steps, spanGaps: true, legend: false }], {});
    }
    if (label) holder.prepend(element("h3", label));
    if (panels.length > 1 && xLabel) placeIn(holder, "x-label").textContent = xLabel;
  }

  // The end of the axis that the panels of this title have together.
  function topOf(several, title) {
    const tops = several.flatMap(({ panels, warmup }) => panels.filter((panel) => panel.title === title).map(({ x, lines }) => {
      const { largest, end } = limits(x, lines, warmup);
      return Math.min(largest, end);
    }));
    return Math.max(...tops) || 1;
  }

  function commonEnds(panels) {
    let [low, high] = [0, 0];
    for (const { lines, marks } of panels) {
      for (const value of [...lines.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]), ...marks.flatMap(({ y, error }) => [y - error, y + error])]) {
        low = Math.min(low, value ?? 0);
        high = Math.max(high, value ?? 0);
      }
    }
    return [low * 1.05, high * 1.05 || 1];
  }

  async function draw(details) {
    const holder = details.querySelector(":scope > .drawn, :scope > figure > .drawn");
    if (!holder || holder.isDrawn || !details.open) return;
    holder.isDrawn = true;
    const note = details.querySelector(":scope > .note, :scope > figure > figcaption");
    try {
      await (holder.dataset.case ? drawCase(holder, note) : drawFigure(holder));
    } catch (error) {
      holder.isDrawn = false;
      note.textContent = `This cannot be drawn: ${error.message}.`;
    }
  }

  for (const holder of document.querySelectorAll(".drawn")) {
    const details = holder.closest("details");
    details.addEventListener("toggle", () => draw(details));
    // What is unfolded for paper only is there before the browser prints, unless it needs runs.
    addEventListener("beforeprint", () => draw(details));
    draw(details);
  }
}
